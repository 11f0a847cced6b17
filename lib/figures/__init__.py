"""Figures over the stored results (seaborn); each is a pure function of a table, a tier and the store."""

from collections.abc import Sequence
from io import BytesIO

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from lib import report
from lib.figures import scale
from lib.store import Store
from lib.tables import Column, Printed, Row, Table

sns.set_theme(style="whitegrid", context="notebook")
HUES = "turbo"  # of columns, in their order: neighbours are told apart
HOLLOW = {"color": "C0", "markerfacecolor": "white", "zorder": 5}  # what a single run is, without a spread


def against_column(table: Table, tier: str, store: Store) -> Figure:
    """Accuracy against the table's column, a panel for each row, all on one scale: ours with its standard error,
    hollow where a single run has none; what is printed as crosses, a printed range as a line, "no convergence" as a
    triangle on the lower edge, off the scale, as no number is printed.

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
            axes.errorbar(at, of_row["mean"], of_row["stderr"].fillna(0.0), marker="o", label="ours ± s.e.")
            single = [(i, cell.mean) for i, cell in zip(at, of_row.itertuples(), strict=True) if cell.n == 1]
            if single:
                axes.plot(*zip(*single, strict=True), "o", label="a single run", **HOLLOW)
        if printed:
            axes.plot([places[column] for column in printed], [c.mean for c in printed.values()], "kx", label="printed")
        for column, number in printed.items():
            if number.up_to is not None:
                axes.plot([places[column]] * 2, [number.mean, number.up_to], "k-x")
        failed = [i for column, i in places.items() if (row, column) in table.printed and column not in printed]
        if failed:
            on_the_edge = {"transform": axes.get_xaxis_transform(), "markerfacecolor": "white", "clip_on": False}
            axes.plot(failed, [0.0] * len(failed), "kv", label="printed: no convergence", **on_the_edge)
        axes.set(title=row)
        axes.set_xticks(range(len(table.columns)), report.heads(table), rotation=30)
    return _closed(_together(figure, report.title(table, tier)))


def printed_of(table: Table, row: Row) -> dict[Column, Printed]:
    """The numbers that are printed of a row, by column."""
    numbers = {column: table.printed.get((row, column)) for column in table.columns}
    return {column: cell for column, cell in numbers.items() if cell is not None and cell.mean is not None}


def at_column(table: Table, tier: str, store: Store, *, column: Column) -> Figure:
    """:func:`at_columns` of one column alone."""
    return at_columns(table, tier, store, columns=[column])


def at_columns(table: Table, tier: str, store: Store, *, columns: Sequence[Column]) -> Figure:
    """Every row's accuracy, a panel for each of ``columns``, all on one scale: ours with its standard error, hollow
    where a single run has none, and what is printed as crosses.

    A row of which there is neither in any of them has no line.
    """
    frame = report.summary(table, tier, store)
    frame = frame[frame["n"] > 0]
    shown = {}
    for column in columns:
        of_column = [value == column or (column is None and pd.isna(value)) for value in frame["column"]]
        ours = frame.loc[of_column]  # frame[[]], where nothing is stored, would be a frame without columns
        printed = {row: numbers[column].mean for row in table.rows if column in (numbers := printed_of(table, row))}
        shown[column] = ours.set_index("row"), printed
    rows = [row for row in table.rows if any(row in ours.index or row in told for ours, told in shown.values())]
    places, size = {row: i for i, row in enumerate(rows)}, (4 + 6 * len(columns), 1.4 + 0.3 * len(rows))
    how = {"sharex": True, "sharey": True, "layout": "constrained"}
    figure, panels = plt.subplots(1, len(columns), figsize=size, squeeze=False, **how)
    for axes, (column, (ours, printed)) in zip(panels.flat, shown.items(), strict=True):
        spread = ours["stderr"].fillna(0.0)
        axes.errorbar(ours["mean"], [places[row] for row in ours.index], xerr=spread, fmt="o", label="ours ± s.e.")
        single = ours.loc[ours["n"] == 1, "mean"]
        if len(single):
            axes.plot(single, [places[row] for row in single.index], "o", label="a single run", **HOLLOW)
        if printed:
            axes.plot(list(printed.values()), [places[row] for row in printed], "kx", label="printed")
        axes.set(title=report.head(table, column))
        axes.grid(visible=True)
    panels[0, 0].set_yticks(range(len(rows)), rows)
    panels[0, 0].invert_yaxis()
    for axes in panels.flat:
        scale.of_errors(axes, "x")
    figure.suptitle(report.title(table, tier), fontsize="medium")
    figure.supxlabel(scale.LABEL.replace("\n", " "), fontsize="medium")
    figure.legend(**_legend(figure), loc="outside right center", fontsize="small")
    return _closed(figure)


def against_epoch(table: Table, tier: str, store: Store) -> Figure:
    """Accuracy against epoch, on a logarithmic axis: a panel for each row that has runs, all on one scale, a line for
    each column; the band is the standard error over seeds, and a single run, which has none, is dashed."""
    frame = report.curves(table, tier, store)
    rows = list(dict.fromkeys(frame["row"]))
    figure, panels = _panels(rows, width=5.5, height=4.2)
    palette = dict(zip(table.columns, sns.color_palette(HUES, len(table.columns)), strict=True))
    for axes, row in zip(panels, rows, strict=False):
        of_row, counts = frame[frame["row"] == row], set()
        for column in table.columns:
            line = of_row[of_row["column"].isna() if column is None else of_row["column"] == column]
            if (seeds := line["seed"].nunique()) == 0:
                continue
            counts.add(seeds)
            how = {"color": palette[column], "linestyle": "-" if seeds > 1 else "--", "legend": False}
            sns.lineplot(line, x="epoch", y="accuracy", errorbar="se", label=report.head(table, column), ax=axes, **how)
        seeds = " to ".join(map(str, sorted({min(counts), max(counts)})))
        seeds = f" ({seeds} seeds)" if max(counts) > 1 else " (one seed)"
        axes.set(title=row + seeds, xlabel="epoch", ylabel="", xscale="log", xlim=(0.9, 1.1 * max(frame["epoch"])))
        scale.plain_ticks(axes.xaxis, LogLocator(subs=(1, 2, 5)))
    return _closed(_together(figure, report.title(table, tier).replace("after the last epoch", "after each epoch")))


def search(table: Table, tier: str, store: Store) -> Figure:
    """Validation accuracy over the step-size grid, a panel for each row: the reading "one fixed step size" is one line
    of squares, the reading "searched" is the best square of each column; what was not tried is blank.

    Columns of the table that share a search are one column of squares, with a joint head.
    """
    frame = report.search(table, tier, store)
    heads = {row: found for row in table.rows if (found := _heads_of_searches(table, row, tier))}
    steps = sorted(frame["lr"].unique() if "lr" in frame else [], reverse=True)
    figure, panels = _panels(list(heads), width=4.6, height=3.4)
    for axes, (row, of_row) in zip(panels, heads.items(), strict=False):
        tried = frame[frame["row"] == row].assign(head=lambda part, of_row=of_row: part["column"].map(of_row))
        square = tried.pivot_table(index="lr", columns="head", values="accuracy")
        if len(square):
            square = square.reindex(index=steps, columns=list(dict.fromkeys(of_row.values())))
            label = {"annot": True, "fmt": ".0f", "annot_kws": {"fontsize": 8}}
            ticks = {"xticklabels": list(square.columns), "yticklabels": [f"{lr:g}" for lr in steps]}
            sns.heatmap(square, vmin=10, vmax=100, cbar=False, ax=axes, **label, **ticks)
        axes.set(title=row, xlabel=report.symbol(table), ylabel="step size")
        axes.tick_params(axis="y", rotation=0)
        axes.grid(visible=False)
    title = f"{_named(table, tier)}: validation accuracy (%) after the tuning run"
    shared = any(len(set(of_row.values())) < len(of_row) for of_row in heads.values())
    together = f"; values of {report.symbol(table)} at one column share a search" if shared else ""
    figure.suptitle(title + together, fontsize="medium")
    return _closed(figure)


def _heads_of_searches(table: Table, row: Row, tier: str) -> dict[Column, str]:
    """What each column that is tuned for its step size is headed by: the values of all that share its search."""
    runs = {
        column: table.tuning(row, column, tier=tier, **points[0])
        for of_row, column in table.cells
        if of_row == row and (points := table.points(row, column, tier)) and "lr" in points[0]
    }
    value = {column: "∞" if column is None else f"{column:g}" for column in runs}
    return {column: ", ".join(value[other] for other in runs if runs[other] == runs[column]) for column in runs}


def at_step_size(table: Table, tier: str, store: Store, *, lr: float) -> Figure:
    """Validation accuracy of every row against the table's column, all tuned with the one step size ``lr``."""
    frame = report.search(table, tier, store)
    places = {column: i for i, column in enumerate(table.columns)}
    frame = frame[frame["lr"] == lr] if "lr" in frame else frame[:0]
    frame = frame.assign(position=[places[None if pd.isna(column) else column] for column in frame["column"]])
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    if len(frame):
        sns.lineplot(frame, x="position", y="accuracy", hue="row", marker="o", legend=False, ax=axes)
        for line, row in zip(axes.lines, frame["row"].unique(), strict=True):
            line.set_label(row)
        figure.legend(loc="outside right center", fontsize="small")
    axes.set_xticks(range(len(places)), report.heads(table))
    axes.set(
        title=f"{_named(table, tier)}: every cell at step size {lr:g}, tuning runs of one seed each",
        xlabel="",
        ylabel=f"validation {scale.LABEL}",
    )
    scale.of_errors(axes)
    return _closed(figure)


def _named(table: Table, tier: str) -> str:
    return f"{table.name}, tier {tier}" + (", not the paper's data" if tier == "smoke" else "")


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
    legend = _legend(figure)
    if legend["labels"]:
        figure.legend(**legend, loc="outside lower center", ncols=len(legend["labels"]), fontsize="small")
    figure.suptitle(title, fontsize="medium")
    figure.supylabel(scale.LABEL, fontsize="medium")
    return figure


def _legend(figure: Figure) -> dict[str, list]:
    """The handles and labels of all panels, each label once."""
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    by_label = {label: handle for handles, labels in found for handle, label in zip(handles, labels, strict=True)}
    return {"handles": list(by_label.values()), "labels": list(by_label)}


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
