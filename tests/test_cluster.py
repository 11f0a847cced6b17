"""A real dask cluster: a scheduler and three workers, each a process that knows the others by address alone."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from test_faults import wait_for
from test_sweep import contents, nothing_is_left_over

from lib import sweep, tables
from lib.sweep import RUNNING

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),  # distributed's own, about sockets of the worker that is lost
]
TABLE = tables.load("mnist_noisy_updates")


@pytest.fixture
def cluster(tmp_path):
    """The scheduler's address and the workers' processes."""
    place = tmp_path / "scheduler.json"

    def start(what: str, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(place), *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, cwd=Path(__file__).resolve().parent.parent, **quiet)

    scheduler = start("scheduler", "--port", "0", "--no-dashboard")
    wait_for(lambda: place.exists() and place.read_text())
    workers = [start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard") for _ in range(3)]
    try:
        yield json.loads(place.read_text())["address"], workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def test_a_table_is_finished_though_a_worker_is_lost_on_the_way(cluster, tmp_path):
    address, workers = cluster
    root, plan = tmp_path / "results", {"tier": "smoke", "together": 1, "progress": False}

    def kill_one_at_work() -> None:
        wait_for(lambda: len(list(root.glob("*/*.json"))) > 3)
        lease = wait_for(lambda: [path.read_text() for path in (root / RUNNING).glob("*.lease") if path.read_text()])
        victim = json.loads(lease[0])["pid"]
        next(worker for worker in workers if worker.pid == victim).send_signal(signal.SIGKILL)

    killer = Thread(target=kill_one_at_work)
    killer.start()
    done = sweep.run(TABLE, root=root, backend="dask", scheduler=address, n_jobs=3, **plan)
    killer.join()
    assert [worker.poll() for worker in workers].count(-signal.SIGKILL) == 1
    assert done.unfinished == 0
    sweep.run(TABLE, root=tmp_path / "undisturbed", backend="sequential", n_jobs=2, **plan)
    assert contents(root) == contents(tmp_path / "undisturbed")
    assert nothing_is_left_over(root)
