"""A worker's share of a sweep: one run, or several that train together."""

import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

import torch

from lib import environment
from lib.lease import Lease
from lib.record import Record
from lib.run import Run
from lib.store import AlreadyStored, Store
from lib.train import OutOfTime, alike, train_together
from lib.train.checkpoint import remove
from lib.train.pretrained import Elsewhere

PACKAGE = Path(__file__).parent.parent
ON_A_GPU = 16  # workers, beyond which nobody counts them
RUNNING = ".running"  # the folder of leases and checkpoints, beside the results
STORED, ELSEWHERE, UNFINISHED = "stored", "elsewhere", "unfinished"

Share = tuple[Run, ...]
Call = Callable[[Share], list[tuple[Run, str]]]  # what a worker does with one
Outcomes = Callable[[Call, Iterable[Share]], Iterator[tuple[Run, str]]]  # what all do with all


class WorkerDied(Exception):
    """A worker did not live to return what it did."""


class ClusterLost(Exception):
    """Nobody knows any more what the workers do."""


def shares(runs: Iterable[Run], *, together: int, n_jobs: int) -> list[Share]:
    """``runs`` in shares of at most ``together`` that are alike, each kind of runs spread over ``n_jobs`` workers."""
    if together == 1:
        return [(run,) for run in runs]
    kinds: dict[object, list[Run]] = {}
    for run in runs:
        kinds.setdefault(alike(run) or run.id, []).append(run)
    found = []
    for kind in kinds.values():
        size = min(together, ceil(len(kind) / n_jobs))
        found += [tuple(kind[first : first + size]) for first in range(0, len(kind), size)]
    return found


def tidy(root: Path, stored: Iterable[Run], *, silent: float) -> None:
    """Take away what is left of ``stored`` runs, whose workers were killed before they could, or failed to."""
    left = {path.name.partition(".")[0] for path in (root / RUNNING).glob("*.*")}
    for run in stored:
        with suppress(OSError):
            if run.id in left and (lease := Lease.take(root / RUNNING, run.id, silent=silent)):
                _clear(root, run)
                lease.release()


def work(
    share: Share,
    *,
    table: str,
    root: Path,
    threads: int,
    silent: float,
    deadline: float | None,
    precision: str,
    spread: bool,
) -> list[tuple[Run, str]]:
    """Train the runs of ``share`` and store them, but those that somebody else does or did.

    ``spread``: over the GPUs of this machine, as no cluster has given each worker its own.

    Returns with each run one of the words above, or what went wrong: a raised error would end the whole sweep.
    """
    if deadline is not None and time.time() > deadline:
        return [(run, UNFINISHED) for run in share]
    environment.keep_freed_memory()
    running, mine, leases = root / RUNNING, [], []

    def beat() -> None:
        """For the whole share: while one half of it is trained the other is in the same hands."""
        for lease in leases:
            lease.beat()

    try:
        for run in share:  # one by one: those that are taken are given back if the next cannot be
            if lease := Lease.take(running, run.id, silent=silent):
                mine.append(run)
                leases.append(lease)
        stored = Store(root)  # since this sweep's last look; whoever stored it may not have lived to tidy up
        for run in [run for run in mine if run in stored]:
            _clear(root, run)
        device = _gpu(running, leases, silent=silent) if spread and mine else None
        how = {"device": device, "deadline": deadline, "precision": precision, "beat": beat}
        with environment.set_up(threads):  # a sequential backend works in the process that asked
            outcomes = _trained([run for run in mine if run not in stored], table, root, how)
        return [(run, outcomes.get(run, ELSEWHERE)) for run in share]
    except Exception as error:
        return [(run, words(run, error)) for run in share]
    finally:
        for lease in leases:
            with suppress(OSError):  # of a file server: nobody touches it any more, so it ends by itself
                lease.release()
        environment.give_back_memory()


def _trained(runs: list[Run], table: str, root: Path, how: Mapping[str, Any]) -> dict[Run, str]:
    """What became of each, trained as ``how`` says.  Runs that fail together, as for memory, are tried in halves."""
    if not runs:
        return {}
    files = [_checkpoint(root, run) for run in runs]
    try:
        records = train_together(runs, checkpoints=files, **how)
    except OutOfTime:
        return dict.fromkeys(runs, UNFINISHED)
    except Elsewhere:  # somebody pretrains what this run needs; other runs do not have to wait
        return dict.fromkeys(runs, ELSEWHERE)
    except Exception as error:
        if len(runs) == 1:
            return {runs[0]: words(runs[0], error)}
    else:
        return {run: _stored(run, record, table, root) for run, record in zip(runs, records, strict=True)}
    half = len(runs) // 2  # out here, where the failed attempt's memory is free
    return _trained(runs[:half], table, root, how) | _trained(runs[half:], table, root, how)


def _stored(run: Run, record: Record, table: str, root: Path) -> str:
    """What became of a run that is trained; one that cannot be written says so for itself, and for no other."""
    outcome = STORED
    try:
        Store(root).write(table, record)
    except AlreadyStored:  # this worker was silent for so long that another took over
        outcome = ELSEWHERE
    except Exception as error:
        return words(run, error)
    _clear(root, run)
    return outcome


def _clear(root: Path, run: Run) -> None:
    """Take the checkpoint of a stored run away; where that fails the next sweep tidies it, and nothing else is lost."""
    with suppress(OSError):
        remove(_checkpoint(root, run))


def _checkpoint(root: Path, run: Run) -> Path:
    return root / RUNNING / f"{run.id}.checkpoint"


def words(run: Run, error: Exception) -> str:
    """What is told of a run that failed; of an error that nobody foresaw, in which file and line of this package."""
    told = f"{run.words}-{run.id}: {type(error).__name__}: {error}"
    passed = [(Path(at.filename), at.lineno) for at in traceback.extract_tb(error.__traceback__)]
    trained = [at for at in passed if at[0].is_relative_to(PACKAGE) and not at[0].is_relative_to(PACKAGE / "sweep")]
    if isinstance(error, ValueError) or not trained:
        return told
    return "{} ({}:{})".format(told, *trained[-1])


def _gpu(running: Path, leases: list[Lease], *, silent: float) -> torch.device | None:
    """One of several GPUs, with the lease of it put to the others: the first that no other worker on this machine has,
    and none has two before all have one.  None: the first there is, or none.

    A cluster's own workers are not asked: what they see is theirs, and dask-cuda has each see all, its own first.
    """
    gpus, here = torch.cuda.device_count(), socket.gethostname().replace(".", "-")  # others may share the folder
    for number in range(ON_A_GPU * gpus if gpus > 1 else 0):
        if lease := Lease.take(running, f"gpu-{here}-{number}", silent=silent):
            leases.append(lease)
            return torch.device("cuda", number % gpus)
    return None
