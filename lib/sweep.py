"""Many runs → stored.

    python -m lib.sweep mnist_noise --tier cpu --seeds 5 --minutes 30

First the tuning runs of every cell, then seed 0 of every cell, then seed 1, …: each claim gets its first answer
before any gets its spread.  A run is stored the moment it is finished, so a killed sweep loses at most the runs in
hand; the next one finds the rest in the store.
"""

import argparse
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from joblib import Parallel, delayed
from tqdm.auto import tqdm

from lib import data, tables, tuning
from lib.run import Run
from lib.store import RESULTS, Record, Store, StoreError
from lib.tables import Table
from lib.train import OutOfTime, train

SMOKE_RESULTS = Path("out") / "smoke"  # never under results/: these are not the papers' data


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


def results_folder(tier: str) -> Path:
    """Where records of ``tier`` live."""
    return SMOKE_RESULTS if tables.check_tier(tier) == "smoke" else RESULTS


def missing(table: Table, tier: str, seeds: int, store: Store) -> tuple[list[Run], int]:
    """The runs that can be started now, in order, and how many cells still wait for their tuning."""
    pending = [run for row, column in table.cells for run in tuning.runs(table, row, column, tier) if run not in store]
    if pending:
        return _unique(pending), seeds * sum(tuning.chosen(table, *cell, tier, store) is None for cell in table.cells)
    cells = (
        tuning.cell_run(table, row, column, seed, tier, store) for seed in range(seeds) for row, column in table.cells
    )
    return _unique(run for run in cells if run is not None and run not in store), 0


def run(
    table: Table,
    *,
    tier: str = "smoke",
    seeds: int = 1,
    minutes: float | None = None,
    n_jobs: int | None = None,
    root: Path | str | None = None,
    progress: bool = True,
) -> Sweep:
    """Train every missing run of ``table`` and store it.

    ``minutes``: no run starts after that time, and one in hand is dropped at the end of its epoch.  ``n_jobs``: worker
    processes, by default one per core on a CPU and one on a GPU.  Raises ``StoreError`` or ``DataError`` before any
    training if results cannot be written or data not read, and ``SweepError`` at the end if runs failed.
    """
    store = Store(root if root is not None else results_folder(tier), read_only=False)
    deadline = time.time() + 60 * minutes if minutes is not None else None
    n_jobs = n_jobs or (1 if torch.cuda.is_available() else os.cpu_count() or 1)
    result = Sweep()
    while True:
        runs, waiting = missing(table, tier, seeds, store)
        for name in {run.dataset for run in runs}:
            data.load(name)
        before = result.stored
        _batch(table, runs, store, result, deadline, n_jobs, progress)
        if result.failed:
            raise SweepError(f"{len(result.failed)} of {len(runs)} runs failed:\n" + "\n".join(result.failed))
        if result.stored - before < len(runs) or not waiting:
            result.unfinished = len(runs) - (result.stored - before) + waiting
            return result


def _batch(
    table: Table, runs: list[Run], store: Store, result: Sweep, deadline: float | None, n_jobs: int, progress: bool
) -> None:
    threads = max(1, (os.cpu_count() or 1) // n_jobs)
    work = (delayed(_work)(run, deadline, threads) for run in runs)
    outcomes = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)(work)
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


def _unique(runs: Iterable[Run]) -> list[Run]:
    return list({run.id: run for run in runs}.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lib.sweep", description="Train and store the missing runs of a table."
    )
    parser.add_argument("table", help="one of lib/tables")
    parser.add_argument("--tier", default="smoke", help=", ".join(tables.TIERS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="time budget; the next sweep goes on where this one stops")
    parser.add_argument("--n-jobs", type=int, help="worker processes")
    arguments = parser.parse_args()
    try:
        table = tables.load(arguments.table)
        print(
            run(table, tier=arguments.tier, seeds=arguments.seeds, minutes=arguments.minutes, n_jobs=arguments.n_jobs)
        )
    except (ValueError, data.DataError, StoreError, SweepError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
