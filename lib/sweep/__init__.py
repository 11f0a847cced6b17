"""Many runs → stored.

    python -m lib.sweep mnist_noise --tier cpu --seeds 5 --minutes 30

First the tuning runs of every cell, then seed 0 of every cell, then seed 1, …: each claim gets its first answer
before any gets its spread; but on a GPU runs that are alike train together, whatever their seeds.  A run is stored by
its worker the moment it is finished; until then it has a checkpoint and a :class:`~lib.lease.Lease` in the folder's
``.running``.  So a killed sweep goes on where it was, several sweeps can fill one folder, on one machine or many, and a
worker that dies or hangs is replaced.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from joblib import cpu_count
from tqdm import tqdm

from lib import data, environment, tuning
from lib.lease import leases
from lib.plan import Plan
from lib.run import Run
from lib.store import Store, check_writable, folder
from lib.sweep._pool import watched, workers
from lib.sweep._work import ELSEWHERE, RUNNING, STORED, UNFINISHED, ClusterLost, WorkerDied, shares, tidy, work
from lib.tables import Table

TOGETHER = 64  # runs that a GPU trains at once, if they are alike; a CPU is full with one
SILENT = 600.0  # seconds without a step after which a worker is given up
POLL = 1.0  # seconds between two looks for what other sweeps have finished
DEATHS = 3  # of its workers, after which a run is given up
UNSEEN = 60  # looks, after which a run that a worker stored is not where this sweep looks


class SweepError(Exception):
    """Some runs failed; the message names each, and says how many runs are missing with them."""


Stage = Callable[[Table, Plan, Store], Iterator[Run]]


@dataclass
class Sweep:
    """What :func:`run` did."""

    stored: int = 0
    unfinished: int = 0
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        left = f", {self.unfinished} left for the next sweep" if self.unfinished else ""
        return f"{self.stored} runs stored{left}"


def run(
    table: Table, *, root: Path | str | None = None, progress: bool = True, silent: float = SILENT, **plan: Any
) -> Sweep:
    """Train every missing run of ``table`` and store it, under ``root`` or where records of the tier live.

    ``plan``: the fields of :class:`~lib.plan.Plan` (tier, seeds, minutes, backend, scheduler, n_jobs, together,
    precision).  When ``minutes`` are over no run starts, and those in hand leave checkpoints.  A worker that does no
    step in ``silent`` seconds is given up, and its run taken over.  Raises ``TypeError``, ``ValueError``,
    ``StoreError`` or ``DataError`` before any training if ``table`` or the plan is none, results cannot be written or
    read, or data are missing; and ``SweepError`` at the end if runs failed.
    """
    if not isinstance(table, Table):
        raise TypeError(f"table: expected one of tables.load(name); got {table!r}")
    plan = Plan(**plan)
    root = Path(root if root is not None else folder(plan.tier)).resolve()  # a cluster's workers are elsewhere
    store = Store(root, read_only=False)
    if plan.precision == "bfloat16" and plan.scheduler is None and not environment.computes_in_bfloat16():
        warnings.warn("precision: this processor emulates bfloat16, which is slower than float32", stacklevel=2)
    deadline = time.time() + 60 * plan.minutes if plan.minutes is not None else None
    # One after the other has every core, unless it is asked to leave some, as to other notebooks beside it.
    n_jobs = plan.n_jobs or (1 if plan.backend == "sequential" else torch.cuda.device_count() or cpu_count())
    together = plan.together or (TOGETHER if torch.cuda.is_available() else 1)
    threads = 1 if plan.scheduler else max(1, cpu_count() // n_jobs)
    stages = (_tuning_runs, _cell_runs)
    # Each is read, so that a damaged record is refused here, before anything is trained.
    wanted = [asked for stage in stages for asked in stage(table, plan, store) if store.get(asked) is None]
    tidy(root, (asked for stage in stages for asked in stage(table, plan, store) if asked in store), silent=silent)
    for name in {name for asked in wanted for name in asked.datasets}:
        data.load(name)  # a data error is raised here, once, rather than by every worker
    if wanted:
        check_writable(root / table.name)  # which can be a link, and lead elsewhere

    def missing(stage: Stage) -> list[Run]:
        store = Store(root)  # as it is by now
        return list({asked.id: asked for asked in stage(table, plan, store) if asked not in store}.values())

    how = {"threads": threads, "silent": silent, "deadline": deadline, "precision": plan.precision}
    how["spread"] = plan.scheduler is None
    call = partial(work, table=table.name, root=root, **how)

    def outcomes(runs: list[Run]) -> Iterator[tuple[Run, str]]:
        at_once = 1 if plan.backend == "sequential" else n_jobs  # there n_jobs leaves cores to others
        return of_workers(call, shares(runs, together=together, n_jobs=at_once))

    until = None if deadline is None else deadline + silent  # by then all that work have saved what they have
    result = Sweep()
    try:
        with workers(plan, n_jobs, until) as of_workers, watched(root / RUNNING, silent=silent):
            for stage in stages:
                with tqdm(desc=table.name, total=len(missing(stage)), unit="run", disable=not progress) as bar:
                    _complete(partial(missing, stage), outcomes, partial(_deaths, root / RUNNING), result, bar)
    except ClusterLost as error:
        told = "all that was stored is there, and the same command goes on from it"
        raise SweepError("\n".join([f"{error}; {told}", *result.failed])) from error
    result.unfinished = tuning.stored_and_missing(table, plan.tier, plan.seeds, Store(root))[1]
    if result.failed:
        told = "with those that wait for a search which failed, or were cut off when time was up"
        told = f"{len(result.failed)} runs failed, {result.unfinished} are missing, {told}:"
        raise SweepError("\n".join([told, *result.failed]))
    return result


def _tuning_runs(table: Table, plan: Plan, store: Store) -> Iterator[Run]:
    return (run for row, column in table.cells for run in tuning.runs(table, row, column, plan.tier, store))


def _cell_runs(table: Table, plan: Plan, store: Store) -> Iterator[Run]:
    """Seed 0 of every cell first; a cell whose tuning is not complete is left out."""
    cells = ((*cell, seed) for seed in range(plan.seeds) for cell in table.cells)
    runs = (tuning.cell_run(table, *cell, plan.tier, store) for cell in cells)
    return (run for run in runs if run is not None)


def _complete(
    missing: Callable[[], list[Run]],
    outcomes: Callable[[list[Run]], Iterator[tuple[Run, str]]],
    deaths: Callable[[], Counter[str]],
    result: Sweep,
    bar: tqdm,
) -> None:
    """Train what is missing until it is all stored, by this sweep or another, or has failed, or time is up.

    What is stored can ask for more: a search goes on beyond its grid.  When a worker dies its pool dies with it, and
    any run that was in hand may be why: those come last, one at a time, so that none is blamed for another.
    """
    given_up, stored, unseen, unexplained, late = set(), set(), 0, 0, False
    while not late and unexplained < DEATHS and (wanted := [run for run in missing() if run.id not in given_up]):
        unseen = unseen + 1 if stored.issuperset(run.id for run in wanted) else 0
        if unseen == UNSEEN:
            told = "stored by a worker, and not here: expected a folder that all workers share"
            result.failed += [f"{run.words}-{run.id}: {told}" for run in wanted]
            break
        elsewhere, died, bar.total = False, deaths(), bar.n + len(wanted)
        at_once = [run for run in wanted if not died[run.id]] or wanted[:1]
        try:
            for run, outcome in outcomes(at_once):
                if outcome == STORED:
                    result.stored += 1
                    stored.add(run.id)
                    bar.update()
                elif outcome == ELSEWHERE:
                    elsewhere = True
                elif outcome == UNFINISHED:
                    late = True
                else:
                    result.failed.append(outcome)
                    given_up.add(run.id)
            unexplained = 0
        except WorkerDied as error:  # what it had in hand is missing still
            time.sleep(POLL)  # until those that die with it are dead
            now = deaths()
            unexplained = unexplained + 1 if now == died else 0
            if unexplained == DEATHS:
                result.failed.append(f"{DEATHS} times in a row workers died with no run in hand: {error}")
            for run in at_once:
                if now[run.id] >= DEATHS:
                    result.failed.append(f"{run.words}-{run.id}: {DEATHS} times its worker died: {error}")
                    given_up.add(run.id)
        if elsewhere:
            time.sleep(POLL)


def _deaths(running: Path) -> Counter[str]:
    """How many workers of this sweep died with each run in hand: who lives gives his lease back."""
    return Counter(lease.run_id for lease in leases(running) if lease.of_a_child and lease.dead)
