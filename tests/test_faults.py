"""Whatever happens to a sweep, in the end every record is there once, valid, as an undisturbed sweep's."""

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_sweep import SMALL, contents, nothing_is_left_over

from lib import sweep
from lib.lease import leases
from lib.sweep import RUNNING

ALL = 8  # runs of SMALL
PROGRAM = textwrap.dedent(f"""
    import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
    from test_sweep import SMALL
    from lib import sweep
    from lib.train import checkpoint
    if __name__ == "__main__":
        checkpoint.EVERY = 0.0
        root, backend, silent, together = sys.argv[1:]
        how = {{"backend": backend, "silent": float(silent), "together": int(together)}}
        print(sweep.run(SMALL, root=root, n_jobs=2, progress=False, **how))
""")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What an undisturbed sweep stores."""
    root = tmp_path_factory.mktemp("undisturbed")
    assert sweep.run(SMALL, root=root, backend="sequential", n_jobs=2, together=1, progress=False).stored == ALL
    return contents(root)


@pytest.fixture
def start(tmp_path):
    """``start(backend)`` → a sweep of ``tmp_path/results`` in a process group of its own."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def start(backend: str, *, silent: float = 60.0, together: int = 1, **how) -> subprocess.Popen:
        command = [sys.executable, tmp_path / "program.py", tmp_path / "results", backend, str(silent), str(together)]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True} | how
        return subprocess.Popen(command, **how)

    return start


def stored(process: subprocess.Popen) -> int:
    """How many runs the sweep says that it stored."""
    said, complained = process.communicate()
    assert process.returncode == 0, complained
    return int(said.split()[0])


def wait_for(there: Callable[[], Any]) -> Any:
    """What ``there`` finds, as soon as it finds something."""
    deadline = time.monotonic() + 60
    while not (found := there()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_a_killed_sweep_goes_on_where_it_was(start, tmp_path, undisturbed):
    root = tmp_path / "results"
    process = start("loky")
    wait_for(lambda: list(root.glob("*/*.json")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = len(contents(root))
    assert 0 < before < ALL
    assert stored(start("loky")) == ALL - before
    assert contents(root) == undisturbed
    assert nothing_is_left_over(root)


@pytest.mark.slow
def test_a_killed_sweep_of_runs_together_goes_on_where_it_was(start, tmp_path, undisturbed):
    """Whoever has whom beside him then, the records are the same to rounding."""
    root = tmp_path / "results"
    for seconds in (0.0, 0.3, 0.6):
        process = start("loky", together=4)
        wait_for(lambda: [lease for lease in leases(root / RUNNING) if not lease.dead])
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    before = len(contents(root))
    assert stored(start("loky", together=4)) == ALL - before
    found = contents(root)
    assert found.keys() == undisturbed.keys()
    for key, record in found.items():
        assert record["privacy"] == undisturbed[key]["privacy"]
        expected = undisturbed[key]["history"]["train_loss"]
        assert record["history"]["train_loss"] == pytest.approx(expected, rel=1e-3)
    assert nothing_is_left_over(root)


@pytest.mark.slow
def test_a_sweep_that_dies_alone_leaves_workers_that_do_no_harm(start, tmp_path, undisturbed):
    """They end with what they have in hand, beside those of the next sweep."""
    root, silence = tmp_path / "results", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for seconds in (0.0, 0.3, 0.6):
        process = start("loky", **silence)
        wait_for(lambda pid=process.pid: [lease for lease in leases(root / RUNNING) if lease.parent == pid])
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    stored(start("loky"))
    assert contents(root) == undisturbed
    wait_for(lambda: nothing_is_left_over(root))


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sweep_that_is_killed_while_it_writes_a_record_loses_none(start, tmp_path, undisturbed, moment):
    """At the one call that publishes it."""
    kill, link = "os.kill(os.getpid(), signal.SIGKILL)", "link(*of)"
    killed = PROGRAM.replace(
        'if __name__ == "__main__":',
        'if __name__ == "__main__":\n    import os, signal; link = os.link\n'
        f"    os.link = lambda *of: ({', '.join([kill, link] if moment == 'before' else [link, kill])})",
    )
    root, program = tmp_path / "results", tmp_path / "program.py"
    whole = program.read_text()
    for _ in range(3):
        program.write_text(killed)
        process = start("sequential")
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    program.write_text(whole)
    for part in root.rglob("*.part"):
        os.utime(part, (0, 0))  # as after ten minutes: until then it may be another writer's
    before = len(contents(root))
    assert before == (0 if moment == "before" else 3)
    assert stored(start("sequential")) == ALL - before
    assert contents(root) == undisturbed
    assert nothing_is_left_over(root)


@pytest.mark.slow
def test_two_sweeps_share_a_folder_and_do_nothing_twice(start, tmp_path, undisturbed):
    both = [start("sequential") for _ in range(2)]
    shares = [stored(process) for process in both]
    assert sum(shares) == ALL
    assert all(shares)
    assert contents(tmp_path / "results") == undisturbed
    assert nothing_is_left_over(tmp_path / "results")


@pytest.mark.slow
def test_a_full_disk_fails_what_it_hits_and_leaves_no_halves(start, tmp_path, undisturbed):
    """Files of more than 1,000 bytes are refused, as a full disk would refuse them."""
    small = start("sequential", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    _, complained = small.communicate()
    assert small.returncode == 1
    assert "4 runs failed, 8 are missing" in complained  # the searches
    assert "File too large" in complained
    assert contents(tmp_path / "results") == {}
    assert nothing_is_left_over(tmp_path / "results")
    assert stored(start("sequential")) == ALL
    assert contents(tmp_path / "results") == undisturbed


@pytest.mark.slow
def test_a_worker_that_never_answers_is_replaced(start, tmp_path, undisturbed):
    process = start("loky", silent=20.0)
    lease = wait_for(lambda: list(leases(tmp_path / "results" / RUNNING)))[0]
    os.kill(lease.pid, signal.SIGSTOP)
    assert stored(process) == ALL
    assert contents(tmp_path / "results") == undisturbed
    assert nothing_is_left_over(tmp_path / "results")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "sweep", "sweep that writes checkpoints all the time"])
def test_20_kills_at_random_moments(start, tmp_path, undisturbed, victim):
    root, moments, kills = tmp_path / "results", random.Random(victim), 0
    backend = "sequential" if "checkpoints" in victim else "loky"
    while kills < 20:
        process = start(backend)
        while process.poll() is None and kills < 20:
            time.sleep(moments.uniform(0.0, 8.0))
            held = [lease for lease in leases(root / RUNNING) if not lease.dead and lease.parent == process.pid]
            if victim != "worker":
                os.killpg(process.pid, signal.SIGKILL)
            elif held:
                os.kill(held[0].pid, signal.SIGKILL)
            kills += victim != "worker" or bool(held)
            if victim != "worker":
                process.communicate()
        process.communicate()
        if len(contents(root)) == ALL:  # all done before the last kill: begin anew
            assert contents(root) == undisturbed
            for path in root.glob("*/*.json"):
                path.unlink()
    stored(start(backend))
    assert contents(root) == undisturbed
    assert nothing_is_left_over(root)
