"""What an attack sees: the scores of the canaries that were among the examples, beside those of the others."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

KINDS = {"trained on": (True, "stepfilled"), "left out": (False, "step")}  # told apart in print too


def drawn(attacks: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """A panel for each attack, {title: (scores (m,), included (m,))}: two histograms, of the canaries trained on and of
    those left out, in units of the latter's standard deviation.  The less they overlap, the larger ε must be."""
    figure, panels = plt.subplots(1, len(attacks), figsize=(4.4 * len(attacks), 3.2), squeeze=False, sharey=True)
    for axes, (title, (scores, included)) in zip(panels.flat, attacks.items(), strict=True):
        scaled = (scores - scores[~included].mean()) / scores[~included].std()
        bins = np.linspace(scaled.min(), scaled.max(), 40)
        for label, (kind, style) in KINDS.items():
            axes.hist(scaled[included == kind], bins, histtype=style, alpha=0.6 if kind else 1.0, label=label)
        axes.set(title=title, xlabel="score, in standard deviations of “left out”")
    panels.flat[0].set(ylabel="canaries")
    panels.flat[0].legend(fontsize="small")
    figure.tight_layout()
    plt.close(figure)
    return figure
