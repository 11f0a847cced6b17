"""The stored numbers as data frames: one line a run, a cell, an epoch or a tuning run."""

from collections.abc import Iterator
from itertools import count
from math import sqrt
from statistics import fmean, stdev

import pandas as pd

from lib import tuning
from lib.record import Record
from lib.report import privacy_words
from lib.store import Store
from lib.tables import Column, Row, Table

OF_RUN = ["table", "row", "column", "method", "seed", "accuracy", "printed", "claimed", "proven", "audited"]
OF_RUN += ["accountant", "delta", "lr", "epochs", "seconds", "device", "id"]


def records(table: Table, row: Row, column: Column, tier: str, store: Store) -> Iterator[Record]:
    """The stored records of one cell, seed 0 first."""
    point = tuning.chosen(table, row, column, tier, store)
    if point is not None:
        yield from _at(point, table, row, column, tier, store)


def _at(point: tuning.Point, table: Table, row: Row, column: Column, tier: str, store: Store) -> Iterator[Record]:
    """The stored records of one cell, were ``point`` what its search chose."""
    for seed in count():
        record = store.get(table.cell(row, column, seed=seed, tier=tier, **point))
        if record is None:
            return
        yield record


def accuracy(record: Record) -> float:
    """The accuracy that the record reports, in percent: on the test set, or on validation examples."""
    return next(value for name, value in record["metrics"].items() if name.endswith("accuracy"))


def results(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per stored run of ``table``, all numbers: :data:`OF_RUN`, with the mean that is printed, and the three ε
    of :mod:`lib.report.privacy_words`, NaN where none is told."""
    lines = []
    for row, column in table.cells:
        printed = table.printed.get((row, column))
        for record in records(table, row, column, tier, store):
            run, block, env = record["run"], record["privacy"], record["env"]
            accountant, claimed = next(iter(block["claimed"].items()), (None, None))
            epsilons = (claimed, block["proven"]["epsilon"], (block["audited"] or {}).get("epsilon"))
            what = (table.name, row, column, run["method"], run["seed"], accuracy(record), printed and printed.mean)
            how = (run["lr"], run["epochs"], env["seconds"], env["device"], record["id"])
            lines.append((*what, *epsilons, accountant, run["delta"] if block["claimed"] else None, *how))
    numbers = ["printed", "claimed", "proven", "audited", "delta"]
    return pd.DataFrame(lines, columns=OF_RUN).astype(dict.fromkeys(numbers, float))


def _accuracies(of_cell: list[Record]) -> dict[str, float | None]:
    """n, mean, standard error and the step size of records that differ in their seed alone."""
    values = [accuracy(record) for record in of_cell]
    return {
        "n": len(values),
        "mean": sum(values) / len(values) if values else None,
        "stderr": stdev(values) / sqrt(len(values)) if len(values) > 1 else None,
        "lr": of_cell[0]["run"]["lr"] if of_cell else None,
    }


def _at_other_steps(table: Table, row: Row, column: Column, tier: str, store: Store) -> list[dict[str, float | None]]:
    """What the cell reached with the step sizes that an earlier, smaller search chose, best first."""
    chosen = tuning.chosen(table, row, column, tier, store)
    others = [point for point in tuning.reachable(table, row, column, tier) if point != chosen]
    found = [list(_at(point, table, row, column, tier, store)) for point in others]
    return sorted((_accuracies(of_point) for of_point in found if of_point), key=lambda cell: -cell["mean"])


def summary(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per cell of ``table``: n, mean and standard error of ours, step size and whether it is at an end of its
    search, by how much that left another open (:func:`lib.tuning.left_open`), what is stored of other step sizes, batch
    size, epochs, what is printed, the privacy in words, and hashes of the data, of which features that were pretrained
    more than once have several."""
    lines = []
    for row, column in table.cells:
        of_cell = list(records(table, row, column, tier, store))
        lines.append(
            {
                "row": row,
                "column": column,
                **_accuracies(of_cell),
                "at_an_end": bool(of_cell) and tuning.at_an_end(table, row, column, tier, store),
                "left_open": tuning.left_open(table, row, column, tier, store) if of_cell else 0.0,
                "other_steps": _at_other_steps(table, row, column, tier, store) if of_cell else [],
                "data": frozenset(record["env"].get("data_sha256") for record in of_cell),
                "batch_size": of_cell[0]["run"]["batch_size"] if of_cell else None,
                "epochs": of_cell[0]["run"]["epochs"] if of_cell else None,
                "printed": table.printed.get((row, column)),
                "privacy": privacy_words.of_cells([[record] for record in of_cell]) if of_cell else "",
            }
        )
    return pd.DataFrame(lines).astype({"mean": float, "stderr": float})  # None, of too few runs, is NaN


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


def gradient_norms(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per stored run, epoch and parameter tensor: row, column, seed, epoch (from 1), layer, tensor, norm.

    The norm is the mean over public examples, measured before the epoch, where the run has done so.
    """
    lines = []
    for row, column in table.cells:
        for record in records(table, row, column, tier, store):
            for name, norms in record["history"].get("gradient_norms", {}).items():
                layer, tensor = name.split()
                layer = "shortcut" if "shortcut" in tensor else layer
                for epoch, norm in enumerate(norms, start=1):
                    lines.append((row, column, record["run"]["seed"], epoch, layer, tensor, norm))
    return pd.DataFrame(lines, columns=["row", "column", "seed", "epoch", "layer", "tensor", "norm"])


def search(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """One line per cell and point that was tried: row, column, every tuned field, n, epochs of all n runs, and their
    mean validation accuracy, by which the point was judged."""
    lines = []
    for row, column in table.cells:
        for point in tuning.points(table, row, column, tier, store):
            if found := tuning.records(table, row, column, tier, store, point):
                epochs, mean = sum(record["run"]["epochs"] for record in found), fmean(map(accuracy, found))
                cell = {"row": row, "column": column, **point}
                lines.append(cell | {"n": len(found), "epochs": epochs, "accuracy": mean})
    return pd.DataFrame(lines, columns=["row", "column", *table.grid, "n", "epochs", "accuracy"])
