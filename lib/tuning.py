"""Choosing a cell's settings from its stored tuning runs, by validation accuracy and the one-standard-error rule.

The first point of the grid (grids begin with the most cautious) whose accuracy is within one standard error of the
best wins: tuning runs are shorter than final ones, and longer runs want smaller steps.  The test set has no part in
it.  Nothing chosen is ever written down by hand: reader and sweep both derive it from the stored records.
"""

import math
from typing import Any

from lib.run import Run
from lib.store import Store
from lib.tables import Column, Row, Table


def runs(table: Table, row: Row, column: Column, tier: str) -> list[Run]:
    """The tuning runs of one cell, one for each point of its grid."""
    return [table.tuning(row, column, tier=tier, **point) for point in table.points(row, column, tier)]


def chosen(table: Table, row: Row, column: Column, tier: str, store: Store) -> dict[str, Any] | None:
    """The point chosen from the cell's grid, ``{}`` for an untuned one.

    The standard error is that of one accuracy p over n validation examples, √(p (1 − p) / n).  None as long as one
    of the tuning runs is missing: a choice from half a grid would change later.
    """
    points = table.points(row, column, tier)
    if not points:
        return {}
    records = [store.get(run) for run in runs(table, row, column, tier)]
    if any(record is None for record in records):
        return None
    scores = [record["metrics"]["validation_accuracy"] / 100 for record in records]
    best, examples = max(scores), records[0]["run"]["validation_examples"]
    margin = math.sqrt(best * (1 - best) / examples)
    return next(point for point, score in zip(points, scores, strict=True) if score >= best - margin)


def cell_run(table: Table, row: Row, column: Column, seed: int, tier: str, store: Store) -> Run | None:
    """The run of one cell under one seed, with its tuned settings; None before the tuning is complete."""
    point = chosen(table, row, column, tier, store)
    return None if point is None else table.cell(row, column, seed=seed, tier=tier, **point)


def stored_and_missing(table: Table, tier: str, seeds: int, store: Store) -> tuple[int, int]:
    """How many of the runs of ``table`` (its tuning, and ``seeds`` of every cell) are stored, and how many missing."""
    tuning_runs = {run.id: run for cell in table.cells for run in runs(table, *cell, tier)}
    stored = sum(run in store for run in tuning_runs.values())
    for row, column in table.cells:
        for seed in range(seeds):
            run = cell_run(table, row, column, seed, tier, store)
            stored += run is not None and run in store
    return stored, len(tuning_runs) + seeds * len(table.cells) - stored
