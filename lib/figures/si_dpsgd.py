"""What SI-DPSGD claims and what holds, as frames and figures; pure functions of settings and stored results."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lib import accounting, figures, report
from lib.figures import scale
from lib.figures.dots import dots
from lib.store import Store
from lib.tables import Row, Table

DIVERGED = 10.0  # points of standard error: more than runs differ that all train
BESIDE = 0.06  # of the distance between two names, so that columns that agree can be told apart
HOLLOW = {"marker": "o", "markerfacecolor": "white", "markersize": 9, "linestyle": ""}
MEANING = {  # of the lines of claimed_and_true, for a reader
    "true ε of θ_T alone": "ε of θ_T, linear loss (any valid claim must reach it)",
    "ε of all θ_t, in fixed places": "ε of all θ_t, linear loss, once an epoch in fixed places",
}


def claimed_and_true(
    *, noise_multiplier: float, batch_size: int, examples: int, epochs: int, delta: float = 1e-5
) -> pd.Series:
    """One setting of v1's algorithm 1, with constant steps: what v1's accountant claims, and what holds.

    All but one are of Poisson sampling.  "θ_T alone" is exact for a linear loss; "all θ_t", too, but of an example that
    has a part in the first step of each epoch, the place where it is told best: where its place is drawn it is told
    less, and where it is drawn how often it has a part, as by Poisson sampling, more.  ``δ`` is the true one of θ_T at
    the claimed ε.  Raises ``ValueError`` for a ``noise_multiplier`` of 0 or less, at which no ε is finite.
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
    true, delta = found.pop("true δ at the claimed ε"), setting.get("delta", 1e-5)
    against = "within" if true <= delta else "not"
    return dots(found.to_frame("ε"), title=f"δ of θ_T is {true:.3g} at the claimed ε, {against} {delta:.0e}")


def against_power(table: Table, tier: str, store: Store, *, panels: Mapping[str, Mapping[Row, float | str]]) -> Figure:
    """Accuracy ± standard error at equal proven ε, a colour for each column, all ``panels`` on one scale.

    ``panels``: by title, the rows and where they stand: at their p, joined by a line; or by a name, apart, and there
    the columns beside each other.
    A cell whose standard error is above ``DIVERGED`` is hollow, and its line is broken there.
    """
    frame = report.summary(table, tier, store)
    frame = frame.assign(diverged=frame["stderr"] > DIVERGED)
    widths = {"width_ratios": [2 + len(rows) for rows in panels.values()]}
    figure, axes = plt.subplots(
        1, len(panels), figsize=(12, 4.6), layout="constrained", sharey=True, squeeze=False, gridspec_kw=widths
    )
    colours = dict(zip(table.columns, sns.color_palette(figures.HUES, len(table.columns)), strict=True))
    for panel, (title, rows) in zip(axes.flat, panels.items(), strict=True):
        named = any(isinstance(at, str) for at in rows.values())
        places = {row: i if named else at for i, (row, at) in enumerate(rows.items())}
        for i, (column, colour) in enumerate(colours.items()):
            cells = frame[(frame["column"] == column) & frame["row"].isin(rows)]
            aside = BESIDE * (i - (len(colours) - 1) / 2)
            at, mean = cells["row"].map(places) + named * aside, cells["mean"]
            kept, spread = mean.where(~cells["diverged"]), cells["stderr"].fillna(0.0)
            line = {"marker": "o", "linestyle": "" if named else "-", "label": report.head(table, column)}
            panel.errorbar(at, kept, spread, color=colour, **line)  # NaN breaks a line
            panel.plot(at, mean.where(cells["diverged"]), color=colour, **HOLLOW)
        panel.set_xticks(list(places.values()), [at if named else f"{at:g}" for at in rows.values()])
        panel.set(title=title, xlabel="" if named else "p (0: DPSGD, 1: SI-DPSGD)")
        panel.margins(x=0.3 / len(rows))
    axes[0, 0].set(ylabel=scale.LABEL)
    scale.of_errors(axes[0, 0])
    keys = axes[0, 0].get_legend_handles_labels()[0]
    if frame.loc[frame["row"].isin({row for rows in panels.values() for row in rows}), "diverged"].any():
        label = f"s.e. > {DIVERGED:g} points:\nnot all runs trained"
        keys.append(Line2D([], [], color="grey", label=label, **HOLLOW))
    figure.legend(handles=keys, loc="outside right center", fontsize="small")
    figure.suptitle(report.title(table, tier), fontsize="medium")
    plt.close(figure)
    return figure
