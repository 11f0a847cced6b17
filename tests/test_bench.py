"""The bench compares like with like; how fast anything is, is not a test's business."""

import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
import torch

from lib import bench, environment, models, registry
from lib.bench import (
    batch_clipping_step,
    kept_memory,
    mixed_precision,
    noisy_step,
    private_step,
    public_batch_norm,
    runs_together,
)
from lib.report.provenance import machine
from lib.store import StoreError


@pytest.mark.parametrize("name", ["lenet5", "lenet_300_100"])
def test_the_plain_twin_is_the_same_network_from_torch_layers(name):
    model, x = models.build(name, norm="batch"), torch.rand(4, 1, 28, 28)
    twin = noisy_step.plain_twin(model)
    torch.testing.assert_close(twin(x), model(x), rtol=0, atol=0)
    assert not [layer for layer in twin if type(layer).__name__.startswith("Noisy")]


def test_ratios_are_taken_within_a_round(monkeypatch):
    """A clock that runs twice as fast from round to round changes no ratio."""
    now, speed = [0.0], [1.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def takes(seconds: float, *, last: bool = False):
        def once() -> None:
            now[0] += seconds * speed[0]
            speed[0] = 3.0 - speed[0] if last else speed[0]

        return once

    found = bench.ratios({"base": takes(1.0), "other": takes(1.5, last=True)}, rounds=20, batch_size=8)
    assert found["base"]["ratio"] == pytest.approx(1.0)
    assert [found["other"][k] for k in ("low", "ratio", "high")] == pytest.approx([1.5] * 3)


def test_the_first_variant_is_what_the_others_are_measured_against():
    assert next(iter(private_step.variants())) == "non-private"
    assert registry.names("bench") == (
        *("batch_clipping_step", "kept_memory", "mixed_precision", "noisy_step", "private_step", "public_batch_norm"),
        "runs_together",
    )


@pytest.mark.parametrize("name", private_step.NETWORKS)
def test_fast_and_reference_make_the_same_step(name, monkeypatch):
    """From the same weights, on the same batch, with the same noise, they end at the same weights."""
    device, original, made = torch.device("cpu"), private_step.network, []
    monkeypatch.setattr(private_step, "network", lambda *a, **k: made.append(original(*a, **k)) or made[-1])
    for implementation in ("fast", "reference"):
        private_step.ours(implementation, name, 2, device)()
    start, *ends = ([p.detach() for p in model.parameters()] for model in (original(name), *made))
    assert not any(torch.equal(p, q) for p, q in zip(start, ends[0], strict=True))
    torch.testing.assert_close(*ends, rtol=1e-3, atol=1e-4)


def test_every_variant_of_batch_clipping_is_measured(monkeypatch):
    monkeypatch.setattr(batch_clipping_step, "NETWORKS", {"BN-LeNet-5": ("lenet5_tanh", 8, 1, (1, 32, 32))})
    (found,) = batch_clipping_step.measure(torch.device("cpu"), rounds=1).values()
    assert list(found) == ["SGD", "BC, full gradient", "BC, layerwise"]
    assert found["SGD"]["ratio"] == 1.0
    assert all(numbers["batch_size"] == 8 and numbers["milliseconds"] > 0 for numbers in found.values())


def test_a_process_that_keeps_its_memory_is_measured_against_one_that_does_not():
    found = kept_memory.measure(torch.device("cpu"), {"LeNet-5": (4, 1)})
    variants = [variant for variant in private_step.variants() if variant not in ("non-private", "ours, reference")]
    assert list(found["LeNet-5"]) == [f"{variant}, {how}" for variant in variants for how in ("given back", "kept")]
    assert found["LeNet-5"]["ours, fast, given back"]["ratio"] == 1.0
    assert all(numbers["milliseconds"] > 0 for numbers in found["LeNet-5"].values())


def test_every_precision_is_measured(monkeypatch):
    monkeypatch.setattr(environment, "computes_in_bfloat16", lambda: True)
    monkeypatch.setattr(mixed_precision, "NETWORKS", {"LeNet-5": ("lenet5", 1, (1, 28, 28))})
    found = mixed_precision.measure(torch.device("cpu"), rounds=1)
    assert list(found["LeNet-5"]) == ["float32", "bfloat16"]
    assert found["LeNet-5"]["float32"]["ratio"] == 1.0


def test_what_a_machine_cannot_tell_is_said_and_leaves_what_is_stored(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(environment, "computes_in_bfloat16", lambda: False)
    monkeypatch.setattr(noisy_step, "measure", lambda device: {})
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    here = bench.kind(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    (tmp_path / f"mixed_precision-{here}.json").write_text("as it was")
    bench.run(["mixed_precision", "noisy_step"])
    assert "mixed_precision: not measured here, and what is stored stays: this processor" in capsys.readouterr().out
    assert (tmp_path / f"mixed_precision-{here}.json").read_text() == "as it was"
    assert (tmp_path / f"noisy_step-{here}.json").exists()


def test_every_variant_of_public_batch_norm_is_measured(monkeypatch):
    monkeypatch.setattr(public_batch_norm, "TEST_IMAGES", 3)
    monkeypatch.setattr(public_batch_norm, "peak_memory", lambda makes, size, device: {name: {} for name in makes})
    steps, test = public_batch_norm.measure(torch.device("cpu"), rounds=1, size=8).values()
    assert list(steps) == list(public_batch_norm.STEPS)
    assert steps["plain"]["ratio"] == 1.0
    assert list(test) == ["in batches", "one image at a time"]
    assert all(numbers["milliseconds"] > 0 for numbers in (*steps.values(), *test.values()))


def test_the_loop_over_images_gives_what_the_batches_give(monkeypatch):
    """Both ways to the test phase take the same numbers, so their times can be compared."""
    monkeypatch.setattr(public_batch_norm, "TEST_IMAGES", 3)
    outputs, original = [], torch.nn.Sequential.forward

    def remembering(self, x):
        outputs.append(original(self, x))
        return outputs[-1]

    monkeypatch.setattr(torch.nn.Sequential, "forward", remembering)
    for loop in (False, True):
        public_batch_norm.tested(loop=loop, device=torch.device("cpu"))()
    _, batched, *looped = outputs  # the first pass is that of the statistics
    torch.testing.assert_close(batched, torch.cat([rows[:1] for rows in looped]), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_peak_memory_is_that_of_one_step():
    found = bench.peak_memory({"one": _allocates, "other": _allocates}, 50, torch.device("cpu"))
    assert [numbers["mebibytes"] for numbers in found.values()] == pytest.approx([50, 50], abs=15)
    assert found["one"]["memory"] == 1.0


def test_where_the_system_does_not_tell_memory_a_bench_is_stored_without(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "RESET_PEAK", tmp_path / "nowhere")
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    monkeypatch.setattr(public_batch_norm, "TEST_IMAGES", 3)
    monkeypatch.setattr(public_batch_norm, "BATCH", 8)
    cpu = torch.device("cpu")
    results = public_batch_norm.measure(cpu, rounds=1, size=8)
    bench.write("public_batch_norm", results, cpu, seconds=1.0, started=datetime.now(UTC))
    (here,) = bench.kinds("public_batch_norm")
    stored = bench.stored("public_batch_norm", here)["results"]["LeNet-5, a step"]
    assert stored["plain"].keys() == {"ratio", "low", "high", "milliseconds", "batch_size"}


@pytest.mark.parametrize(
    ("capability", "kind", "words"), [("AVX512", "avx512", "kept to AVX512"), ("NO AVX", "no_avx", "kept to NO AVX")]
)
def test_what_a_processor_can_is_stored_beside_what_it_is_kept_to(capability, kind, words, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    cpu = torch.device("cpu")
    bench.write("noisy_step", {"LeNet-5": {}}, cpu, seconds=1.0, started=datetime.now(UTC))
    (here,) = bench.kinds("noisy_step")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "some")
    bench.write("noisy_step", {"LeNet-5": {}}, cpu, seconds=1.0, started=datetime.now(UTC))
    assert bench.kinds("noisy_step") == sorted({here, kind})
    env = bench.stored("noisy_step", kind)["env"]
    assert env["limits"] == {"ONEDNN_MAX_CPU_ISA": "some"}
    assert words in machine(env)


def _allocates(size: int, device: torch.device):
    return lambda: torch.ones(size * 2**18).sum()  # size MiB


@pytest.mark.parametrize("kind", runs_together.KINDS)
def test_runs_together_end_where_they_do_one_after_another(kind, monkeypatch):
    monkeypatch.setattr(runs_together, "BATCH", 8)
    original, made = models.build, []
    monkeypatch.setattr(models, "build", lambda name: made.append(original(name)) or made[-1])
    for together in (False, True):
        runs_together.step(kind, torch.device("cpu"), seeds=range(1), together=together)()
    assert len(made) == 10
    for alone, other in zip(made[:5], made[5:], strict=True):
        for p, q in zip(alone.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(q, p, rtol=1e-3, atol=1e-4)


def test_every_seed_is_one_workers(monkeypatch):
    monkeypatch.setattr(runs_together, "cpu_count", lambda: 2)
    asked = []

    class Pool:
        def __init__(self, *of_one, **how): ...
        def __enter__(self):
            return self

        def __exit__(self, *error): ...
        def submit(self, call, kind, seeds):
            asked.append((kind, list(seeds)))
            return SimpleNamespace(result=lambda: None)

    monkeypatch.setattr(runs_together, "ProcessPoolExecutor", Pool)
    with runs_together.workers(5) as by_workers:
        by_workers("by DPSGD")()
    assert asked == [("by DPSGD", [0, 2, 4]), ("by DPSGD", [1, 3])]


def test_runs_together_are_measured_against_runs_one_after_another(monkeypatch):
    monkeypatch.setattr(runs_together, "BATCH", 2)
    found = runs_together._measure(torch.device("cpu"), rounds=1, seeds=1)
    assert list(found) == ["5 × LeNet-5 with noisy weights", "5 × LeNet-5 by DPSGD"]
    assert all(list(variants) == ["one after another", "together", "by workers"] for variants in found.values())


@pytest.mark.parametrize(("names", "message"), [(["nope"], "unknown bench 'nope'"), ([], "expected a folder")])
def test_what_cannot_be_stored_is_refused_before_anything_is_measured(names, message, monkeypatch, tmp_path):
    monkeypatch.setattr(noisy_step, "measure", lambda device: pytest.fail("measured"))
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path / "benchmarks")
    (tmp_path / "benchmarks").write_text("")
    with pytest.raises((ValueError, StoreError), match=message):
        bench.run(["noisy_step", *names])
