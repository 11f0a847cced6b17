"""Stored beside printed: the numbers as data frames and as text.

Everything here reads the store and trains nothing.  Ours is mean ± standard error (n seeds); printed is what the
paper prints.
"""

from typing import Any

import pandas as pd

from lib.report import privacy_words
from lib.report.cells import differences as differences
from lib.report.cells import private_cells as private_cells
from lib.report.frames import curves as curves
from lib.report.frames import gradient_norms as gradient_norms
from lib.report.frames import records as records
from lib.report.frames import results as results
from lib.report.frames import search as search
from lib.report.frames import summary as summary
from lib.report.from_printed import from_printed as from_printed
from lib.report.privacy_words import at_least as at_least
from lib.report.privacy_words import at_most as at_most
from lib.report.provenance import precision as precision
from lib.report.provenance import provenance as provenance
from lib.store import Store, folder
from lib.tables import Column, Table

SYMBOLS = {
    "weight_noise_std": "σ",
    "gradient_noise_std": "σ",
    "noise_multiplier": "2σ",  # bc's σ is noise ÷ 2C
    "epsilon": "ε",
    "batch_size": "m",
    "clip_norm": "C",
    "lr": "η",
    "lr_decay": "η's factor",
    "public_examples": "M",
}


def text(table: Table, tier: str = "cpu", store: Store | None = None) -> str:
    """The table as text: for every row ours, printed, our step size, batch size, epochs; then privacy and command.

    Where cells differ in their privacy, there is a second table, of claimed / proven / audited ε.

    ``store``: by default where the records of ``tier`` live.
    """
    store = Store(folder(tier)) if store is None else store
    cells = summary(table, tier, store)
    lines, epsilons, each_private = {}, {}, cells["privacy"][cells["privacy"] != ""].nunique() > 1
    for row in table.rows:
        of_row = cells[cells["row"] == row]
        if row not in table.not_run:
            lines[row, "ours"] = [ours(cell.mean, cell.stderr, cell.n) for cell in of_row.itertuples()]
        printed = [table.printed.get((row, column)) for column in table.columns]
        if any(cell is not None for cell in printed):
            lines[row, "printed"] = ["–" if cell is None else cell.text for cell in printed]
        if row not in table.not_run:
            epsilons[row] = [cell.privacy.split(" (")[0] or "–" for cell in of_row.itertuples()]
            lines[row, "lr, batch, epochs"] = [_settings(cell) for cell in of_row.itertuples()]
    frame = pd.DataFrame(lines.values(), index=pd.MultiIndex.from_tuples(lines), columns=heads(table))
    return "\n".join(
        [
            title(table, tier),
            frame.to_string(),
            "ours: mean ± standard error (number of seeds); accuracy after the last epoch",
            *(["* at an end of the step sizes searched: another may be better"] if cells["at_an_end"].any() else []),
            *_other_steps(table, cells),
            *(f"{row}, not run: {why}" for row, why in table.not_run.items()),
            *_not_trained(table, cells),
            *([f"tier {tier}: {table.notes[tier]}"] if tier in table.notes else []),
            *([f"elsewhere: {table.elsewhere}"] if table.elsewhere else []),
            *(["ε: claimed / proven / audited", _framed(epsilons, table)] if each_private else []),
            *data(table, tier, store),
            *_changed_data(cells),
            *_other_precision(table, tier, store),
            f"privacy (claimed / proven / audited ε): {_privacy_line(table, tier, store)}",
            *_assumptions(table, tier, store),
            f"command: {command(table, tier, store)}",
        ]
    )


def _other_steps(table: Table, cells: pd.DataFrame) -> list[str]:
    """What is stored beside the cells: a search that went on chose another step size than the one they had before."""
    found = []
    for (row, column), others in zip(table.cells, cells["other_steps"], strict=True):
        for other in others:
            reached = ours(other["mean"], other["stderr"], other["n"])
            found.append(f"  {row} at {head(table, column)}: {reached} with {other['lr']:g}")
    return ["also stored, with step sizes that the searches did not choose in the end:", *found] if found else []


def _changed_data(cells: pd.DataFrame) -> list[str]:
    """Rows whose error has the spread of the data in it, too."""
    several = [cell.row for cell in cells.itertuples() if len(cell.data) > 1]
    words = "on data that changed between seeds of a cell (features change where they are pretrained again)"
    return [f"{words}: {', '.join(dict.fromkeys(several))}"] if several else []


def _other_precision(table: Table, tier: str, store: Store) -> list[str]:
    """The cells that were trained in one precision, where most were in another."""
    found: dict[str, list[str]] = {}
    for row, column in table.cells:
        for record in records(table, row, column, tier, store):
            found.setdefault(precision(record["env"]) or "float32", []).append(f"{row} at {head(table, column)}")
    if len(found) < 2:
        return []
    rarer = min(found, key=lambda name: len(found[name]))
    return [f"trained in {rarer}, unlike the others: {', '.join(dict.fromkeys(found[rarer]))}"]


def _not_trained(table: Table, cells: pd.DataFrame) -> list[str]:
    trained = sum(cells["n"] > 0)
    left = len(table.cells) - trained
    how_long = "the command below, with --dry-run, says how long that takes"
    return [f"not trained yet: {left} of {len(table.cells)} cells; {how_long}"] if left else []


def _privacy_line(table: Table, tier: str, store: Store) -> str:
    said = privacy(table, tier, store)
    return f"{said}; claim not proven: see notebook 06" if "claim not proven" in said else said


def _assumptions(table: Table, tier: str, store: Store) -> list[str]:
    every = [record for cell in table.cells for record in records(table, *cell, tier, store)]
    return [told] if (told := privacy_words.of_assumptions(every)) else []


def _settings(cell: Any) -> str:
    """Step size, with a star at an end of its search, batch size and epochs of a line of :func:`summary`."""
    if not cell.n:
        return "–"
    return f"{cell.lr:g}{'*' * cell.at_an_end}, {cell.batch_size:.0f}, {cell.epochs:.0f}"


def _framed(lines: dict[str, list[str]], table: Table) -> str:
    return pd.DataFrame(lines.values(), index=list(lines), columns=heads(table)).to_string()


def one_step_size(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """The other reading of the table: every row with a single step size for all columns, out of the tuning runs.

    It is the one that is best on the average of the columns.  Validation accuracy (%) after the short tuning run; a row
    whose tuning is not complete is left out, and all are where no step size is searched.
    """
    frame, lines = search(table, tier, store), {}
    for row in table.rows if "lr" in table.grid else ():
        square = frame[frame["row"] == row].pivot(index="lr", columns="column", values="accuracy")
        square = square.reindex([point["lr"] for point in table.points(row, table.columns[0], tier)])
        if len(square) and square.shape[1] == len(table.columns) and square.notna().all(axis=None):
            best = square.mean(axis=1).idxmax()
            in_order = square.loc[best, list(table.columns)]  # of the table; a pivot sorts
            values = {head: f"{value:.2f}" for head, value in zip(heads(table), in_order, strict=True)}
            lines[row] = {"step size": f"{best:g}"} | values
    return pd.DataFrame.from_dict(lines, orient="index", columns=["step size", *heads(table)])


def title(table: Table, tier: str) -> str:
    """What the table shows and where it is printed; a smoke table says on which data, which are not the papers'."""
    shown = f"{table.title} ({table.source}; tier {tier})"
    if tier != "smoke":
        return shown
    points = {cell: (table.points(*cell, tier) or [{}])[0] for cell in table.cells}
    names = {name for cell in points for name in table.cell(*cell, seed=0, tier=tier, **points[cell]).datasets}
    return f"SMOKE TIER, {' and '.join(sorted(names))}, NOT THE PAPER'S DATA. {shown}"


def head(table: Table, column: Column) -> str:
    """``ε = 0.5``, as the table's ``column`` is headed."""
    return f"{symbol(table)} = {'∞' if column is None else format(column, 'g')}"


def heads(table: Table) -> list[str]:
    """The columns' headings."""
    return [head(table, column) for column in table.columns]


def symbol(table: Table) -> str:
    """The letter of what the columns vary, or its name where it has none."""
    return SYMBOLS.get(table.column, table.column)


def ours(mean: float | None, stderr: float | None, n: int) -> str:
    """``98.13 ± 0.08 (5)``; one run has no spread, and a cell without runs is a dash."""
    if not n:
        return "–"
    return f"{mean:.2f}" + (f" ± {stderr:.2f}" if n > 1 else "") + f" ({n})"


def command(table: Table, tier: str, store: Store) -> str:
    """What fills the table to the seeds that most of its cells have, in mixed precision where any of its runs was."""
    words = f"python -m lib.reproduce --tier {tier} --table {table.name} --seeds {max(seeds(table, tier, store), 1)}"
    found = {precision(record["env"]) for cell in table.cells for record in records(table, *cell, tier, store)}
    return f"{words} --precision bfloat16" if "bfloat16" in found else words


def privacy(table: Table, tier: str, store: Store) -> str:
    """What the stored runs claim, what is proven and what an audit showed, see :mod:`lib.report.privacy_words`."""
    return privacy_words.of_cells([list(records(table, *cell, tier, store)) for cell in table.cells])


def data(table: Table, tier: str, store: Store) -> list[str]:
    """A line that says how much data the cells saw, where their records say it."""
    found = {record["env"].get("data") for cell in table.cells for record in records(table, *cell, tier, store)}
    said = sorted(found - {None, ""})
    return [f"data: {'; '.join(said)}"] if said else []


def seeds(table: Table, tier: str, store: Store) -> int:
    """How many seeds most cells of ``table`` have, of those that have any."""
    stored = summary(table, tier, store)["n"]
    return int(stored[stored > 0].mode().max()) if stored.any() else 0
