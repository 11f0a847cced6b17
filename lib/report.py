"""Stored beside printed: the numbers as data frames and as text.

Everything here reads the store and trains nothing.  Ours is mean ± standard error (n seeds); printed is what the
paper prints.
"""

from collections.abc import Iterator

import pandas as pd
from scipy.stats import sem

from lib import tuning
from lib.store import Record, Store, folder
from lib.tables import Column, Row, Table

MAX_SEEDS = 1000  # the seeds of a cell are counted from 0 without gaps; this only bounds the search for the last


def records(table: Table, row: Row, column: Column, tier: str, store: Store) -> Iterator[Record]:
    """The stored records of one cell, seed 0 first."""
    point = tuning.chosen(table, row, column, tier, store)
    if point is None:
        return
    for seed in range(MAX_SEEDS):
        record = store.get(table.cell(row, column, seed=seed, tier=tier, **point))
        if record is None:
            return
        yield record


def accuracy(record: Record) -> float:
    """The accuracy that the record reports, in percent: on the test set, or on validation examples."""
    return next(value for name, value in record["metrics"].items() if name.endswith("accuracy"))


def results(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per stored run of ``table``: row, column, seed, accuracy, lr, seconds, device, id."""
    lines = [
        {
            "row": row,
            "column": column,
            "seed": record["run"]["seed"],
            "accuracy": accuracy(record),
            "lr": record["run"]["lr"],
            "epochs": record["run"]["epochs"],
            "seconds": record["env"]["seconds"],
            "device": record["env"]["device"],
            "id": record["id"],
        }
        for row, column in table.cells
        for record in records(table, row, column, tier, store)
    ]
    return pd.DataFrame(lines, columns=["row", "column", "seed", "accuracy", "lr", "epochs", "seconds", "device", "id"])


def summary(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per cell of ``table``: n, mean and standard error of ours, step size, epochs, and what is printed."""
    lines = []
    for row, column in table.cells:
        of_cell = list(records(table, row, column, tier, store))
        values = [accuracy(record) for record in of_cell]
        lines.append(
            {
                "row": row,
                "column": column,
                "n": len(values),
                "mean": sum(values) / len(values) if values else None,
                "stderr": float(sem(values)) if len(values) > 1 else None,
                "lr": of_cell[0]["run"]["lr"] if of_cell else None,
                "epochs": of_cell[0]["run"]["epochs"] if of_cell else None,
                "printed": table.printed.get((row, column)),
                "privacy": _answers(of_cell),
            }
        )
    return pd.DataFrame(lines)


def curves(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per stored run and epoch: row, column, seed, epoch (from 1), accuracy."""
    lines = []
    for row, column in table.cells:
        for record in records(table, row, column, tier, store):
            name = next(name for name in record["history"] if name.endswith("accuracy"))
            for epoch, value in enumerate(record["history"][name], start=1):
                lines.append(
                    {"row": row, "column": column, "seed": record["run"]["seed"], "epoch": epoch, "accuracy": value}
                )
    return pd.DataFrame(lines, columns=["row", "column", "seed", "epoch", "accuracy"])


def search(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per stored tuning run: row, column, every tuned field, epochs, validation accuracy."""
    lines = []
    for row, column in table.cells:
        points = table.points(row, column)
        for point, run in zip(points, tuning.runs(table, row, column, tier), strict=True):
            if record := store.get(run):
                epochs = record["run"]["epochs"]
                lines.append({"row": row, "column": column, **point, "epochs": epochs, "accuracy": accuracy(record)})
    return pd.DataFrame(lines, columns=["row", "column", *table.grid, "epochs", "accuracy"])


def text(table: Table, tier: str = "cpu", store: Store | None = None) -> str:
    """The table as text: for every row ours, printed, step size and epochs of ours; then privacy and the command.

    Where cells differ in their privacy, every row has a line of claimed / proven / audited ε.

    ``store``: by default where the records of ``tier`` live.
    """
    store = store or Store(folder(tier))
    cells = summary(table, tier, store)
    lines, each_private = {}, table.column == "epsilon"
    for row in table.rows:
        of_row = cells[cells["row"] == row]
        if row not in table.not_run:
            lines[row, "ours"] = [ours(cell.mean, cell.stderr, cell.n) for cell in of_row.itertuples()]
        printed = [table.printed.get((row, column)) for column in table.columns]
        if any(cell is not None for cell in printed):
            lines[row, "printed"] = ["–" if cell is None else cell.text for cell in printed]
        if row not in table.not_run:
            if each_private:
                lines[row, "ε"] = [cell.privacy.split(" (")[0] or "–" for cell in of_row.itertuples()]
            lines[row, "lr, epochs"] = [
                "–" if pd.isna(c.lr) else f"{c.lr:g}, {c.epochs:.0f}" for c in of_row.itertuples()
            ]
    frame = pd.DataFrame(lines.values(), index=pd.MultiIndex.from_tuples(lines), columns=heads(table))
    return "\n".join(
        [
            title(table, tier),
            frame.to_string(),
            "ours: mean ± standard error (number of seeds); accuracy after the last epoch",
            *(f"{row}, not run: {why}" for row, why in table.not_run.items()),
            *(["ε: claimed / proven / audited"] if each_private else []),
            f"privacy (claimed / proven / audited ε): {privacy(table, tier, store)}",
            f"command: {command(table, tier, seeds(table, tier, store))}",
        ]
    )


def one_step_size(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """The other reading of the table: every row with a single step size for all columns, out of the tuning runs.

    It is the step size whose worst column is best.  Validation accuracy (%) after the short tuning run, seed 0; a row
    whose tuning is not complete is left out.
    """
    frame, lines = search(table, tier, store), {}
    for row in table.rows:
        square = frame[frame["row"] == row].pivot(index="lr", columns="column", values="accuracy")
        points = table.points(row, table.columns[0])
        if square.shape == (len(points), len(table.columns)) and square.notna().all(axis=None):
            best = square.min(axis=1).idxmax()
            lines[row] = {"step size": f"{best:g}"} | {
                head: f"{value:.2f}" for head, value in zip(heads(table), square.loc[best], strict=True)
            }
    return pd.DataFrame.from_dict(lines, orient="index", columns=["step size", *heads(table)])


def title(table: Table, tier: str) -> str:
    """What the table shows and where it is printed; a smoke table says that it is not the papers' data."""
    smoke = "SMOKE TIER, scikit-learn's digits, NOT THE PAPER'S DATA. " if tier == "smoke" else ""
    return f"{smoke}{table.title} ({table.source}; tier {tier})"


def heads(table: Table) -> list[str]:
    """The columns' headings."""
    return [f"{symbol(table)} = {'∞' if column is None else format(column, 'g')}" for column in table.columns]


def symbol(table: Table) -> str:
    """The letter of what the columns vary."""
    return {"weight_noise_std": "σ", "gradient_noise_std": "σ", "epsilon": "ε"}[table.column]


def ours(mean: float | None, stderr: float | None, n: int) -> str:
    """``98.13 ± 0.08 (5)``; one run has no spread, and a cell without runs is a dash."""
    if not n:
        return "–"
    return f"{mean:.2f}" + (f" ± {stderr:.2f}" if n > 1 else "") + f" ({n})"


def command(table: Table, tier: str, seeds: int) -> str:
    """What fills the table."""
    return f"python -m lib.reproduce --tier {tier} --table {table.name} --seeds {max(seeds, 1)}"


def seeds(table: Table, tier: str, store: Store) -> int:
    """The largest number of seeds that a cell of ``table`` has."""
    return int(summary(table, tier, store)["n"].max())


def privacy(table: Table, tier: str, store: Store) -> str:
    """What the stored runs claim, what is proven and what an audit showed; one phrase for each different answer.

    Where every cell has an ε of its own, the reasons alone.
    """
    cells = [list(records(table, *cell, tier, store)) for cell in table.cells]
    if table.column == "epsilon":
        reasons = (record["privacy"]["proven"]["why"].split(": for")[0] for cell in cells for record in cell)
        return "; ".join(dict.fromkeys(reasons)) or "nothing stored yet"
    return "; ".join(dict.fromkeys(answer for cell in cells if (answer := _answers(cell)))) or "nothing stored yet"


def _answers(of_cell: list[Record]) -> str:
    """``1 by pld / 1 / none (why)``: the different answers of a cell's records, claimed / proven / audited."""
    answers = {}
    for record in of_cell:
        block = record["privacy"]
        claimed = ", ".join(f"{_epsilon(epsilon)} by {name}" for name, epsilon in block["claimed"].items()) or "none"
        proven, audited = block["proven"], block["audited"]
        answers[
            f"{claimed} / {_epsilon(proven['epsilon'])} / "
            f"{'none' if audited is None else _epsilon(audited['epsilon'])} ({proven['why']})"
        ] = None
    return "; ".join(answers)


def _epsilon(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:.3g}"
