"""What SI-DPSGD claims and what holds, as frames and figures; pure functions of settings and stored results."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lib import accounting, figures, report
from lib.figures import scale
from lib.figures.dots import dots
from lib.store import Store
from lib.tables import Table

DIVERGED = 10.0  # points of standard error: more than runs differ that all train
LEVELS = ("--", ":")
BESIDE = 1.1  # where on the axis of p a level's hollow marker is
MEANING = {  # of the lines of claimed_and_true, for a reader
    "true ε of θ_T alone": "ε of θ_T, linear loss (any valid claim must reach it)",
    "ε of all θ_t, in fixed places": "ε of all θ_t, linear loss, once an epoch in fixed places",
}


def claimed_and_true(
    *, noise_multiplier: float, batch_size: int, examples: int, epochs: int, delta: float = 1e-5
) -> pd.Series:
    """One setting of v1's algorithm 1, with constant steps: what v1's accountant claims, and what holds.

    All but one are of Poisson sampling.  "θ_T alone" is exact for a linear loss; "all θ_t", too, but of an example that
    has a part in one step of each epoch, at a fixed place: where its place is drawn, more can be told.  ``δ`` is the
    true one of θ_T at the claimed ε.  Raises ``ValueError`` for a ``noise_multiplier`` of 0 or less, at which no ε is
    finite.
    """
    if not noise_multiplier > 0.0:
        raise ValueError(f"noise_multiplier: expected a positive number; got {noise_multiplier!r}")
    how = {"noise_multiplier": noise_multiplier, "sampling_prob": batch_size / examples}
    how["steps"] = epochs * (examples // batch_size)
    claimed = accounting.epsilon(**how, delta=delta, accountant="rdp_2020")
    return pd.Series(
        {
            "claimed ε": claimed,
            "the same by PLD": accounting.epsilon(**how, delta=delta),
            "true ε of θ_T alone": accounting.si_dpsgd_epsilon(**how, delta=delta),
            "ε of all θ_t, in fixed places": accounting.si_dpsgd_epsilon(**how, delta=delta, released="transcript"),
            "true δ at the claimed ε": accounting.si_dpsgd_delta(epsilon=claimed, **how),
        }
    )


def claimed_and_true_drawn(**setting: float) -> Figure:
    """:func:`claimed_and_true` as dots, with their ``MEANING``."""
    found = claimed_and_true(**setting).rename(MEANING)
    true = found.pop("true δ at the claimed ε")
    return dots(found.to_frame("ε"), title=f"δ is {true:.3g} at the claimed ε, not {setting.get('delta', 1e-5):.0e}")


def against_power(table: Table, tier: str, store: Store, *, powers: dict[str, float], dashed: Sequence[str]) -> Figure:
    """Accuracy ± standard error against p at equal proven ε: a line for each column; ``dashed`` rows, which have no p,
    as levels; no others.  A cell whose standard error is above ``DIVERGED`` is hollow, and its line is broken there."""
    frame = report.summary(table, tier, store)
    frame = frame[frame["row"].isin([*powers, *dashed])]
    frame = frame.assign(p=frame["row"].map(powers), diverged=frame["stderr"].astype(float) > DIVERGED)
    figure, axes = plt.subplots(figsize=(10, 4.6), layout="constrained")
    keys = []
    colours = sns.color_palette(figures.HUES, len(table.columns))
    for colour, column, head in zip(colours, table.columns, report.heads(table), strict=True):
        of_column = frame[frame["column"] == column]
        on_line = of_column[of_column["p"].notna()]
        diverged = of_column[of_column["diverged"]]
        mean, spread = on_line["mean"].astype(float), on_line["stderr"].astype(float).fillna(0.0)
        kept = mean.where(~on_line["diverged"])  # NaN breaks a line
        keys.append(axes.errorbar(on_line["p"], kept, spread, color=colour, marker="o", label=head))
        levels = of_column[of_column["row"].isin(dashed) & of_column["mean"].notna() & ~of_column["diverged"]]
        for level in levels.itertuples():
            axes.axhline(level.mean, color=colour, linestyle=LEVELS[dashed.index(level.row)], linewidth=1.2)
        at = diverged["p"].fillna(BESIDE)
        axes.plot(at, diverged["mean"].astype(float), "o", color=colour, markerfacecolor="white", markersize=9)
    for row, style in zip(dashed, LEVELS, strict=False):
        keys.append(Line2D([], [], linestyle=style, color="grey", label=row))
    if frame["diverged"].any():
        label = f"s.e. > {DIVERGED:g} points: not all runs trained\n(at the right: of an amplified row)"
        hollow = {"marker": "o", "markerfacecolor": "white", "markersize": 9, "linestyle": ""}
        keys.append(Line2D([], [], color="grey", label=label, **hollow))
    axes.set(xlabel="p (0: DPSGD, 1: SI-DPSGD)", ylabel=scale.LABEL, xticks=list(powers.values()))
    scale.of_errors(axes)
    figure.legend(handles=keys, loc="outside right center", fontsize="small")
    figure.suptitle(table.title, fontsize="medium")
    plt.close(figure)
    return figure


def price_of_the_sampler(*, noise_multiplier: float, sampling_prob: float, epochs: int, delta: float) -> pd.DataFrame:
    """The same noise, steps and batches of one size, under every sampler: ε by the accountant that covers it."""
    steps = epochs * int(1 / sampling_prob + 1e-9)
    how = {"noise_multiplier": noise_multiplier, "sampling_prob": sampling_prob, "steps": steps, "delta": delta}
    accountants = {"poisson": "pld", "with_replacement": "pld", "shuffled": "gdp", "fixed_order": "gdp"}
    lines = {
        sampler: {"accountant": name, "ε": accounting.epsilon(**how, sampler=sampler, accountant=name)}
        for sampler, name in accountants.items()
    }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("sampler")
