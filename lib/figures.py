"""Figures over the stored results (seaborn); each is a pure function of a table, a tier and the store."""

from io import BytesIO

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from lib import report
from lib.store import Store
from lib.tables import Table

sns.set_theme(style="whitegrid", context="notebook")


def against_column(table: Table, tier: str, store: Store, *, rows: list[str] | None = None) -> Figure:
    """Accuracy against the table's column: ours with its standard error, the printed values as crosses."""
    ours = report.results(table, tier, store)
    shown = [row for row in rows or table.rows if row in set(ours["row"])]
    positions = {column: i for i, column in enumerate(table.columns)}
    figure, axes = plt.subplots(figsize=(9, 4.5))
    if shown:
        ours = ours[ours["row"].isin(shown)].assign(position=lambda frame: frame["column"].map(positions))
        sns.lineplot(ours, x="position", y="accuracy", hue="row", hue_order=shown, errorbar="se", marker="o", ax=axes)
        for color, row in zip(sns.color_palette(n_colors=len(shown)), shown, strict=True):
            printed = {c: p.mean for (r, c), p in table.printed.items() if r == row and p.mean is not None}
            axes.plot([positions[c] for c in printed], list(printed.values()), "x", color=color, markersize=9)
        axes.legend(title="line: ours ± s.e., cross: printed", fontsize="small")
    axes.set(title=report.title(table, tier), xlabel="", ylabel="accuracy (%)")
    axes.set_xticks(range(len(table.columns)), report.heads(table))
    return _closed(figure)


def against_epoch(table: Table, tier: str, store: Store) -> Figure:
    """Accuracy against epoch, one panel per row, one line per column; the band is the standard error over seeds."""
    frame = report.curves(table, tier, store)
    figure, panels = plt.subplots(1, len(table.rows), figsize=(5.5 * len(table.rows), 4.2), sharey=True, squeeze=False)
    names = dict(zip(table.columns, report.heads(table), strict=True))
    for axes, row in zip(panels[0], table.rows, strict=True):
        of_row = frame[frame["row"] == row].assign(line=lambda part: part["column"].map(names))
        if len(of_row):
            sns.lineplot(of_row, x="epoch", y="accuracy", hue="line", palette="viridis", errorbar="se", ax=axes)
            axes.legend(title=None, fontsize="small")
        axes.set(title=row, xlabel="epoch", ylabel="validation accuracy (%)")
    figure.suptitle(report.title(table, tier), fontsize="medium")
    figure.tight_layout()
    return _closed(figure)


def search(table: Table, tier: str, store: Store) -> Figure:
    """Validation accuracy over the step-size grid, for every row and column: the reading "one fixed step size" is one
    line of squares, the reading "searched" is the best square of each column."""
    frame = report.search(table, tier, store)
    rows = [row for row in table.rows if table.points(row)]
    columns = min(3, len(rows)) or 1
    lines = -(-len(rows) // columns) or 1
    figure, panels = plt.subplots(lines, columns, figsize=(4.6 * columns, 3.4 * lines), squeeze=False)
    for axes, row in zip(panels.flat, rows, strict=False):
        square = frame[frame["row"] == row].pivot(index="lr", columns="column", values="accuracy")
        if len(square):
            label = {"annot": True, "fmt": ".0f", "annot_kws": {"fontsize": 8}}
            sns.heatmap(square.sort_index(ascending=False), vmin=10, vmax=100, cbar=False, ax=axes, **label)
        axes.set(title=row, xlabel="σ", ylabel="step size")
    figure.suptitle(f"validation accuracy (%) after the tuning run; {report.title(table, tier)}", fontsize="medium")
    figure.tight_layout()
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
