"""Many runs → stored.

    python -m lib.sweep mnist_noise --tier cpu --seeds 5 --minutes 30

First the tuning runs of every cell, then seed 0 of every cell, then seed 1, …: each claim gets its first answer
before any gets its spread.  A run is stored the moment it is finished, so a killed sweep loses at most the runs in
hand; the next one finds the rest in the store.
"""

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

from lib import data, tables, tuning
from lib.plan import Plan
from lib.run import Run
from lib.store import Record, Store, StoreError, folder
from lib.tables import Table
from lib.train import OutOfTime, train


class SweepError(Exception):
    """Some runs failed; the message names each.  All others were stored."""


@dataclass
class Sweep:
    """What :func:`run` did."""

    stored: int = 0
    unfinished: int = 0
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        left = f", {self.unfinished} left for the next sweep" if self.unfinished else ""
        return f"{self.stored} runs stored{left}"


def run(table: Table, *, root: Path | str | None = None, progress: bool = True, **plan: Any) -> Sweep:
    """Train every missing run of ``table`` and store it, under ``root`` or where records of the tier live.

    ``plan``: the fields of :class:`~lib.plan.Plan` (tier, seeds, minutes, backend, n_jobs).  When ``minutes`` are over
    no run starts, and one in hand is dropped at the end of its epoch.  Raises ``ValueError``, ``StoreError`` or
    ``DataError`` before any training if the plan is not one, results cannot be written or read, or data are missing;
    and ``SweepError`` at the end if runs failed.
    """
    plan = Plan(**plan)
    store = Store(root if root is not None else folder(plan.tier), read_only=False)
    deadline = time.time() + 60 * plan.minutes if plan.minutes is not None else None
    n_jobs = plan.n_jobs or (1 if torch.cuda.is_available() else os.cpu_count() or 1)
    threads = max(1, (os.cpu_count() or 1) // n_jobs)
    result = Sweep()
    stages = (_tuning_runs, _cell_runs)
    for stage in stages:
        for asked in stage(table, plan, store):
            store.get(asked)  # a damaged record is refused here, before anything is trained
    for stage in stages:
        runs = list({asked.id: asked for asked in stage(table, plan, store) if asked not in store}.values())
        for name in {asked.dataset for asked in runs}:
            data.load(name)  # a data error is raised here, once, rather than by every worker
        with parallel_config(plan.backend, n_jobs=n_jobs):
            _batch(table, runs, store, result, deadline, threads, progress)
    if result.failed:
        raise SweepError(f"{len(result.failed)} runs failed, all others are stored:\n" + "\n".join(result.failed))
    result.unfinished = tuning.stored_and_missing(table, plan.tier, plan.seeds, store)[1]
    return result


def _tuning_runs(table: Table, plan: Plan, store: Store) -> Iterator[Run]:
    return (run for row, column in table.cells for run in tuning.runs(table, row, column, plan.tier))


def _cell_runs(table: Table, plan: Plan, store: Store) -> Iterator[Run]:
    """Seed 0 of every cell first; a cell whose tuning is not complete is left out."""
    cells = ((*cell, seed) for seed in range(plan.seeds) for cell in table.cells)
    runs = (tuning.cell_run(table, *cell, plan.tier, store) for cell in cells)
    return (run for run in runs if run is not None)


def _batch(
    table: Table, runs: list[Run], store: Store, result: Sweep, deadline: float | None, threads: int, progress: bool
) -> None:
    work = (delayed(_work)(run, deadline, threads) for run in runs)
    outcomes = Parallel(return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)(work)
    for outcome in tqdm(outcomes, total=len(runs), desc=f"{table.name}", unit="run", disable=not progress):
        if isinstance(outcome, dict):
            store.write(table.name, outcome)
            result.stored += 1
        elif outcome is not None:
            result.failed.append(outcome)


def _work(run: Run, deadline: float | None, threads: int) -> Record | str | None:
    """A worker's share: the record, None if time ran out, or what went wrong.

    The error is returned, not raised: a raised one would end the whole sweep.
    """
    if deadline is not None and time.time() > deadline:
        return None
    torch.set_num_threads(threads)
    try:
        return train(run, deadline=deadline)
    except OutOfTime:
        return None
    except Exception as error:
        return f"{run.words}-{run.id}: {type(error).__name__}: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lib.sweep", description="Train and store the missing runs of a table."
    )
    parser.add_argument("table", help="one of lib/tables")
    parser.add_argument("--tier", default="smoke", help=", ".join(tables.TIERS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="time budget; the next sweep goes on where this one stops")
    parser.add_argument("--n-jobs", type=int, help="worker processes")
    arguments = vars(parser.parse_args())
    try:
        print(run(tables.load(arguments.pop("table")), **arguments))
    except (ValueError, data.DataError, StoreError, SweepError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
