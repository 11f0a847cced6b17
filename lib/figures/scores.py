"""What an attack sees: the scores of the canaries that were among the examples, beside those of the others."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

KINDS = {"trained on": (True, "stepfilled"), "left out": (False, "step")}  # told apart in print too


def drawn(attacks: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """A panel for each attack, {title: (scores (m,), included (m,))}: two histograms, of the canaries trained on and of
    those left out, in units of the latter's standard deviation, in the same bins.  The less they overlap, the larger ε
    must be."""
    shared = {"sharex": True, "sharey": True}
    figure, panels = plt.subplots(1, len(attacks), figsize=(4.4 * len(attacks), 3.2), squeeze=False, **shared)
    scaled = [(scores - scores[~included].mean()) / scores[~included].std() for scores, included in attacks.values()]
    bins = np.linspace(min(map(np.min, scaled)), max(map(np.max, scaled)), 60)
    for axes, scores, (title, (_, included)) in zip(panels.flat, scaled, attacks.items(), strict=True):
        for label, (kind, style) in KINDS.items():
            axes.hist(scores[included == kind], bins, histtype=style, alpha=0.6 if kind else 1.0, label=label)
        axes.set_title(title, fontsize="medium")
        axes.set(xlabel="score, in standard deviations of “left out”")
    panels.flat[0].set(ylabel="canaries")
    panels.flat[0].legend(fontsize="small")
    figure.tight_layout()
    plt.close(figure)
    return figure
