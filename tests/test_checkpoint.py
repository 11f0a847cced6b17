"""Checkpoints: a run that is interrupted anywhere ends as if it had not been; what does not fit is refused."""

import importlib.util
import json
import os
import stat
import time
from dataclasses import replace
from datetime import datetime

import pytest
import torch
from conftest import make_run

from lib import data
from lib.record import Record
from lib.train import CheckpointError, OutOfTime, checkpoint, sealed, train, train_together

PRIVATE = {"optimizer": "sgd", "clip_norm": 1.0, "noise_multiplier": 1.0, "sampler": "poisson", "batch_size": 256}
BATCHES = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
RUNS = {
    "weight noise of a step": {"weight_noise_std": 0.1, "lr_schedule": "linear", "norm": "batch", "batch_size": 256},
    "weight noise of an epoch": {"weight_noise_std": 0.1, "weight_noise_draw": "epoch", "batch_size": 256},
    "gradient norms under noise": {"weight_noise_std": 0.1, "weight_noise_draw": "epoch", "batch_size": 256}
    | {"gradient_norm_examples": 20, "public_examples": 30},
    "augmented": {"model": "lenet5_tanh", "augmentation": "crop", "batch_size": 256},
    "noisy updates": {
        "method": "noisy_sgd",
        "optimizer": "sgd",
        "momentum": 0.9,
        "gradient_noise_std": 0.1,
        "batch_size": 256,
    },
    "dpsgd": PRIVATE | {"method": "dpsgd", "momentum": 0.9, "noise_multiplier_decay": 0.9},
    "si_dpsgd": PRIVATE | {"method": "si_dpsgd", "accountant": "rdp_2020"},
    "correlated noise": PRIVATE
    | {"method": "correlated_noise", "noise_power": 0.5, "sampler": "fixed_order", "accountant": "gdp"},
    "banded noise": PRIVATE | {"method": "correlated_noise", "noise_power": 0.5, "noise_bands": 3},
    "noised statistics": PRIVATE
    | {"method": "dpsgd", "model": "lenet5", "norm": "noised_batch_without_affine"}
    | {"statistics_share": 0.2, "statistics_clip_norm": 3.0},
    "public statistics": PRIVATE
    | {"method": "dpsgd", "model": "lenet5", "norm": "public_batch_without_affine", "public_examples": 4},
    "adaptive": PRIVATE
    | BATCHES
    | {"method": "adaptive_layerwise", "mini_set_size": 256, "public_examples": 50, "gradient_norm_examples": 10}
    | {"fix_converged": "epoch", "clip_norm_decay": 0.9},
}


def without_env(record: Record) -> Record:
    return {block: value for block, value in record.items() if block != "env"}


def interrupted(run, path) -> tuple[Record, int]:
    """The record of a run that is stopped after every single step, and how often it was."""
    for stops in range(10_000):
        try:
            return train(run, deadline=0.0, checkpoint=path), stops
        except OutOfTime:
            assert path.exists()
    raise AssertionError("never finished")


@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_a_run_stopped_after_every_step_ends_as_if_it_had_not_been(tmp_path, changes):
    run = make_run(**changes)
    record, stops = interrupted(run, tmp_path / "checkpoint")
    assert stops == record["privacy"]["steps"] - 1
    assert without_env(record) == without_env(train(run))


def test_the_time_is_that_of_the_whole_run(tmp_path):
    run, path = make_run(), tmp_path / "checkpoint"
    begun = time.time()
    record, _ = interrupted(run, path)
    assert 0 < record["env"]["seconds"] <= time.time() - begun


def test_a_run_that_goes_on_later_has_started_when_it_did(half_done):
    run, path = half_done
    stopped = time.time()
    time.sleep(1.1)  # the record has whole seconds
    assert datetime.fromisoformat(train(run, checkpoint=path)["env"]["started"]).timestamp() <= stopped


def test_checkpoints_are_written_at_intervals_alone(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(checkpoint.Checkpoint, "save", lambda self, training: saved.append(training.step))
    train(make_run(), checkpoint=tmp_path / "checkpoint")
    assert saved == []
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    train(make_run(), checkpoint=tmp_path / "checkpoint")
    assert saved == [*range(1, 44)]


def test_the_time_to_the_next_checkpoint_runs_from_the_last(tmp_path, monkeypatch):
    now, written = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sealed, "write", lambda *_, **__: written.append(now[0]))
    file = checkpoint.Checkpoint(tmp_path / "checkpoint", make_run(), torch.device("cpu"))
    for now[0] in (59.0, 60.0, 61.0, 119.0, 120.0):
        file.save_if_due({})
    assert written == [60.0, 120.0]


@pytest.fixture
def half_done(tmp_path):
    """A run and its checkpoint after the first step."""
    run, path = make_run(), tmp_path / "checkpoint"
    with pytest.raises(OutOfTime):
        train(run, deadline=0.0, checkpoint=path)
    return run, path


def test_a_checkpoint_of_another_run_or_version_is_refused_by_name(half_done, monkeypatch):
    run, path = half_done
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=f"{path}: expected a checkpoint with run .*; got {run.id}; move it away"):
        train(replace(run, seed=1), checkpoint=path)
    for name, value in [("_code", lambda: "another"), ("torch.__version__", "0.1")]:
        with monkeypatch.context() as patched:
            patched.setattr(f"lib.train.checkpoint.{name}", value)
            with pytest.raises(CheckpointError, match=f"expected a checkpoint with {name.strip('_').split('.')[0]} "):
                train(run, checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["truncated", "one byte", "empty", "no header"])
def test_a_damaged_checkpoint_is_refused_by_name(half_done, damage, monkeypatch):
    run, path = half_done
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "truncated": whole[:middle],
            "one byte": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "empty": b"",
            "no header": whole.partition(b"\n")[2],
        }[damage]
    )
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("unpickled"))
    with pytest.raises(CheckpointError, match=f"{path}: expected a checkpoint with a whole file; got a damaged one"):
        train(run, checkpoint=path)


def test_a_checkpoint_of_a_gpu_that_is_not_here_is_refused_by_name(half_done, monkeypatch):
    """Such as the fourth of a kind, of which this machine has one."""
    run, path = half_done

    def load(*_, **__):
        raise RuntimeError("Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1")

    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(
        CheckpointError, match=rf"{path.name}: expected the device on which .* move it away .* device 3"
    ):
        train(run, checkpoint=path)


def test_a_checkpoint_for_which_there_is_no_memory_is_none_to_throw_away(half_done, monkeypatch):
    run, path = half_done

    def load(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory$"):
        train(run, checkpoint=path)


def test_other_data_are_refused(half_done, monkeypatch):
    run, path = half_done
    other = replace(data.load("digits"), sha256="0" * 64)
    monkeypatch.setattr(data, "load", lambda *_, **__: other)
    with pytest.raises(CheckpointError, match=r"expected digits with SHA-256 .*, on which the run began; got 0000"):
        train(run, checkpoint=path)


def test_other_public_data_are_refused_and_which_they_were_is_told(tmp_path, monkeypatch):
    """Batch clipping's layers get their clip norms from them: a run that goes on with others is neither's."""
    public, load = replace(data.load("digits"), name="public", sha256="1" * 64), data.load
    monkeypatch.setattr(data, "load", lambda name, **how: public if name == "public" else load(name, **how))
    run = make_run(**RUNS["adaptive"] | {"public_dataset": "public"})
    path = tmp_path / "a.checkpoint"
    with pytest.raises(OutOfTime):
        train(run, deadline=0.0, checkpoint=path)
    now, public = public, replace(public, sha256="2" * 64)
    with pytest.raises(CheckpointError, match=r"expected public with SHA-256 1111.*, on which the run began; got 2222"):
        train(run, checkpoint=path)
    public = now
    assert train(run, checkpoint=path)["env"]["public_sha256"] == "1" * 64


def test_a_full_disk_ends_no_training(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    run = make_run(epochs=1)
    monkeypatch.setattr(checkpoint, "EVERY", 1e-9)
    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(UserWarning, match="not written, so a killed run starts again: .* No space left"):
        record = train(run, checkpoint=tmp_path / "checkpoint")
    assert list(tmp_path.iterdir()) == []
    assert without_env(record) == without_env(train(run))


def test_a_checkpoint_is_for_its_owner_alone(half_done):
    """It holds the state of the generators that draw the noise."""
    _, path = half_done
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_header_is_readable(half_done):
    run, path = half_done
    header = json.loads(path.read_bytes().partition(b"\n")[0])
    assert header["run"] == run.id
    assert header["device"] == (torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("head", [b"[1]", b"null", b"{}", b"no JSON", b"\xff"])
def test_a_file_whose_first_line_is_not_its_own_is_damaged(tmp_path, head):
    path = tmp_path / "file"
    path.write_bytes(head + b"\nrest")
    with pytest.raises(sealed.Unsealed) as refused:
        sealed.read(path, {})
    assert (refused.value.expected, refused.value.got) == ("a whole file", "a damaged one")


def test_a_file_that_does_not_say_what_it_belongs_to_is_refused_and_one_that_says_more_is_not(tmp_path):
    path = tmp_path / "file"
    sealed.write(path, {"run": "a", "sha256": "another"}, b"two\nlines")
    payload, line = sealed.read(path, {"run": "a"})
    assert (payload, set(line)) == (b"two\nlines", {"run", "sha256"})
    with pytest.raises(sealed.Unsealed, match="version 2"):
        sealed.read(path, {"run": "a", "version": 2})
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_two_who_write_one_checkpoint_leave_a_whole_one(tmp_path, monkeypatch):
    """An owner who was taken for dead wakes up in the middle of a write."""
    path, sync = tmp_path / "a.checkpoint", os.fsync

    def while_the_other_writes(file):
        monkeypatch.setattr(os, "fsync", sync)
        sealed.write(path, {"run": "a"}, b"B" * 8000)

    monkeypatch.setattr(os, "fsync", while_the_other_writes)
    sealed.write(path, {"run": "a"}, b"A" * 5000)
    assert sealed.read(path, {"run": "a"})[0] == b"A" * 5000
    assert list(tmp_path.iterdir()) == [path]


def test_runs_that_began_on_different_devices_go_on_apart(tmp_path):
    """Each on its own, with the data there; "cpu:0" stands for a second GPU."""
    runs, files = [make_run(seed=seed, epochs=1) for seed in range(2)], [tmp_path / "0", tmp_path / "1"]
    with pytest.raises(OutOfTime):
        train_together(runs, device="cpu:0", deadline=0.0, checkpoints=files)
    files[1].unlink()
    records = train_together(runs, device="cpu", checkpoints=files)
    assert [record["env"]["flags"]["together"] for record in records] == [1, 1]
    assert [r["metrics"] for r in records] == [train(run)["metrics"] for run in runs]


def test_runs_that_began_in_different_precisions_go_on_apart(tmp_path):
    runs, files = [make_run(seed=seed, epochs=1) for seed in range(2)], [tmp_path / "0", tmp_path / "1"]
    for run, file, precision in zip(runs, files, ("float32", "bfloat16"), strict=True):
        with pytest.raises(OutOfTime):
            train(run, device="cpu", precision=precision, deadline=0.0, checkpoint=file)
    flags = [record["env"]["flags"] for record in train_together(runs, device="cpu", checkpoints=files)]
    assert [(flag["precision"], flag["together"]) for flag in flags] == [("float32", 1), ("bfloat16", 1)]


def test_what_a_killed_writer_left_of_a_checkpoint_goes_with_it(tmp_path):
    path = tmp_path / "a.checkpoint"
    for left in (path, path.with_name(f".{path.name}-abc_12.part")):
        left.write_bytes(b"left")
    checkpoint.remove(path)
    assert list(tmp_path.iterdir()) == []


def test_another_line_of_code_is_another_code_and_so_is_another_name_of_a_file(tmp_path, monkeypatch):
    files = [tmp_path / name if name.endswith(".py") else tmp_path / name / "a.py" for name in checkpoint.CODE]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("one")
    monkeypatch.setattr(checkpoint, "_LIB", tmp_path)
    codes = [checkpoint._code.__wrapped__()]
    for file in files:
        file.write_text("two")
        codes.append(checkpoint._code.__wrapped__())
    files[0].rename(files[0].with_name("b.py"))
    codes.append(checkpoint._code.__wrapped__())
    assert len(set(codes)) == 1 + len(files) + 1


def test_the_code_is_looked_at_while_it_is_imported():
    """An edit beside a run that is in progress did not make its state."""
    spec = importlib.util.spec_from_file_location("lib.train.checkpoint_again", checkpoint.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again._code.cache_info().currsize == 1
