"""Sweeps: order, budget, failures, and nothing lost when one is killed."""

import errno
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import make_record, make_run

from lib import data, environment, sweep, tables
from lib.lease import Lease, _began
from lib.methods.non_private import NonPrivate
from lib.store import Store, StoreError
from lib.sweep import _clusters, _work
from lib.sweep._pool import watched
from lib.sweep._work import ClusterLost, WorkerDied
from lib.tables import Table
from lib.train.pretrained import FOLDER


def cell(row: str, column: float, *, seed: int, tier: str, lr: float):
    return make_run(epochs=1, weight_noise_std=column, seed=seed, lr=lr, **{"model": "lenet_300_100", "norm": row})


def tuning(row: str, column: float, *, tier: str, lr: float):
    return make_run(epochs=1, weight_noise_std=column, lr=lr, norm=row, validation_examples=297)


SMALL = Table(
    name="small",
    title="a small table",
    source="nowhere",
    notebook="none",
    rows=("none", "batch"),
    column="weight_noise_std",
    columns=(0.0, 0.1),
    printed={},
    cell=cell,
    grid={"lr": (0.001, 0.01)},
    tuning=tuning,
)

PRETRAINED = {"pretrained_on": "cifar100", "pretraining_epochs": 1}
# All that a worker is told but where, and how long.
OF_WORK = {"table": "small", "threads": 1, "silent": 60.0, "precision": "float32", "spread": True}


def go(tmp_path, table=SMALL, **how) -> sweep.Sweep:
    how = {"together": 1} | how  # on a GPU too
    return sweep.run(table, root=tmp_path / "results", backend="sequential", n_jobs=2, progress=False, **how)


def contents(root) -> dict:
    """Every record under ``root`` without what depends on machine and moment."""
    return {record["id"]: {k: v for k, v in record.items() if k != "env"} for _, record in Store(root).filed()}


def nothing_is_left_over(root) -> bool:
    return not [path for path in root.rglob("*") if path.is_file() and path.suffix != ".json"]


def test_a_sweep_stores_tuning_and_cells_once(tmp_path):
    done = go(tmp_path, seeds=2)
    assert str(done) == "12 runs stored"
    assert len(contents(tmp_path / "results")) == 4 + 8  # in tier smoke one search for a row
    assert str(go(tmp_path, seeds=2)) == "0 runs stored"


def test_a_wider_sweep_adds_only_what_is_missing(tmp_path):
    go(tmp_path, seeds=1)
    assert str(go(tmp_path, seeds=2)) == "4 runs stored"


def test_every_cell_gets_its_first_seed_before_any_its_second(tmp_path, monkeypatch):
    order = []
    train = _work.train_together
    monkeypatch.setattr(_work, "train_together", lambda runs, **how: order.extend(runs) or train(runs, **how))
    go(tmp_path, seeds=2)
    assert [run.validation_examples > 0 for run in order] == [True] * 4 + [False] * 8
    assert [run.seed for run in order[4:]] == [0] * 4 + [1] * 4


def test_no_run_starts_after_the_time_is_up(tmp_path):
    assert str(go(tmp_path, minutes=0)) == "0 runs stored, 8 left for the next sweep"
    assert str(go(tmp_path)) == "8 runs stored"


def test_a_share_whose_time_is_up_is_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(_work, "train_together", lambda *_, **__: pytest.fail("trained"))
    run, how = make_run(), OF_WORK | {"root": tmp_path, "deadline": time.time() - 1.0}
    assert _work.work((run,), **how) == [(run, _work.UNFINISHED)]
    assert list(tmp_path.iterdir()) == []


def test_a_run_cut_off_at_the_limit_is_not_stored(tmp_path):
    long = replace(SMALL, cell=lambda *c, **k: replace(cell(*c, **k, lr=0.01), epochs=500), tuning=None, grid={})
    started = time.monotonic()
    assert str(go(tmp_path, long, minutes=0.02)) == "0 runs stored, 4 left for the next sweep"
    assert time.monotonic() - started < 10


def test_failing_runs_are_named_at_the_end_and_stop_no_other(tmp_path):
    def sometimes(*c, **k):
        run = cell(*c, **k)
        return replace(run, batch_size=5000) if run.norm == "batch" else run

    broken = replace(SMALL, cell=sometimes)
    with pytest.raises(sweep.SweepError, match="2 runs failed, 2 are missing, ") as failed:
        go(tmp_path, broken)
    assert str(failed.value).count("batch_size: expected 1 to 1437, the size of the training set; got 5000") == 2
    assert len(contents(tmp_path / "results")) == 4 + 2


def test_what_was_not_trained_beside_a_run_that_failed_is_counted(tmp_path, monkeypatch):
    """What stands behind a search that failed, and what is cut off when time is up."""

    def work(share, **how):
        plain = share[0].norm == "none" and share[0].weight_noise_std == 0.0
        return [(run, "a run: ValueError: no" if plain else _work.UNFINISHED) for run in share]

    with pytest.raises(sweep.SweepError, match="4 runs failed, 8 are missing, with those that wait for a search"):
        go(tmp_path, replace(SMALL, tuning=lambda *c, **k: replace(tuning(*c, **k), batch_size=5000)))
    monkeypatch.setattr(sweep, "work", work)
    with pytest.raises(sweep.SweepError, match=r"1 runs failed, 4 are missing, .* time was up:\na run: ValueError"):
        go(tmp_path, replace(SMALL, cell=lambda *c, **k: cell(*c, **k, lr=0.01), tuning=None, grid={}))


def test_an_error_that_nobody_foresaw_is_told_with_its_place(tmp_path, monkeypatch):
    def wrong(self, model, x, y, step):
        return x.sgn_(1)

    monkeypatch.setattr(NonPrivate, "backward", wrong)
    with pytest.raises(sweep.SweepError) as failed:
        go(tmp_path, replace(SMALL, tuning=None, grid={}, cell=lambda *c, **k: cell(*c, **k, lr=0.01)))
    last = str(failed.value).splitlines()[-1]
    assert re.search(r": TypeError: .*sgn_.* \(.*lib/methods/__init__\.py:\d+\)$", last), last


def test_one_after_the_other_they_have_every_core_and_leave_the_process_as_it_was(tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setattr(sweep, "cpu_count", lambda: threads + 2)
    for n_jobs in (None, 2):
        root = tmp_path / str(n_jobs)
        sweep.run(SMALL, root=root, backend="sequential", n_jobs=n_jobs, together=1, progress=False)
        flags = [record["env"]["flags"] for _, record in Store(root).filed()]
        assert {flag["threads"] for flag in flags} == {(threads + 2) // (n_jobs or 1)}
        assert all(flag["flush_denormal"] for flag in flags)
        assert torch.get_num_threads() == threads
        assert torch.tensor([1e-40]).mul(1.0).item() > 0.0


def test_a_sweep_beside_another_takes_no_more_cores_than_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    sweep.run(SMALL, root=tmp_path, backend="sequential", together=1, progress=False)
    assert {record["env"]["flags"]["threads"] for _, record in Store(tmp_path).filed()} == {1}


@pytest.mark.parametrize("kind", ["validation_accuracy", "test_accuracy"])
def test_a_damaged_record_stops_the_sweep_before_any_training(tmp_path, monkeypatch, kind):
    go(tmp_path)
    victim = next(path for path in (tmp_path / "results" / "small").glob("*.json") if kind in path.read_text())
    victim.write_text(victim.read_text()[:100])
    monkeypatch.setattr(_work, "train_together", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(StoreError, match=re.escape(str(victim))):
        go(tmp_path, seeds=2)
    assert len(victim.read_text()) == 100


def test_a_worker_that_wakes_up_to_a_stored_run_leaves_it_alone(tmp_path, monkeypatch):
    """Both train the same run to its end, as when one was silent for too long."""
    train, asked = _work.train_together, SMALL.tuning("none", 0.0, tier="smoke", lr=0.01)
    how = OF_WORK | {"root": tmp_path, "deadline": None}

    def while_another_stores_it(runs, **settings):
        records = train(runs, **settings)
        Store(tmp_path).write("small", make_record(asked, 1.0))
        return records

    monkeypatch.setattr(_work, "train_together", while_another_stores_it)
    assert _work.work((asked,), **how) == [(asked, _work.ELSEWHERE)]
    assert Store(tmp_path).get(asked)["metrics"] == {"validation_accuracy": 1.0}
    assert nothing_is_left_over(tmp_path)


def test_a_run_that_is_stored_while_its_lease_is_taken_is_not_trained_again(tmp_path, monkeypatch):
    asked, take = make_run(epochs=1), Lease.take

    def just_stored(folder, run_id, **how):
        Store(tmp_path).write("small", make_record(asked, 1.0))
        return take(folder, run_id, **how)

    monkeypatch.setattr(Lease, "take", just_stored)
    monkeypatch.setattr(_work, "train_together", lambda *_, **__: pytest.fail("trained"))
    assert _work.work((asked,), root=tmp_path, deadline=None, **OF_WORK) == [(asked, _work.ELSEWHERE)]


def test_a_share_of_which_one_lease_cannot_be_taken_gives_the_others_back(tmp_path, monkeypatch):
    share, take = tuple(make_run(seed=seed) for seed in range(3)), Lease.take

    def full_at_last(folder, run_id, **how):
        if run_id == share[-1].id:
            raise OSError("no space left on device")
        return take(folder, run_id, **how)

    monkeypatch.setattr(Lease, "take", full_at_last)
    said = _work.work(share, root=tmp_path, deadline=None, **OF_WORK)
    assert all("no space left on device" in outcome for _, outcome in said)
    assert nothing_is_left_over(tmp_path)


def test_what_a_worker_left_that_died_as_soon_as_it_had_stored_its_run_is_removed(tmp_path):
    asked = SMALL.tuning("none", 0.0, tier="smoke", lr=0.01)
    how = OF_WORK | {"root": tmp_path, "deadline": None}
    assert _work.work((asked,), **how) == [(asked, _work.STORED)]
    (tmp_path / sweep.RUNNING / f"{asked.id}.checkpoint").write_bytes(b"left")
    assert _work.work((asked,), **how) == [(asked, _work.ELSEWHERE)]
    assert nothing_is_left_over(tmp_path)


def test_what_cannot_be_taken_away_costs_no_run_and_is_tidied_by_the_next_sweep(tmp_path, monkeypatch):
    """In a batch that trains together, by a worker that finds its runs stored, and in the next sweep."""
    runs, how = tuple(make_run(epochs=1, seed=seed) for seed in range(2)), OF_WORK | {"root": tmp_path}

    def stumbles(*_, **__):
        raise OSError(errno.ESTALE, "stale file handle")

    with monkeypatch.context() as server:
        server.setattr(_work, "remove", stumbles)
        for outcome in (_work.STORED, _work.ELSEWHERE):
            assert _work.work(runs, deadline=None, **how) == [(run, outcome) for run in runs]
            for run in runs:
                _work._checkpoint(tmp_path, run).write_bytes(b"left")
        _work.tidy(tmp_path, runs, silent=60.0)
        server.setattr(Lease, "release", stumbles)
        _work.tidy(tmp_path, runs, silent=60.0)
        server.setattr(Lease, "take", stumbles)
        _work.tidy(tmp_path, runs, silent=60.0)
    for path in (tmp_path / sweep.RUNNING).glob("*.lease"):
        path.unlink()  # as when their owner is dead
    _work.tidy(tmp_path, runs, silent=60.0)
    assert nothing_is_left_over(tmp_path)


def test_a_folder_in_the_place_of_a_checkpoint_stops_its_run_alone(tmp_path):
    runs, how = tuple(make_run(epochs=1, seed=seed) for seed in range(2)), OF_WORK | {"root": tmp_path}
    odd = _work._checkpoint(tmp_path, runs[0])
    odd.mkdir(parents=True)
    told, stored = (outcome for _, outcome in _work.work(runs, deadline=None, **how))
    assert str(odd) in told
    assert stored == _work.STORED
    _work.tidy(tmp_path, runs, silent=60.0)
    assert list((tmp_path / sweep.RUNNING).iterdir()) == [odd]


class Pool:
    """Workers, four at a time, that die with a run that is ``deadly``, all together."""

    def __init__(self, runs, *deadly):
        self.missing, self.deadly, self.died, self.asked = list(runs), deadly, Counter(), []

    def outcomes(self, runs):
        self.asked.append(len(runs))
        for first in range(0, len(runs), 4):
            in_hand = runs[first : first + 4]
            if set(in_hand) & set(self.deadly):
                self.died.update(run.id for run in in_hand)
                raise WorkerDied("killed")
            for run in in_hand:
                self.missing.remove(run)
                yield run, sweep.STORED

    def complete(self, monkeypatch):
        monkeypatch.setattr(sweep, "POLL", 0.0)
        result = sweep.Sweep()
        bar = SimpleNamespace(n=0, total=0, update=lambda: None)
        sweep._complete(lambda: list(self.missing), self.outcomes, lambda: Counter(self.died), result, bar)
        return result


def test_a_run_that_kills_its_workers_is_named_and_no_other_is_blamed(monkeypatch):
    runs = [make_run(seed=seed) for seed in range(12)]
    pool = Pool(runs, runs[5])
    result = pool.complete(monkeypatch)
    assert result.stored == 11
    assert result.failed == [f"{runs[5].words}-{runs[5].id}: 3 times its worker died: killed"]
    assert pool.missing == [runs[5]]
    assert pool.asked[:2] == [12, 4]  # then those that were in hand, one at a time
    assert set(pool.asked[2:]) == {1}


def test_a_folder_that_the_workers_do_not_share_is_told(monkeypatch):
    monkeypatch.setattr(sweep, "UNSEEN", 3)
    pool = Pool([make_run()])
    monkeypatch.setattr(pool, "outcomes", lambda asked: ((run, sweep.STORED) for run in asked))
    (told,) = pool.complete(monkeypatch).failed
    assert told.endswith("stored by a worker, and not here: expected a folder that all workers share")


def test_who_waits_for_what_another_sweep_trains_misses_nothing_of_its_own(monkeypatch):
    monkeypatch.setattr(sweep, "UNSEEN", 3)
    mine, others = make_run(), make_run(seed=1)
    pool, looks = Pool([mine, others]), itertools.count()

    def outcomes(asked):
        if mine in asked:
            pool.missing.remove(mine)
            yield mine, _work.STORED
        if next(looks) == 6:
            pool.missing.remove(others)
        yield others, _work.ELSEWHERE

    monkeypatch.setattr(pool, "outcomes", outcomes)
    result = pool.complete(monkeypatch)
    assert (result.stored, result.failed) == (1, [])


class Future:
    """What dask answers of a share: outcomes, or an error of its worker."""

    def __init__(self, found):
        self.found = found

    def result(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_what_a_clusters_worker_raises_is_told_of_its_share_alone(monkeypatch):
    errors = {name: type(name, (Exception,), {}) for name in ("CancelledError", "KilledWorker", "CommClosedError")}
    library = SimpleNamespace(as_completed=lambda futures, timeout: futures, **errors)
    for name in ("distributed", "distributed.comm"):
        monkeypatch.setitem(sys.modules, name, library)
    one, other = make_run(seed=0), make_run(seed=1)
    of = {(one,): Future(ModuleNotFoundError("No module named 'lib'")), (other,): Future([(other, sweep.STORED)])}
    client = SimpleNamespace(submit=lambda call, share, pure: of[share])
    outcomes = dict(_clusters._by_dask(client, None, None, list(of)))
    assert outcomes == {one: f"{one.words}-{one.id}: ModuleNotFoundError: No module named 'lib'", other: sweep.STORED}


def test_a_lost_cluster_is_told_with_the_runs_that_failed_before(tmp_path, monkeypatch):
    def lost(call, shares):
        yield shares[0][0], "a run: ValueError: no"
        raise ClusterLost("scheduler: gone")

    monkeypatch.setattr(sweep, "workers", lambda *_: nullcontext(lost))
    with pytest.raises(sweep.SweepError, match=r"scheduler: gone; .*\na run: ValueError: no"):
        sweep.run(SMALL, root=tmp_path, progress=False)


def test_workers_that_die_with_nothing_in_hand_end_the_sweep(monkeypatch):
    pool = Pool([make_run()], make_run())
    monkeypatch.setattr(pool.died, "update", lambda _: None)
    result = pool.complete(monkeypatch)
    assert pool.asked == [1, 1, 1]
    assert result.failed == ["3 times in a row workers died with no run in hand: killed"]


def test_workers_that_die_with_nothing_in_hand_now_and_then_end_nothing(monkeypatch):
    run = make_run()
    pool, turns = Pool([run]), iter(["died", "died", _work.ELSEWHERE, "died", _work.STORED])

    def outcomes(asked):
        turn = next(turns)
        if turn == "died":
            raise WorkerDied("killed")
        if turn == _work.STORED:
            pool.missing.clear()
        yield run, turn

    monkeypatch.setattr(pool, "outcomes", outcomes)
    result = pool.complete(monkeypatch)
    assert (result.stored, result.failed) == (1, [])


def test_a_run_whose_pretraining_somebody_else_is_at_is_left_for_later(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path))
    how = OF_WORK | {"root": tmp_path / "results", "deadline": None}
    pretrained = {"pretrained_on": "stripes_rgb", "pretraining_epochs": 1}
    run = make_run(dataset="digits_rgb", model="convnet", epochs=1, **pretrained)
    other = Lease.take(tmp_path / FOLDER, run.pretraining.id, silent=60.0)
    assert _work.work((run,), **how) == [(run, _work.ELSEWHERE)]
    other.release()
    assert _work.work((run,), **how) == [(run, _work.STORED)]


def test_what_can_be_known_before_training_is_refused_before(tmp_path, monkeypatch):
    monkeypatch.setattr(_work, "train_together", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(ValueError, match="unknown tier 'full'"):
        go(tmp_path, tier="full")
    with pytest.raises(TypeError, match=r"table: expected one of tables.load\(name\); got 'mnist_noise'"):
        go(tmp_path, "mnist_noise")
    with pytest.raises(ValueError, match="seeds: expected a whole number of at least 1; got 0"):
        go(tmp_path, seeds=0)
    with pytest.raises(ValueError, match="together: expected None or a whole number of at least 1; got 0"):
        go(tmp_path, together=0)
    with pytest.raises(ValueError, match="minutes: expected None or a number of at least 0; got -1"):
        go(tmp_path, minutes=-1)
    with pytest.raises(ValueError, match="precision: expected one of float32, bfloat16; got 'half'"):
        go(tmp_path, precision="half")
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    monkeypatch.setitem(data.DOWNLOADS, "mnist", lambda cache: (_ for _ in ()).throw(OSError("offline")))
    with pytest.raises(data.DataError, match="no such file, and the download of mnist failed"):
        go(tmp_path, tables.load("mnist_noise"), tier="cpu")
    monkeypatch.setitem(data.DOWNLOADS, "cifar100", lambda cache: (_ for _ in ()).throw(OSError("offline")))
    public = replace(SMALL, cell=lambda *c, **k: replace(cell(*c, **k, lr=0.01), **PRETRAINED), tuning=None, grid={})
    with pytest.raises(data.DataError, match="no such file, and the download of cifar100 failed"):
        go(tmp_path, public)
    (tmp_path / "results" / "small").symlink_to(tmp_path / "a disk that is not there")
    with pytest.raises(StoreError, match="small: expected a folder that results can be written to"):
        go(tmp_path)
    (tmp_path / "results" / "small").unlink()
    (tmp_path / "results").rmdir()
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(StoreError, match="expected a folder that results can be written to"):
        go(tmp_path)


@pytest.mark.parametrize(("backend", "library"), [("dask", "distributed"), ("ray", "ray")])
def test_a_cluster_whose_library_is_missing_says_how_to_get_it(tmp_path, monkeypatch, backend, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=f"backend: expected {backend} to be installed; try pip install"):
        sweep.run(SMALL, root=tmp_path, backend=backend, progress=False)


@pytest.mark.parametrize(
    ("backend", "library", "connect", "error"),
    [("dask", "distributed", "Client", OSError("timed out")), ("ray", "ray", "init", ConnectionError("timed out"))],
)
def test_a_cluster_that_does_not_answer_is_named(tmp_path, monkeypatch, backend, library, connect, error):
    def unanswered(*_, **__):
        raise error

    monkeypatch.setitem(sys.modules, library, SimpleNamespace(**{connect: unanswered}))
    with pytest.raises(ValueError, match=rf"scheduler: expected .*{backend}.* that answers.*; got 'host:1': timed out"):
        sweep.run(SMALL, root=tmp_path, backend=backend, scheduler="host:1", progress=False)


def test_an_address_is_for_a_cluster(tmp_path):
    with pytest.raises(ValueError, match="scheduler: expected None, or an address for backend dask or ray; got 'host'"):
        sweep.run(SMALL, root=tmp_path, scheduler="host")


def test_workers_train_in_the_precision_that_is_asked_with_a_warning_where_it_is_emulated(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "computes_in_bfloat16", lambda: False)
    with pytest.warns(UserWarning, match="this processor emulates bfloat16, which is slower than float32"):
        go(tmp_path, precision="bfloat16")
    records = [record for _, record in Store(tmp_path / "results").filed()]
    assert {record["env"]["flags"]["precision"] for record in records} == {"bfloat16"}


@pytest.fixture
def devices_at_once(tmp_path, monkeypatch):
    """A function that says which device each of so many workers has, of whom the next begins while the last is at
    work; ``die``: or is dead."""

    def at_once(workers, *, gpus, spread=True, die=False):
        seen, how = [], OF_WORK | {"root": tmp_path, "deadline": None, "spread": spread}

        def train_together(runs, *, device, **_):
            seen.append(device and str(device))
            for path in (tmp_path / _work.RUNNING).glob("gpu-*") if die else ():
                owner = json.loads(path.read_text()) | {"pid": 2**22 + 1}  # beyond the largest there is
                path.write_text(json.dumps(owner))
            if len(seen) < workers:
                _work.work((make_run(seed=len(seen)),), **how)
            return [{}]

        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(_work, "train_together", train_together)
        _work.work((make_run(),), **how)
        return seen

    return at_once


@pytest.mark.parametrize(
    ("gpus", "spread", "devices"),
    [
        (3, True, ["cuda:0", "cuda:1", "cuda:2", "cuda:0", "cuda:1"]),
        (1, True, [None, None]),
        (0, True, [None, None]),
        (4, False, [None, None]),  # of a cluster: dask-cuda puts each worker's own first
    ],
)
def test_each_worker_has_a_gpu_of_its_own_before_any_is_shared(gpus, spread, devices, devices_at_once):
    assert devices_at_once(len(devices), gpus=gpus, spread=spread) == devices


def test_a_gpu_is_free_again_when_its_worker_is_done_or_dead(devices_at_once):
    """Under whatever name another worker comes in its place."""
    assert devices_at_once(2, gpus=2) == devices_at_once(2, gpus=2) == ["cuda:0", "cuda:1"]
    assert devices_at_once(3, gpus=2, die=True) == ["cuda:0"] * 3


class TestTogether:
    def test_shares_are_of_runs_that_are_alike_and_leave_no_worker_without(self):
        alike = [make_run(seed=seed) for seed in range(5)]
        others = [make_run(epochs=3), make_run(model="convnet", dataset="digits_rgb")]
        runs = [alike[0], others[0], *alike[1:], others[1]]
        for together, n_jobs, sizes in ((64, 1, [5, 1, 1]), (2, 1, [2, 2, 1, 1, 1]), (64, 2, [3, 2, 1, 1])):
            found = _work.shares(runs, together=together, n_jobs=n_jobs)
            assert [len(share) for share in found] == sizes
            assert sorted(run.id for share in found for run in share) == sorted(run.id for run in runs)
        assert _work.shares(runs, together=1, n_jobs=1) == [(run,) for run in runs]

    def test_a_sweep_of_runs_together_stores_what_one_of_runs_alone_does(self, tmp_path):
        assert str(go(tmp_path / "alone", seeds=2)) == "12 runs stored"
        assert str(go(tmp_path / "together", seeds=2, together=4)) == "12 runs stored"
        alone, together = contents(tmp_path / "alone" / "results"), contents(tmp_path / "together" / "results")
        assert alone.keys() == together.keys()
        for key, record in together.items():
            assert record["privacy"] == alone[key]["privacy"]
            assert record["history"]["train_loss"] == pytest.approx(alone[key]["history"]["train_loss"], rel=1e-3)
        records = [record for _, record in Store(tmp_path / "together" / "results").filed()]
        assert {record["env"]["flags"]["together"] for record in records} == {2, 4}  # of a row: searched, seen
        assert nothing_is_left_over(tmp_path / "together" / "results")

    def test_runs_that_fail_together_are_tried_in_halves(self, tmp_path, monkeypatch):
        """As where memory holds two of them and not more; and one fails by itself."""
        sizes, train, runs = [], _work.train_together, [make_run(epochs=1, seed=seed) for seed in range(5)]

        def small(asked, **how):
            sizes.append(len(asked))
            if len(asked) > 2 or runs[4] in asked:
                raise MemoryError("too much")
            return train(asked, **how)

        monkeypatch.setattr(_work, "train_together", small)
        how = OF_WORK | {"root": tmp_path, "deadline": None}
        outcomes = dict(_work.work(tuple(runs), **how))
        assert sizes == [5, 2, 3, 1, 2, 1, 1]
        assert [outcomes[run] for run in runs[:4]] == [_work.STORED] * 4
        assert outcomes[runs[4]] == f"{runs[4].words}-{runs[4].id}: MemoryError: too much"
        assert nothing_is_left_over(tmp_path)

    def test_all_of_a_share_are_heard_of_while_a_half_of_it_is_trained(self, tmp_path, monkeypatch):
        """Or their worker, which is alive and busy, would be killed for a silent one."""
        runs, heard = tuple(make_run(epochs=1, seed=seed) for seed in range(2)), []

        def failing(asked, *, beat, **how):
            files = list((tmp_path / sweep.RUNNING).glob("*.lease"))
            for path in files:
                os.utime(path, (0, 0))
            beat()
            heard.append([path.stat().st_mtime > 0 for path in files])
            raise MemoryError("too much")

        monkeypatch.setattr("lib.lease.TOUCH", -1.0)
        monkeypatch.setattr(_work, "train_together", failing)
        _work.work(runs, root=tmp_path, deadline=None, **OF_WORK)
        assert heard == [[True, True]] * 3

    def test_one_that_cannot_be_written_is_named_and_the_others_are_stored(self, tmp_path, monkeypatch):
        runs, write = tuple(make_run(epochs=1, seed=seed) for seed in range(4)), Store.write

        def failing_once(store, table, record):
            if record["run"]["seed"] == 1:
                raise OSError("no space left on device")
            return write(store, table, record)

        monkeypatch.setattr(Store, "write", failing_once)
        outcomes = [outcome for _, outcome in _work.work(runs, root=tmp_path, deadline=None, **OF_WORK)]
        assert outcomes.pop(1) == f"{runs[1].words}-{runs[1].id}: OSError: no space left on device"
        assert outcomes == [_work.STORED] * 3
        assert set(contents(tmp_path)) == {runs[i].id for i in (0, 2, 3)}

    def test_of_a_share_those_alone_are_trained_that_nobody_else_has(self, tmp_path):
        runs = tuple(make_run(epochs=1, seed=seed) for seed in range(3))
        how = OF_WORK | {"root": tmp_path, "deadline": None}
        other = Lease.take(tmp_path / sweep.RUNNING, runs[1].id, silent=60.0)
        assert [outcome for _, outcome in _work.work(runs, **how)] == [_work.STORED, _work.ELSEWHERE, _work.STORED]
        other.release()
        assert [outcome for _, outcome in _work.work(runs, **how)] == [_work.ELSEWHERE, _work.STORED, _work.ELSEWHERE]
        assert nothing_is_left_over(tmp_path)

    def test_what_is_cut_off_together_is_finished_by_the_next_sweep(self, tmp_path):
        runs = tuple(make_run(epochs=3, seed=seed) for seed in range(2))
        how = OF_WORK | {"root": tmp_path}
        cut = _work.work(runs, deadline=time.time() + 0.01, **how)
        assert [outcome for _, outcome in cut] == [_work.UNFINISHED] * 2
        assert len(list((tmp_path / sweep.RUNNING).glob("*.checkpoint"))) == 2
        assert not list((tmp_path / sweep.RUNNING).glob("*.lease"))
        assert [outcome for _, outcome in _work.work(runs, deadline=None, **how)] == [_work.STORED] * 2
        assert nothing_is_left_over(tmp_path)


def test_who_watches_goes_on_when_a_file_server_does_not_answer(tmp_path, monkeypatch):
    looks = []

    def stale(folder):
        looks.append(folder)
        raise OSError("Stale file handle")

    monkeypatch.setattr("lib.sweep._pool.leases", stale)
    with watched(tmp_path, silent=0.04):
        while len(looks) < 3:
            time.sleep(0.01)


def test_minutes_are_minutes(tmp_path, monkeypatch):
    told, begun = [], time.time()

    def late(share, *, deadline, **how):
        told.append(deadline)
        return [(run, _work.UNFINISHED) for run in share]

    monkeypatch.setattr(sweep, "work", late)
    go(tmp_path, minutes=2)
    assert begun + 120 <= told[0] <= time.time() + 120


def test_a_cluster_is_waited_for_until_its_workers_have_saved_what_they_have(tmp_path, monkeypatch):
    asked, begun = [], time.time()

    def workers(plan, n_jobs, until):
        asked.append(until)
        return nullcontext(lambda call, shares: ((run, _work.UNFINISHED) for share in shares for run in share))

    monkeypatch.setattr(sweep, "workers", workers)
    go(tmp_path, minutes=2, silent=600.0)
    assert begun + 720 <= asked[0] <= time.time() + 720


def held(folder: Path, run_id: str, **owner: int | str) -> Path:
    """A lease as if somebody else had it."""
    lease = Lease.take(folder, run_id, silent=60.0)
    told = {"host": lease.host, "pid": lease.pid, "parent": lease.parent} | owner
    lease.path.write_text(json.dumps(told | {"parent_began": _began(told["parent"])}))
    return lease.path


def test_deaths_are_those_of_this_sweeps_own_workers(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    held(tmp_path, "0" * 12, pid=process.pid, parent=os.getpid())
    held(tmp_path, "1" * 12, pid=process.pid, parent=os.getppid())  # another sweep's
    held(tmp_path, "2" * 12, parent=os.getpid())  # alive
    assert sweep._deaths(tmp_path) == {"0" * 12: 1}


def test_who_watches_kills_its_silent_children_and_nobody_else(tmp_path):
    waiting = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(3)]
    silent, other, busy = waiting
    try:
        for number, (process, parent) in enumerate(((other, os.getppid()), (silent, os.getpid()), (busy, os.getpid()))):
            path = held(tmp_path, f"{number}" * 12, pid=process.pid, parent=parent)
            os.utime(path, None if process is busy else (0, 0))
        with watched(tmp_path, silent=1.0):
            for _ in range(600):
                os.utime(path)
                if silent.poll() is not None:
                    break
                time.sleep(0.05)
        assert silent.poll() == -signal.SIGKILL
        assert (other.poll(), busy.poll()) == (None, None)
    finally:
        for process in waiting:
            process.kill()
            process.communicate()


def test_who_watches_kills_no_process_that_has_the_number_of_a_dead_child(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        path = held(tmp_path, "0" * 12, pid=other.pid, parent=os.getpid(), began="long ago")
        os.utime(path, (0, 0))
        with watched(tmp_path, silent=0.2):
            time.sleep(0.3)
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("pause", [100, 0.03])
def test_who_watches_kills_nobody_after_a_pause_of_its_own(tmp_path, monkeypatch, pause):
    """Stopped and resumed, or suspended with its machine: its workers were, too."""
    monkeypatch.setattr("lib.sweep._pool.time", SimpleNamespace(time=itertools.count(step=pause).__next__))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        os.utime(held(tmp_path, "0" * 12, pid=child.pid, parent=os.getpid()), (0, 0))
        with watched(tmp_path, silent=0.04):
            time.sleep(0.3)
        assert child.poll() is None
        child.kill()


def test_the_checkpoint_of_a_run_that_cannot_be_stored_is_kept(tmp_path, monkeypatch):
    """On a full disk it is all there is of the training."""
    asked = make_run()
    checkpoint = _work._checkpoint(tmp_path, asked)
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"trained to the end")
    full = OSError("No space left on device")
    monkeypatch.setattr(Store, "write", lambda *_: (_ for _ in ()).throw(full))
    assert "No space left" in _work._stored(asked, {}, "small", tmp_path)
    assert checkpoint.exists()


def test_a_sweep_tidies_after_stored_runs_alone(tmp_path, monkeypatch):
    tidied = []
    monkeypatch.setattr(sweep, "tidy", lambda root, stored, *, silent: tidied.append(list(stored)))
    go(tmp_path, minutes=0)
    go(tmp_path)
    go(tmp_path, minutes=0)
    assert [bool(stored) for stored in tidied] == [False, False, True]


def test_tidying_takes_the_checkpoint_of_a_stored_run(tmp_path):
    """Its worker was killed as soon as it had stored it."""
    asked, held_by_another = make_run(), make_run(seed=1)
    running = tmp_path / sweep.RUNNING
    lease = Lease.take(running, held_by_another.id, silent=60.0)
    for run in (asked, held_by_another):
        (running / f"{run.id}.checkpoint").write_bytes(b"left")
    _work.tidy(tmp_path, [asked, held_by_another], silent=60.0)
    assert {path.name for path in running.iterdir()} == {lease.path.name, f"{held_by_another.id}.checkpoint"}
