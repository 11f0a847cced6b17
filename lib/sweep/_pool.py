"""Workers, by joblib: processes here, or a dask cluster; and what is done about those that die or hang."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from lib.lease import leases
from lib.plan import Plan


class WorkerDied(Exception):
    """A worker did not live to return what it did."""


@contextmanager
def workers(plan: Plan, n_jobs: int) -> Iterator[None]:
    """Inside, joblib's workers are those of the plan's backend."""
    with _cluster(plan, n_jobs), parallel_config(plan.backend, n_jobs=n_jobs):
        yield


def _cluster(plan: Plan, n_jobs: int) -> AbstractContextManager[Any]:
    """For dask, a client of the cluster at ``plan.scheduler`` or of ``n_jobs`` processes here, which end with it."""
    if plan.backend != "dask":
        return nullcontext()
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("backend: expected dask to be installed; try pip install 'dask[distributed]'") from error
    if plan.scheduler is not None:
        return Client(plan.scheduler)
    return Client(n_workers=n_jobs, threads_per_worker=1, dashboard_address=None)


def outcomes(function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
    """What the calls return, as they do; ``WorkerDied`` when a worker process does."""
    tasks = (delayed(function)(argument) for argument in arguments)
    try:
        yield from Parallel(return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)(tasks)
    except BrokenProcessPool as error:
        raise WorkerDied(str(error).partition("\n")[0]) from error


@contextmanager
def watched(running: Path, *, silent: float) -> Iterator[None]:
    """Inside, a child of this process that was silent for that many seconds while it holds a lease is killed.

    A worker that hangs would otherwise be waited for for ever; killed, it is replaced as any that dies.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(silent / 4):
            for lease in leases(running):
                if lease.of_a_child and lease.age > silent:
                    with suppress(ProcessLookupError):
                        os.kill(lease.pid, signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
