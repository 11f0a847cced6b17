"""Workers: processes here, by joblib, or those of a cluster; and what is done about those that die or hang."""

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path

from joblib import Parallel, delayed, parallel_config

from lib.lease import leases
from lib.plan import Plan
from lib.run import Run
from lib.sweep._clusters import of_dask, of_ray
from lib.sweep._work import Call, Outcomes, Share, WorkerDied

_CLUSTERS = {"dask": of_dask, "ray": of_ray}


@contextmanager
def workers(plan: Plan, n_jobs: int, until: float | None = None) -> Iterator[Outcomes]:
    """Inside, those of the plan's backend: a function that yields what a call of each share returns, as they do.

    ``until``: when a cluster is waited for no longer.  The function raises ``WorkerDied`` when a worker does and nobody
    knows with which run.
    """
    if plan.backend in _CLUSTERS:
        with _CLUSTERS[plan.backend](plan, n_jobs, until) as outcomes:
            yield outcomes
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


@contextmanager
def watched(running: Path, *, silent: float) -> Iterator[None]:
    """Inside, a child of this process that was silent for that many seconds while it holds a lease is killed.

    A worker that hangs would otherwise be waited for for ever; killed, it is replaced as any that dies.
    """
    over = threading.Event()

    def watch() -> None:
        looked = time.time()
        while not over.wait(silent / 4):
            paused, looked = time.time() - looked > silent / 2, time.time()
            if paused:  # this process was, and its workers with it: they may have been silent no longer than that
                continue
            with suppress(OSError):  # a worker that is gone by now, or a file server that does not answer
                for lease in leases(running):
                    if lease.of_a_child and not lease.dead and lease.age > silent:
                        os.kill(lease.pid, signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
