"""Choosing a cell's settings from its stored tuning runs: the highest validation accuracy wins.

The test set has no part in it.  Nothing chosen is ever written down by hand: reader and sweep both derive it from the
stored records.
"""

from typing import Any

from lib.run import Run
from lib.store import Store
from lib.tables import Column, Row, Table


def runs(table: Table, row: Row, column: Column, tier: str) -> list[Run]:
    """The tuning runs of one cell, one for each point of its grid."""
    return [table.tuning(row, column, tier=tier, **point) for point in table.points(row)]


def chosen(table: Table, row: Row, column: Column, tier: str, store: Store) -> dict[str, Any] | None:
    """The best point of the cell's grid (the first among equals), ``{}`` for an untuned row.

    None as long as one of the tuning runs is missing: a choice from half a grid would change later.
    """
    points = table.points(row)
    if not points:
        return {}
    records = [store.get(run) for run in runs(table, row, column, tier)]
    if any(record is None for record in records):
        return None
    scores = [record["metrics"]["validation_accuracy"] for record in records]
    return points[scores.index(max(scores))]


def cell_run(table: Table, row: Row, column: Column, seed: int, tier: str, store: Store) -> Run | None:
    """The run of one cell under one seed, with its tuned settings; None before the tuning is complete."""
    point = chosen(table, row, column, tier, store)
    return None if point is None else table.cell(row, column, seed=seed, tier=tier, **point)
