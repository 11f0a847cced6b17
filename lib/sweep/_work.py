"""A worker's share of a sweep: one run."""

import multiprocessing
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch

from lib.lease import Lease
from lib.run import Run
from lib.store import Store
from lib.train import OutOfTime, train
from lib.train.checkpoint import remove
from lib.train.pretrained import Elsewhere

RUNNING = ".running"  # the folder of leases and checkpoints, beside the results
STORED, ELSEWHERE, UNFINISHED = "stored", "elsewhere", "unfinished"


def work(run: Run, *, table: str, root: Path, deadline: float | None, threads: int, silent: float) -> str:
    """Train ``run`` and store it, unless somebody else does or did: one of the words above, or what went wrong.

    The error is returned, not raised: a raised one would end the whole sweep.
    """
    if deadline is not None and time.time() > deadline:
        return UNFINISHED
    torch.set_num_threads(threads)
    # Saturated gates have gradients of 1e-40, which a CPU multiplies 100 times slower than it takes them for 0.
    torch.set_flush_denormal(True)
    running = root / RUNNING
    try:
        lease = Lease.take(running, run.id, silent=silent)
        if lease is None:
            return ELSEWHERE
        try:
            return _train(run, table, root, deadline, lease, running / f"{run.id}.checkpoint")
        finally:
            lease.release()
    except Exception as error:
        return f"{run.words}-{run.id}: {type(error).__name__}: {error}"


def _train(run: Run, table: str, root: Path, deadline: float | None, lease: Lease, checkpoint: Path) -> str:
    if run in Store(root):  # since this sweep's last look; whoever stored it may not have lived to tidy up
        remove(checkpoint)
        return ELSEWHERE
    try:
        record = train(run, device=_device(), deadline=deadline, checkpoint=checkpoint, beat=lease.beat)
    except OutOfTime:
        return UNFINISHED
    except Elsewhere:  # somebody pretrains what this run needs; other runs do not have to wait
        return ELSEWHERE
    store = Store(root)
    late = run in store  # this worker was silent for so long that another took over
    if not late:
        store.write(table, record)
    remove(checkpoint)
    return ELSEWHERE if late else STORED


def _device() -> torch.device | None:
    """Each worker has a GPU of its own where there are several: its number is in its name, as in LokyProcess-3."""
    count = torch.cuda.device_count()
    number = _name().rpartition("-")[2]
    return torch.device("cuda", int(number) % count) if count > 1 and number.isdigit() else None


def _name() -> str:
    """This worker's: joblib gives its processes one, dask numbers its workers."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        with suppress(ValueError):  # not a worker of dask's
            return str(get_worker().name)
    return multiprocessing.current_process().name
