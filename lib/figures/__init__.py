"""Figures over the stored results (seaborn); each is a pure function of a table, a tier and the store."""

from io import BytesIO

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from lib import report
from lib.figures import scale
from lib.store import Store
from lib.tables import Column, Printed, Row, Table

sns.set_theme(style="whitegrid", context="notebook")
HUES = "turbo"  # of columns, in their order: neighbours are told apart
HOLLOW = {"color": "C0", "markerfacecolor": "white", "zorder": 5}  # what a single run is, without a spread


def against_column(table: Table, tier: str, store: Store) -> Figure:
    """Accuracy against the table's column, a panel for each row, all on one scale: ours with its standard error,
    hollow where a single run has none; what is printed as crosses, and a printed range as a line.

    A row of which there is nothing to show has no panel.
    """
    frame = report.summary(table, tier, store)
    places = {column: i for i, column in enumerate(table.columns)}
    shown = {row: printed_of(table, row) for row in table.rows}
    shown = {row: found for row, found in shown.items() if found or frame[frame["row"] == row]["n"].any()}
    figure, panels = _panels(list(shown), width=4.6, height=3.1)
    for axes, (row, printed) in zip(panels, shown.items(), strict=False):
        of_row = frame[frame["row"] == row]
        at = [places[None if pd.isna(column) else column] for column in of_row["column"]]
        if of_row["n"].any():
            mean, spread = of_row["mean"].astype(float), of_row["stderr"].astype(float).fillna(0.0)
            axes.errorbar(at, mean, spread, marker="o", label="ours ± s.e.")
            single = [(i, cell.mean) for i, cell in zip(at, of_row.itertuples(), strict=True) if cell.n == 1]
            if single:
                axes.plot(*zip(*single, strict=True), "o", label="a single run", **HOLLOW)
        if printed:
            axes.plot([places[column] for column in printed], [c.mean for c in printed.values()], "kx", label="printed")
        for column, number in printed.items():
            if number.up_to is not None:
                axes.plot([places[column]] * 2, [number.mean, number.up_to], "k-x")
        axes.set(title=row)
        axes.set_xticks(range(len(table.columns)), report.heads(table), rotation=30)
    return _closed(_together(figure, report.title(table, tier)))


def printed_of(table: Table, row: Row) -> dict[Column, Printed]:
    """The numbers that are printed of a row, by column."""
    numbers = {column: table.printed.get((row, column)) for column in table.columns}
    return {column: cell for column, cell in numbers.items() if cell is not None and cell.mean is not None}


def at_column(table: Table, tier: str, store: Store, *, column: Column) -> Figure:
    """Every row's accuracy in one column: ours with its standard error, hollow where a single run has none, and what is
    printed as crosses.

    A row of which there is neither has no line.
    """
    frame = report.summary(table, tier, store)
    frame = frame[[value == column or (column is None and pd.isna(value)) for value in frame["column"]]]
    found = frame[frame["n"] > 0].set_index("row")
    printed = {row: numbers[column].mean for row in table.rows if column in (numbers := printed_of(table, row))}
    rows = [row for row in table.rows if row in found.index or row in printed]
    figure, axes = plt.subplots(figsize=(10, 1.4 + 0.3 * len(rows)), layout="constrained")
    places = {row: i for i, row in enumerate(rows)}
    mean, spread = found["mean"].astype(float), found["stderr"].astype(float).fillna(0.0)
    axes.errorbar(mean, [places[row] for row in found.index], xerr=spread, fmt="o", label="ours ± s.e.")
    single = mean[found["n"] == 1]
    if len(single):
        axes.plot(single, [places[row] for row in single.index], "o", label="a single run", **HOLLOW)
    axes.plot(list(printed.values()), [places[row] for row in printed], "kx", label="printed")
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set(title=report.heads(table)[table.columns.index(column)], xlabel=scale.LABEL.replace("\n", " "))
    scale.of_errors(axes, "x")
    figure.legend(loc="outside right center", fontsize="small")
    return _closed(figure)


def against_epoch(table: Table, tier: str, store: Store) -> Figure:
    """Accuracy against epoch, on a logarithmic axis: a panel for each row that has runs, all on one scale, a line for
    each column; the band is the standard error over seeds."""
    frame = report.curves(table, tier, store)
    rows = list(dict.fromkeys(frame["row"]))
    figure, panels = _panels(rows, width=5.5, height=4.2)
    names = dict(zip(table.columns, report.heads(table), strict=True))
    palette = dict(zip(names.values(), sns.color_palette(HUES, len(names)), strict=True))
    for axes, row in zip(panels, rows, strict=False):
        of_row = frame[frame["row"] == row].assign(line=lambda part: part["column"].map(names))
        sns.lineplot(of_row, x="epoch", y="accuracy", hue="line", palette=palette, errorbar="se", ax=axes)
        axes.get_legend().remove()
        axes.set(title=row, xlabel="epoch", ylabel="", xscale="log", xlim=(0.9, 1.1 * max(frame["epoch"])))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    return _closed(_together(figure, report.title(table, tier).replace("after the last epoch", "after each epoch")))


def search(table: Table, tier: str, store: Store) -> Figure:
    """Validation accuracy over the step-size grid, for every row and column: the reading "one fixed step size" is one
    line of squares, the reading "searched" is the best square of each column."""
    frame = report.search(table, tier, store)
    searched = [row for row, column in table.cells if any("lr" in point for point in table.points(row, column, tier))]
    rows = list(dict.fromkeys(searched))
    figure, panels = _panels(rows, width=4.6, height=3.4)
    for axes, row in zip(panels, rows, strict=False):
        square = frame[frame["row"] == row].pivot(index="lr", columns="column", values="accuracy")
        if len(square):
            label = {"annot": True, "fmt": ".0f", "annot_kws": {"fontsize": 8}}
            sns.heatmap(square.sort_index(ascending=False), vmin=10, vmax=100, cbar=False, ax=axes, **label)
        axes.set(title=row, xlabel=report.symbol(table), ylabel="step size")
    figure.suptitle(f"{table.name}, tier {tier}: validation accuracy (%) after the tuning run", fontsize="medium")
    return _closed(figure)


def at_step_size(table: Table, tier: str, store: Store, *, lr: float) -> Figure:
    """Validation accuracy of every row against the table's column, all tuned with the one step size ``lr``."""
    frame = report.search(table, tier, store)
    names = dict(zip(table.columns, report.heads(table), strict=True))
    frame = frame[frame["lr"] == lr].assign(position=lambda part: part["column"].map(names))
    figure, axes = plt.subplots(figsize=(9, 3.6))
    if len(frame):
        sns.lineplot(frame, x="position", y="accuracy", hue="row", marker="o", sort=False, ax=axes)
        axes.legend(title=None, fontsize="small")
    axes.set(
        title=f"every cell at step size {lr:g}, tuning runs", xlabel="", ylabel="validation accuracy (%)", ylim=(0, 101)
    )
    return _closed(figure)


def _panels(rows: list[str], *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each row, three beside each other."""
    columns = min(3, len(rows)) or 1
    lines = -(-len(rows) // columns) or 1
    size = (width * columns, height * lines)
    figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
    for axes in panels.flat[len(rows) :]:
        axes.set_visible(False)
    return figure, list(panels.flat)


def _together(figure: Figure, title: str) -> Figure:
    """The panels on one scale of accuracies, with one title, and below them one legend of every label in any."""
    first, *others = figure.axes
    for axes in others:
        axes.sharey(first)
    for axes in figure.axes:
        scale.of_errors(axes)
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    by_label = {label: handle for handles, labels in found for handle, label in zip(handles, labels, strict=True)}
    if by_label:
        how = {"loc": "outside lower center", "ncols": len(by_label), "fontsize": "small"}
        figure.legend(by_label.values(), by_label, **how)
    figure.suptitle(title, fontsize="medium")
    figure.supylabel(scale.LABEL, fontsize="medium")
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, which is what an image widget shows.

    A slider linked to an image needs no output area: those can block a notebook that is executed in batch (nbclient
    issue 312).
    """
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=80, bbox_inches="tight")
    return buffer.getvalue()


def _closed(figure: Figure) -> Figure:
    """Closed for pyplot, so that a notebook shows it once: as the value of its cell."""
    plt.close(figure)
    return figure
