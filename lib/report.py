"""Stored beside printed: the numbers as data frames and as text.

Everything here reads the store and trains nothing.  Ours is mean ± standard error (n seeds); printed is what the
paper prints.
"""

from collections.abc import Iterator

import pandas as pd
from scipy.stats import sem

from lib import tuning
from lib.store import Record, Store
from lib.tables import Column, Row, Table

MAX_SEEDS = 1000  # the seeds of a cell are counted from 0 without gaps; this only bounds the search for the last


def records(table: Table, row: Row, column: Column, tier: str, store: Store) -> Iterator[Record]:
    """The stored records of one cell, seed 0 first."""
    for seed in range(MAX_SEEDS):
        run = tuning.cell_run(table, row, column, seed, tier, store)
        record = None if run is None else store.get(run)
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
    """One line per cell of ``table``: n, mean and standard error of ours, the tuned step size, and what is printed."""
    stored = {cell: group for cell, group in results(table, tier, store).groupby(["row", "column"], dropna=False)}
    lines = []
    for row, column in table.cells:
        group = stored.get((row, column))
        values = [] if group is None else list(group["accuracy"])
        lines.append(
            {
                "row": row,
                "column": column,
                "n": len(values),
                "mean": sum(values) / len(values) if values else None,
                "stderr": float(sem(values)) if len(values) > 1 else None,
                "lr": None if group is None else group["lr"].iloc[0],
                "printed": table.printed.get((row, column)),
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
    """One line per stored tuning run: row, column, every tuned field, validation accuracy."""
    lines = []
    for row, column in table.cells:
        points = table.points(row)
        for point, run in zip(points, tuning.runs(table, row, column, tier), strict=True):
            if record := store.get(run):
                lines.append({"row": row, "column": column, **point, "accuracy": accuracy(record)})
    return pd.DataFrame(lines, columns=["row", "column", *table.grid, "accuracy"])


def stored_and_missing(table: Table, tier: str, seeds: int, store: Store) -> tuple[int, int]:
    """How many of the runs of ``table`` (its tuning, and ``seeds`` of every cell) are stored, and how many missing."""
    tuning_runs = {run.id: run for cell in table.cells for run in tuning.runs(table, *cell, tier)}
    stored = sum(run in store for run in tuning_runs.values())
    for row, column in table.cells:
        for seed in range(seeds):
            run = tuning.cell_run(table, row, column, seed, tier, store)
            stored += run is not None and run in store
    return stored, len(tuning_runs) + seeds * len(table.cells) - stored


def text(table: Table, tier: str, store: Store) -> str:
    """The table as text: for every row ours, printed and the tuned step size; then privacy and the command."""
    cells = summary(table, tier, store)
    lines = {}
    for row in table.rows:
        of_row = cells[cells["row"] == row]
        lines[row, "ours"] = [ours(cell.mean, cell.stderr, cell.n) for cell in of_row.itertuples()]
        if any(cell is not None for cell in of_row["printed"]):
            lines[row, "printed"] = ["–" if cell is None else cell.text for cell in of_row["printed"]]
        lines[row, "step size"] = ["–" if pd.isna(lr) else f"{lr:g}" for lr in of_row["lr"]]
    frame = pd.DataFrame(lines.values(), index=pd.MultiIndex.from_tuples(lines), columns=heads(table))
    return "\n".join(
        [
            title(table, tier),
            frame.to_string(),
            "ours: mean ± standard error (number of seeds); accuracy after the last epoch",
            f"privacy (claimed / proven / audited ε): {privacy(table, tier, store)}",
            f"command: {command(table, tier, int(cells['n'].max()))}",
        ]
    )


def title(table: Table, tier: str) -> str:
    """What the table shows and where it is printed; a smoke table says that it is not the papers' data."""
    smoke = "SMOKE TIER, scikit-learn's digits, NOT THE PAPER'S DATA. " if tier == "smoke" else ""
    return f"{smoke}{table.title} ({table.source}; tier {tier})"


def heads(table: Table) -> list[str]:
    """The columns' headings."""
    symbol = {"weight_noise_std": "σ"}[table.column]
    return [f"{symbol} = {column:g}" for column in table.columns]


def ours(mean: float | None, stderr: float | None, n: int) -> str:
    """``98.13 ± 0.08 (5)``; one run has no spread, and a cell without runs is a dash."""
    if not n:
        return "–"
    return f"{mean:.2f}" + (f" ± {stderr:.2f}" if n > 1 else "") + f" ({n})"


def command(table: Table, tier: str, seeds: int) -> str:
    """What fills the table."""
    return f"python -m lib.reproduce --tier {tier} --table {table.name} --seeds {max(seeds, 1)}"


def privacy(table: Table, tier: str, store: Store) -> str:
    """What the stored runs claim, what is proven and what an audit showed; one phrase for each different answer."""
    answers = {}
    for row, column in table.cells:
        for record in records(table, row, column, tier, store):
            block = record["privacy"]
            claimed = ", ".join(f"{epsilon:.3g} by {name}" for name, epsilon in block["claimed"].items()) or "none"
            proven, audited = block["proven"], block["audited"]
            answers[
                f"{claimed} / {'none' if proven['epsilon'] is None else format(proven['epsilon'], '.3g')} / "
                f"{'none' if audited is None else format(audited['epsilon'], '.3g')} ({proven['why']})"
            ] = None
    return "; ".join(answers) or "nothing stored yet"
