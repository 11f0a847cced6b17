"""ε against time and against settings, by every accountant that covers them; pure functions of the settings."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from lib import accounting
from lib.figures.dots import dots

WORDS = {
    **{"strong_composition": "strong composition", "moments": "moments accountant", "pld": "PLD"},
    **{"rdp": "RDP", "rdp_2020": "RDP, converted as in 2020"},
}
SUBSAMPLED = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}


def against_epochs(
    *, noise_multiplier: float, sampling_prob: float, epochs: Sequence[int], delta: float, accountants: Sequence[str]
) -> pd.DataFrame:
    """One line for each number of epochs, one column of ε for each of ``accountants``; Poisson sampling.

    One epoch is 1/q steps.  Raises ``ValueError`` for ``epochs`` that are not a list of positive numbers.
    """
    if not isinstance(epochs, Sequence) or not epochs or not all(type(e) in (int, float) and e > 0 for e in epochs):
        raise ValueError(f"epochs: expected a list of positive numbers; got {epochs!r}")
    setting = {"noise_multiplier": noise_multiplier, "sampling_prob": sampling_prob, "delta": delta}
    steps = {epoch: max(1, round(epoch / sampling_prob)) for epoch in epochs}
    return pd.DataFrame(
        {
            name: {e: accounting.epsilon(**setting, steps=count, accountant=name) for e, count in steps.items()}
            for name in accountants
        }
    ).rename_axis("epochs")


def drawn(frame: pd.DataFrame, *, title: str) -> Figure:
    """The lines of :func:`against_epochs` on logarithmic axes; an infinite ε is left out."""
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for name, values in frame.items():
        style = "-" if accounting.is_upper_bound(accountant=name) else "--"
        axes.plot(frame.index, values.where(values.map(math.isfinite)), style, marker=".", label=WORDS.get(name, name))
    axes.set(title=title, xlabel="epochs", ylabel="ε", xscale="log", yscale="log")
    axes.xaxis.set_major_formatter("{x:g}")
    title = "dashed: no upper bound is proven"
    figure.legend(loc="outside right center", fontsize="small", title=title, title_fontsize="small")
    plt.close(figure)
    return figure


def under_two_relations(*, noise_multiplier: float, sampling_prob: float, steps: int, delta: float) -> pd.DataFrame:
    """ε of one setting by every accountant, under the two kinds of sampling that the papers have in mind.

    A line for each accountant; a column for Poisson samples with neighbours that add or remove one example, and one for
    samples of fixed size with neighbours that replace one.  NaN where an accountant does not cover the kind.
    """
    setting = {"noise_multiplier": noise_multiplier, "sampling_prob": sampling_prob, "steps": steps, "delta": delta}
    kinds = {
        "Poisson, add or remove one": {"sampler": "poisson", "neighbouring_relation": "add_or_remove_one"},
        "fixed size, replace one": SUBSAMPLED,
    }
    return pd.DataFrame(
        {
            kind: {
                name: accounting.epsilon(**setting, **how, accountant=name)
                for name in accounting.accountants(**how)
                if name != "gdp"  # it covers Poisson sampling for full batches alone
            }
            for kind, how in kinds.items()
        }
    ).rename_axis("accountant")


def relations_drawn(**setting: float) -> Figure:
    """:func:`under_two_relations` as dots."""
    return dots(under_two_relations(**setting), title="the same noise, steps and batches")


def limit_error(*, sigmas: Sequence[float], sampling_prob: float, epochs: Sequence[int], delta: float) -> pd.DataFrame:
    """bc's central limit against privacy loss distributions: (ε_CLT − ε_PLD) / ε_PLD.

    A line for each σ (noise ÷ 2C, already divided by √L where L layers are clipped), a column for each
    c = √(E·m/N) of E epochs, with q = m/N; fixed size, replace one.
    """

    def error(sigma: float, epoch: int) -> float:
        how = {"noise_multiplier": 2 * sigma, "sampling_prob": sampling_prob, "delta": delta, **SUBSAMPLED}
        limit, bound = (
            accounting.epsilon(**how, steps=round(epoch / sampling_prob), accountant=name) for name in ("clt", "pld")
        )
        return limit / bound - 1

    columns = {f"{math.sqrt(epoch * sampling_prob):.3f}": epoch for epoch in epochs}
    frame = {c: {sigma: error(sigma, epoch) for sigma in sigmas} for c, epoch in columns.items()}
    return pd.DataFrame(frame).rename_axis("σ").rename_axis("c", axis=1)


def map_of(errors: pd.DataFrame) -> Figure:
    """The map of :func:`limit_error` in percent: blue where the limit claims too little ε, red where too much."""
    figure, axes = plt.subplots(figsize=(8, 4.2))
    sns.heatmap(
        errors * 100, cmap="vlag", vmin=-20, vmax=20, annot=True, fmt=".1f", cbar_kws={"extend": "both"}, ax=axes
    )
    axes.set(title="(ε by the limit − ε by PLD) ÷ ε by PLD, in %", ylabel="σ", xlabel="c = √(E·m/N)")
    plt.close(figure)
    return figure
