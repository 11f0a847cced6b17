"""Rows of a table as lines against its column, on one axis."""

from collections.abc import Mapping, Sequence
from itertools import chain, cycle

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from lib import report
from lib.figures import printed_of, scale
from lib.store import Store
from lib.tables import Row, Table

STYLES = (("-", "o", "x"), ("--", "s", "+"), (":", "^", "1"))  # of a line, of ours and of what is printed


def drawn(table: Table, tier: str, store: Store, *, groups: Mapping[str, Sequence[Row]]) -> Figure:
    """Accuracy against the table's column: a colour for each of ``groups``, solid for its first row, dashed and dotted
    for the next; ours with its standard error, hollow where a single run has none; what is printed as crosses."""
    frame = report.summary(table, tier, store)
    frame = frame[frame["row"].isin(chain(*groups.values()))]
    figure, axes = plt.subplots(figsize=(11, 4.4), layout="constrained")
    keys = []
    for colour, rows in zip(cycle(sns.color_palette("colorblind")), groups.values(), strict=False):
        for row, (line, marker, cross) in zip(rows, STYLES, strict=False):
            of_row, printed = frame[frame["row"] == row], printed_of(table, row)
            how = {"color": colour, "linestyle": line, "marker": marker}
            spread = of_row["stderr"].fillna(0.0)
            keys.append(axes.errorbar(range(len(of_row)), of_row["mean"], spread, label=row, **how))
            single = of_row["mean"].where(of_row["n"] == 1)
            axes.plot(range(len(of_row)), single, marker, color=colour, markerfacecolor="white", zorder=5)
            at = [table.columns.index(column) for column in printed]
            axes.plot(at, [cell.mean for cell in printed.values()], cross, color=colour, markeredgewidth=2)
            if printed:
                keys += axes.plot([], [], cross, color=colour, markeredgewidth=2, label="printed")
    axes.set_xticks(range(len(table.columns)), report.heads(table))
    axes.set(ylabel=scale.LABEL)
    scale.of_errors(axes)
    if (frame["n"] == 1).any():
        keys += axes.plot([], [], "o", color="grey", markerfacecolor="white", label="a single run")
    figure.legend(handles=keys, loc="outside right center", fontsize="small")
    figure.suptitle(report.title(table, tier), fontsize="medium")
    plt.close(figure)
    return figure
