"""Choosing a cell's settings from its stored tuning runs, by validation accuracy and the one-standard-error rule.

The first point of the grid (grids begin with the most cautious) whose accuracy is within one standard error of the
best wins: tuning runs are shorter than final ones, and longer runs want smaller steps.  Where it is the last point, or
the best is the first, the search goes on beyond the grid, so that a network is not judged by where its grid ended.
Out there it can be a matter of the seed whether a run diverges, so a point that would be chosen is tried under further
seeds, and the mean counts.  The test set has no part in it.  Nothing chosen is ever written down by hand: reader and
sweep both derive it from the stored records.
"""

import math
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any
from weakref import WeakKeyDictionary

from lib.record import Record
from lib.run import Run
from lib.store import Store
from lib.tables import Column, Row, Table

BEYOND = 4  # points at most past the ends of a grid
SEEDS = 3  # that judge such a point
Point = dict[str, Any]
# What was chosen from each store when it had so many records: a report asks for the same choices over and over.
_choices: WeakKeyDictionary[Store, dict[tuple, Point | None]] = WeakKeyDictionary()


def points(table: Table, row: Row, column: Column, tier: str, store: Store) -> list[Point]:
    """The candidates among which a cell is tuned: its grid, then those beyond that the stored runs ask for."""
    every, found = reachable(table, row, column, tier), table.points(row, column, tier)
    for _ in range((len(every) - len(found)) // 2):
        scores = _scores(table, row, column, tier, store, found)
        if None in scores:
            break
        if scores.index(max(scores)) == 0:
            found = [every[every.index(found[0]) - 1], *found]
        elif _winner(scores, _examples(table, row, column, tier, found)) == len(found) - 1:
            found = [*found, every[every.index(found[-1]) + 1]]
        else:
            break
    return found


def reachable(table: Table, row: Row, column: Column, tier: str) -> list[Point]:
    """The cell's grid, and beyond either end of it the points that a search can come to.

    Step sizes alone go on, by the ratio of the last two; tier ``smoke`` has no more than its two.
    """
    found = table.points(row, column, tier)
    if tier == "smoke" or not _goes_on(table) or len(found) < 2:
        return found
    below, above = found[0]["lr"] / found[1]["lr"], found[-1]["lr"] / found[-2]["lr"]
    for _ in range(BEYOND):
        first, last = (float(f"{end['lr'] * ratio:.4g}") for end, ratio in ((found[0], below), (found[-1], above)))
        found = [{"lr": first}, *found, {"lr": last}]
    return found


def _goes_on(table: Table) -> bool:
    """Whether its search may go on beyond the grid: of step sizes alone, which have an order and a ratio."""
    return [*table.grid] == ["lr"]


def runs(table: Table, row: Row, column: Column, tier: str, store: Store) -> list[Run]:
    """The tuning runs of one cell: one for each of its :func:`points`, more for the chosen one if it is beyond."""
    of_points = [table.tuning(row, column, tier=tier, **p) for p in points(table, row, column, tier, store)]
    point = chosen(table, row, column, tier, store)
    if not point or point in table.points(row, column, tier):
        return of_points
    return [*of_points, *_of_seeds(table.tuning(row, column, tier=tier, **point))[1:]]


def chosen(table: Table, row: Row, column: Column, tier: str, store: Store) -> Point | None:
    """The point chosen for the cell, ``{}`` for an untuned one.

    None as long as a run of the grid is missing: a choice from half a grid would change later.  A run beyond the grid
    counts once it is stored.
    """
    made, asked = _choices.setdefault(store, {}), (table, row, column, tier, len(store))
    if asked not in made:
        made[asked] = _chosen(table, row, column, tier, store)
    return made[asked]


def _chosen(table: Table, row: Row, column: Column, tier: str, store: Store) -> Point | None:
    found = _searched(table, row, column, tier, store)
    if not found:
        return None if table.points(row, column, tier) else {}
    scores = _scores(table, row, column, tier, store, found)
    return found[_winner(scores, _examples(table, row, column, tier, found))]


def at_an_end(table: Table, row: Row, column: Column, tier: str, store: Store) -> bool:
    """Whether further step sizes in one direction were not tried, and might be better than the chosen one."""
    found = _searched(table, row, column, tier, store)
    if not found or not _goes_on(table):
        return False
    scores = _scores(table, row, column, tier, store, found)
    return scores.index(max(scores)) == 0 or chosen(table, row, column, tier, store) == found[-1]


def left_open(table: Table, row: Row, column: Column, tier: str, store: Store) -> float:
    """By how many points another point may be better than the chosen one, as far as the search tells.

    The lead of the best in its validation accuracy, and one standard error of it; 0 where the chosen one is the best,
    or the cell was run with that, too.
    """
    found = _searched(table, row, column, tier, store)
    if not found:
        return 0.0
    scores = _scores(table, row, column, tier, store, found)
    best = scores.index(max(scores))
    own = scores[found.index(chosen(table, row, column, tier, store))]
    if scores[best] == own or table.cell(row, column, seed=0, tier=tier, **found[best]) in store:
        return 0.0
    return scores[best] - own + _standard_error(scores[best], _examples(table, row, column, tier, found))


def _searched(table: Table, row: Row, column: Column, tier: str, store: Store) -> list[Point]:
    """The points with stored runs; none if one of the grid has none."""
    found = points(table, row, column, tier, store)
    stored = [p for p in found if table.tuning(row, column, tier=tier, **p) in store]
    return stored if all(point in stored for point in table.points(row, column, tier)) else []


def _scores(table: Table, row: Row, column: Column, tier: str, store: Store, found: list[Point]) -> list[float | None]:
    """Validation accuracies (%) of the points, means over those stored; None where the first seed's is not."""
    scores = []
    for point in found:
        judges = records(table, row, column, tier, store, point)
        scores.append(fmean(record["metrics"]["validation_accuracy"] for record in judges) if judges else None)
    return scores


def records(table: Table, row: Row, column: Column, tier: str, store: Store, point: Point) -> list[Record]:
    """The stored tuning runs that judge ``point``, the first seed's first; none if that is not stored."""
    run = table.tuning(row, column, tier=tier, **point)
    seeds = (run,) if point in table.points(row, column, tier) else _of_seeds(run)
    return [record for run in seeds if (record := store.get(run))] if run in store else []


@cache
def _of_seeds(run: Run) -> tuple[Run, ...]:
    """``run`` under each of the seeds that judge a point beyond the grid, its own first; asked for over and over."""
    return tuple(replace(run, seed=seed) for seed in range(SEEDS))


def _winner(scores: list[float], examples: int) -> int:
    """Which is the first within one standard error of the best."""
    least = max(scores) - _standard_error(max(scores), examples)
    return next(i for i, score in enumerate(scores) if score >= least)


def _standard_error(accuracy: float, examples: int) -> float:
    """Of an accuracy p over n examples, √(p (1 − p) / n), in points."""
    p = accuracy / 100
    return 100 * math.sqrt(p * (1 - p) / examples)


def _examples(table: Table, row: Row, column: Column, tier: str, found: list[Point]) -> int:
    return table.tuning(row, column, tier=tier, **found[0]).validation_examples


def cell_run(table: Table, row: Row, column: Column, seed: int, tier: str, store: Store) -> Run | None:
    """The run of one cell under one seed, with its tuned settings; None before the tuning is complete."""
    point = chosen(table, row, column, tier, store)
    return None if point is None else table.cell(row, column, seed=seed, tier=tier, **point)


def wanted(table: Table, tier: str, seeds: int, store: Store) -> list[tuple[Row, Run]]:
    """The runs of ``table``, each once: those of its search, then ``seeds`` of every cell.

    Before a cell's search is complete, the first point of its grid stands for the one that will be chosen.
    """
    found: dict[str, tuple[Row, Run]] = {}
    for row, column in table.cells:
        for run in runs(table, row, column, tier, store):
            found.setdefault(run.id, (row, run))
    for seed in range(seeds):
        for row, column in table.cells:
            run = cell_run(table, row, column, seed, tier, store)
            if run is None:
                point = table.points(row, column, tier)[0]
                run = table.cell(row, column, seed=seed, tier=tier, **point)
            found.setdefault(run.id, (row, run))
    return list(found.values())


def stored_and_missing(table: Table, tier: str, seeds: int, store: Store) -> tuple[int, int]:
    """How many of the :func:`wanted` runs are stored, and how many missing."""
    stored = [run in store for _, run in wanted(table, tier, seeds, store)]
    return sum(stored), len(stored) - sum(stored)
