"""Workers on many machines, of dask's cluster or of ray's.

Either gives what a lost worker had in hand to another, and after some losses gives it up.  A cluster can have no worker
for hours, so what none has answered by ``until``, in seconds since the epoch, is left for the next sweep.
"""

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from lib.plan import Plan
from lib.run import Run
from lib.sweep._work import UNFINISHED, Call, ClusterLost, Outcomes, Share, words


@contextmanager
def of_dask(plan: Plan, n_jobs: int, until: float | None) -> Iterator[Outcomes]:
    """Of the cluster at ``plan.scheduler``, or of one of ``n_jobs`` processes here, which end with it."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("backend: expected dask to be installed; try pip install '.[cluster]'") from error
    here = {"n_workers": n_jobs, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(plan.scheduler) if plan.scheduler is not None else Client(**here)
    except (OSError, ValueError) as error:
        raise ValueError(f"scheduler: expected one of dask that answers; got {plan.scheduler!r}: {error}") from error
    with client:
        yield partial(_by_dask, client, until)


def _by_dask(client: Any, until: float | None, call: Call, shares: Iterable[Share]) -> Iterator[tuple[Run, str]]:
    from distributed import CancelledError, KilledWorker, as_completed
    from distributed.comm import CommClosedError

    try:
        of_future = {client.submit(call, share, pure=False): share for share in shares}
        for future in as_completed(list(of_future), timeout=_seconds(until)):
            share = of_future.pop(future)
            try:
                yield from future.result()
            except KilledWorker as error:
                yield from _given_up(share, error)
            except (CancelledError, CommClosedError):
                raise
            except Exception as error:  # of a worker that has another Python, say, or none of this code
                yield from ((run, words(run, error)) for run in share)
    except TimeoutError:
        yield from _left(of_future.values())
    except (CancelledError, CommClosedError) as error:
        raise ClusterLost(f"scheduler: expected it to answer until the end; got {error}") from error


@contextmanager
def of_ray(plan: Plan, n_jobs: int, until: float | None) -> Iterator[Outcomes]:
    """Of the cluster at ``plan.scheduler``, or of one of ``n_jobs`` processes here, which end with it.

    As many work at once as the cluster has cores; if it has GPUs, as it has of those, each with one to itself.
    """
    try:
        import ray
    except ImportError as error:
        raise ValueError("backend: expected ray to be installed; try pip install '.[cluster]'") from error
    here = {"address": "local", "num_cpus": n_jobs, "include_dashboard": False}  # without it, any that is running here
    try:
        ray.init(log_to_driver=False, **({"address": plan.scheduler} if plan.scheduler is not None else here))
    except ConnectionError as error:
        raise ValueError(
            "scheduler: expected a head of ray that answers, and RAY_AUTH_MODE=token in the environment if it wants "
            f"a token; got {plan.scheduler!r}: {error}"
        ) from error
    try:
        yield partial(_by_ray, until)
    finally:
        ray.shutdown()


def _by_ray(until: float | None, call: Call, shares: Iterable[Share]) -> Iterator[tuple[Run, str]]:
    import ray
    from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError

    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    task = ray.remote(num_cpus=1, num_gpus=gpus)(lambda share: call(share))  # it takes functions, not partial ones
    of_future = {task.remote(share): share for share in shares}
    while of_future:
        answered, _ = ray.wait(list(of_future), timeout=_seconds(until))
        if not answered:
            yield from _left(of_future.values())
            return
        (future,) = answered
        share = of_future.pop(future)
        try:
            yield from ray.get(future)
        except (WorkerCrashedError, NodeDiedError, OutOfMemoryError) as error:
            yield from _given_up(share, error)
        except Exception as error:
            yield from ((run, words(run, error)) for run in share)


def _seconds(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.time())


def _left(shares: Iterable[Share]) -> Iterator[tuple[Run, str]]:
    left = [run for share in shares for run in share]
    warnings.warn(f"backend: expected workers; when time was up none had answered for {len(left)} runs", stacklevel=2)
    return ((run, UNFINISHED) for run in left)


def _given_up(share: Share, error: Exception) -> Iterator[tuple[Run, str]]:
    return ((run, f"{run.words}-{run.id}: its workers died: {error}") for run in share)
