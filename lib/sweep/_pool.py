"""Workers: processes here, by joblib, or a dask cluster; and what is done about those that die or hang."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from lib.lease import leases
from lib.plan import Plan
from lib.run import Run
from lib.sweep._work import Share

Call = Callable[[Share], list[tuple[Run, str]]]
Outcomes = Callable[[Call, Iterable[Share]], Iterator[tuple[Run, str]]]


class WorkerDied(Exception):
    """A worker did not live to return what it did."""


@contextmanager
def workers(plan: Plan, n_jobs: int) -> Iterator[Outcomes]:
    """Inside, those of the plan's backend: a function that yields what a call of each share returns, as they do.

    It raises ``WorkerDied`` when a worker does and nobody knows with which run.
    """
    if plan.backend == "dask":
        with _cluster(plan, n_jobs) as client:
            yield partial(_of_cluster, client)
    else:
        with parallel_config(plan.backend, n_jobs=n_jobs):
            yield _of_processes


def _of_processes(call: Call, shares: Iterable[Share]) -> Iterator[tuple[Run, str]]:
    tasks = (delayed(call)(share) for share in shares)
    try:
        for done in Parallel(return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)(tasks):
            yield from done
    except BrokenProcessPool as error:
        raise WorkerDied(str(error).partition("\n")[0]) from error


def _of_cluster(client: Any, call: Call, shares: Iterable[Share]) -> Iterator[tuple[Run, str]]:
    """By dask itself, which gives what a lost worker had in hand to another, and after some losses gives it up."""
    from distributed import KilledWorker, as_completed

    of_future = {client.submit(call, share, pure=False): share for share in shares}
    for future in as_completed(of_future):
        try:
            yield from future.result()
        except KilledWorker as error:
            yield from ((run, f"{run.words}-{run.id}: its workers died: {error}") for run in of_future[future])


def _cluster(plan: Plan, n_jobs: int) -> AbstractContextManager[Any]:
    """A client of the cluster at ``plan.scheduler``, or of one of ``n_jobs`` processes here, which end with it."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("backend: expected dask to be installed; try pip install 'dask[distributed]'") from error
    if plan.scheduler is not None:
        return Client(plan.scheduler)
    return Client(n_workers=n_jobs, threads_per_worker=1, dashboard_address=None)


@contextmanager
def watched(running: Path, *, silent: float) -> Iterator[None]:
    """Inside, a child of this process that was silent for that many seconds while it holds a lease is killed.

    A worker that hangs would otherwise be waited for for ever; killed, it is replaced as any that dies.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(silent / 4):
            for lease in leases(running):
                if lease.of_a_child and not lease.dead and lease.age > silent:
                    with suppress(ProcessLookupError):
                        os.kill(lease.pid, signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
