"""Real clusters of dask and of ray: three workers, each a process that knows the others by address alone."""

import gc
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import psutil
import pytest
from conftest import make_run
from test_faults import wait_for
from test_sweep import SMALL, contents, nothing_is_left_over

from lib import sweep, tables
from lib.plan import Plan
from lib.sweep import RUNNING
from lib.sweep._pool import workers

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),  # the clusters' own, about sockets of the worker that is lost
]
TABLE = tables.load("mnist_noisy_updates")
TOKEN = secrets.token_hex(32)  # the same for all, as ray remembers the first that a process had


@pytest.fixture(autouse=True)
def by_itself(monkeypatch):
    """With a token of the tests', as ray would keep one in the home folder, and nothing of ray's left to complain."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    yield
    gc.collect()  # the processes that ray did not wait for say so here, where it is ignored


@contextmanager
def started(commands):
    """Processes that end with the block, and their children with them."""
    how = {"cwd": Path(__file__).resolve().parent.parent, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = []
    try:
        for command in commands:  # one after the other: the first may have to be up before the next is known
            processes.append(subprocess.Popen([sys.executable, "-m", *command], **how))
        yield
    finally:
        children = [child for process in processes for child in psutil.Process(process.pid).children(recursive=True)]
        for process in (*children, *processes):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for process in processes:
            process.wait()


@contextmanager
def dask(folder, workers=3):
    """The address of a scheduler with so many workers."""
    place = folder / "scheduler.json"

    def commands():
        yield ["distributed.cli.dask_scheduler", "--scheduler-file", str(place), "--port", "0", "--no-dashboard"]
        wait_for(lambda: place.exists() and place.read_text())
        worker = ["distributed.cli.dask_worker", "--scheduler-file", str(place), "--nthreads", "1"]
        yield from [[*worker, "--no-nanny", "--no-dashboard"]] * workers

    with started(commands()):
        yield json.loads(place.read_text())["address"]


@contextmanager
def ray(folder, workers=3):
    """The address of a head that keeps so many workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = ["--head", "--block", "--port", str(port), "--num-cpus", str(workers), "--include-dashboard", "false"]

    def answers():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True

    with started([["ray.scripts.scripts", "start", *head]]):
        wait_for(answers)
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("backend", [dask, ray])
def test_a_table_is_finished_though_a_worker_is_lost_on_the_way(backend, tmp_path):
    root, plan = tmp_path / "results", {"tier": "smoke", "together": 1, "progress": False}

    def kill_one_at_work() -> None:
        wait_for(lambda: len(list(root.glob("*/*.json"))) > 3)
        lease = wait_for(lambda: [path.read_text() for path in (root / RUNNING).glob("*.lease") if path.read_text()])
        killed.append(json.loads(lease[0])["pid"])
        os.kill(killed[0], signal.SIGKILL)

    killed, killer = [], Thread(target=kill_one_at_work)
    with backend(tmp_path) as address:
        killer.start()
        done = sweep.run(TABLE, root=root, backend=backend.__name__, scheduler=address, n_jobs=3, **plan)
        killer.join()
    (victim,) = killed
    assert victim != os.getpid()
    assert done.unfinished == 0
    sweep.run(TABLE, root=tmp_path / "undisturbed", backend="sequential", n_jobs=2, **plan)
    assert contents(root) == contents(tmp_path / "undisturbed")
    assert nothing_is_left_over(root)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_what_kills_every_worker_that_takes_it_is_given_up_and_named(backend):
    run = make_run()

    def die(share):  # in here, so that it travels itself: workers cannot import the tests
        os.kill(os.getpid(), signal.SIGKILL)

    with workers(Plan(backend=backend), n_jobs=1) as outcomes:
        ((given_up, words),) = outcomes(die, [(run,)])
    assert given_up == run
    assert words.startswith(f"{run.words}-{run.id}: its workers died: ")


@pytest.mark.parametrize("backend", [dask, ray])
def test_a_cluster_without_workers_is_not_waited_for_when_time_is_up(backend, tmp_path):
    plan = {"backend": backend.__name__, "minutes": 0.05, "silent": 1.0, "progress": False}
    with backend(tmp_path, workers=0) as address, pytest.warns(UserWarning, match="none had answered for 4 runs"):
        done = sweep.run(SMALL, root=tmp_path / "results", scheduler=address, **plan)
    assert (done.stored, done.unfinished > 0) == (0, True)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_one_is_started_here_where_none_is_named(backend, tmp_path):
    plan = {"n_jobs": 2, "progress": False}
    done = sweep.run(SMALL, root=tmp_path / "results", backend=backend, **plan)
    assert done.unfinished == 0
    sweep.run(SMALL, root=tmp_path / "undisturbed", backend="sequential", **plan)
    assert contents(tmp_path / "results") == contents(tmp_path / "undisturbed")


def test_a_lost_scheduler_ends_the_sweep_with_words_and_the_next_one_goes_on(tmp_path):
    root, plan = tmp_path / "results", {"tier": "smoke", "together": 1, "progress": False}

    def kill_the_scheduler() -> None:
        wait_for(lambda: list(root.glob("*/*.json")))
        (scheduler,) = (p for p in psutil.Process().children() if "distributed.cli.dask_scheduler" in p.cmdline())
        scheduler.kill()

    killer = Thread(target=kill_the_scheduler)
    with dask(tmp_path) as address:
        killer.start()
        with pytest.raises(sweep.SweepError, match="scheduler: expected it to answer until the end"):
            sweep.run(TABLE, root=root, backend="dask", scheduler=address, **plan)
        killer.join()
    assert sweep.run(TABLE, root=root, backend="sequential", silent=1.0, **plan).unfinished == 0
