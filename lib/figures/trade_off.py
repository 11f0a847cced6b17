"""How well an attack tells the examples that were trained on from the others, and how well it could if a claim held."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

LABELS = {
    "xlabel": "false positives: share of those left out\nthat are taken for trained on",
    "ylabel": "false negatives: share of those trained on\nthat are taken for left out",
}


def drawn(attacks: Mapping[str, tuple[np.ndarray, np.ndarray]], *, epsilon: float, delta: float) -> Figure:
    """A line for each attack, {name: (scores (m,), included (m,))}, through its errors at every threshold, above the
    area that (ε, δ)-DP rules out: a line in it refutes the claim, so far as its canaries are many."""
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    shares = np.linspace(0.0, 1.0, 401)
    ruled_out = f"ruled out by ε = {epsilon:.2f}, δ = {delta:.0e}"
    axes.fill_between(shares, least(shares, epsilon, delta), color="grey", alpha=0.35, linewidth=0, label=ruled_out)
    axes.plot([0, 1], [1, 0], ":", color="grey", label="guessed by a coin")
    for label, (scores, included) in attacks.items():
        axes.plot(*errors(scores, included), label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", **LABELS)
    figure.legend(loc="outside right center", fontsize="small")
    plt.close(figure)
    return figure


def errors(scores: np.ndarray, included: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of false positives, from 0 to 1, and of false negatives, from 1 to 0, where all with a score of t or more
    are taken for included, for every t there is."""
    levels = np.unique(scores)[::-1]
    below = {kind: np.searchsorted(np.sort(scores[included == kind]), levels, side="left") for kind in (False, True)}
    positives, negatives = 1 - below[False] / (~included).sum(), below[True] / included.sum()
    return np.insert(positives, 0, 0.0), np.insert(negatives, 0, 1.0)


def least(false_positives: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """The least share of false negatives under (ε, δ)-DP, f(α) = max{0, 1 − δ − e^ε α, e^−ε (1 − δ − α)} (Wasserman
    and Zhou 2010; Dong, Roth and Su, 1905.02383)."""
    steep, flat = 1 - delta - np.exp(epsilon) * false_positives, np.exp(-epsilon) * (1 - delta - false_positives)
    return np.maximum(0.0, np.maximum(steep, flat))
