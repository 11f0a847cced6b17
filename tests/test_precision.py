"""Mixed precision: a cheaper way to the same steps, never to what bounds one example's part, and always recorded."""

import time
from dataclasses import replace

import pytest
import torch
from conftest import make_run
from torch.nn.modules.module import register_module_forward_pre_hook

from lib import methods, models, tables
from lib.grads import Groups
from lib.grads.mini_set import clipped_mean
from lib.methods.dpsgd import cross_entropy
from lib.train import OutOfTime, train, train_together

PRIVATE = {
    "optimizer": "sgd",
    "lr": 0.3,
    "clip_norm": 0.5,
    "noise_multiplier": 0.3,
    "neighbouring_relation": "replace_one",
}
BATCH_CLIPPING = PRIVATE | {"method": "batch_clipping", "sampler": "without_replacement", "norm": "batch"}
RUNS = {
    "noisy weights": make_run(model="lenet5", weight_noise_std=0.05, norm="batch"),
    "noisy updates": make_run(method="noisy_sgd", optimizer="sgd", lr=0.1, gradient_noise_std=0.01),
    "batch clipping": make_run(**BATCH_CLIPPING, mini_set_size=64),
    "layer by layer": make_run(
        **(BATCH_CLIPPING | {"method": "adaptive_layerwise"}),
        mini_set_size=32,
        layers="modules",
        gradient_norm_examples=16,
        public_examples=16,
    ),
    "residual blocks": replace(
        tables.load("cifar10_noise").cell("BN-ResNet-18", 0.1, seed=0, tier="smoke", lr=0.001),
        test_draws=1,
        validation_examples=900,
    ),
    "texts": tables.load("agnews_noise").cell("LN-BiLSTM-DL", 0.1, seed=0, tier="smoke", lr=0.001),
}
ONE_BY_ONE = {
    "DPSGD": make_run(**PRIVATE, method="dpsgd", sampler="without_replacement"),
    "SI-DPSGD": make_run(**PRIVATE, method="si_dpsgd", sampler="without_replacement"),
    "individual clipping": make_run(**(BATCH_CLIPPING | {"norm": "none"}), mini_set_size=1),
}


def precision(record: dict) -> str:
    return record["env"]["flags"]["precision"]


def without_env(record: dict) -> dict:
    return {name: block for name, block in record.items() if name != "env"}


def in_half_precision(run, **how) -> tuple[dict, bool]:
    """The record, and whether a layer had an input in bfloat16, another's output."""
    seen = set()
    hook = register_module_forward_pre_hook(
        lambda layer, inputs: seen.update(getattr(x, "dtype", None) for x in inputs)
    )
    try:
        return train(run, **how), torch.bfloat16 in seen
    finally:
        hook.remove()


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_it_is_training_to_rounding_and_what_the_optimiser_follows_is_float32(run, monkeypatch):
    exact, in_full = in_half_precision(run)
    seen, update = [], methods.Method.update

    def spied(self, model, optimizer):
        seen.extend([*model.parameters(), *(p.grad for p in model.parameters()), *model.buffers()])
        update(self, model, optimizer)

    monkeypatch.setattr(methods.Method, "update", spied)
    mixed, in_half = in_half_precision(run, precision="bfloat16")
    assert {value.dtype for value in seen if value.is_floating_point()} == {torch.float32}
    assert (precision(exact), in_full) == ("float32", False)
    assert (precision(mixed), in_half) == ("bfloat16", True)
    assert mixed["privacy"] == exact["privacy"]
    assert mixed["metrics"] == pytest.approx(exact["metrics"], abs=8.0)
    for loss, expected in zip(mixed["history"]["train_loss"], exact["history"]["train_loss"], strict=True):
        assert loss == (expected if expected is None else pytest.approx(expected, rel=0.05))


@pytest.mark.parametrize("run", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_where_examples_are_clipped_one_by_one_it_stays_away(run):
    mixed, in_half = in_half_precision(run, precision="bfloat16")
    assert (precision(mixed), in_half) == ("float32", False)
    assert without_env(mixed) == without_env(train(run))


def test_a_clipped_mean_is_float32_and_no_longer_than_its_bound():
    torch.manual_seed(0)
    model, x, y = models.build("convnet", norm="batch"), torch.randn(16, 3, 32, 32), torch.arange(16) % 10
    with torch.autocast("cpu", torch.bfloat16):
        clipped = clipped_mean(model, cross_entropy, x, y, Groups(model, 0.01))
    assert clipped.dtype == torch.float32
    assert clipped.double().norm() == pytest.approx(0.01, rel=1e-5)


def test_runs_together_are_those_alone():
    runs = [replace(RUNS["noisy weights"], seed=seed) for seed in range(2)]
    for record, run in zip(train_together(runs, precision="bfloat16"), runs, strict=True):
        assert precision(record) == "bfloat16"
        alone = train(run, precision="bfloat16")
        assert record["history"]["train_loss"] == pytest.approx(alone["history"]["train_loss"], rel=0.02)


def test_a_run_that_was_cut_off_goes_on_as_it_began(tmp_path):
    run, file = RUNS["noisy weights"], tmp_path / "checkpoint"
    with pytest.raises(OutOfTime):
        train(run, precision="bfloat16", checkpoint=file, deadline=time.time())
    rest = train(run, checkpoint=file)
    assert precision(rest) == "bfloat16"
    assert without_env(rest) == without_env(train(run, precision="bfloat16"))


def test_another_precision_is_refused():
    with pytest.raises(ValueError, match="precision: expected one of float32, bfloat16; got 'float16'"):
        train(make_run(), precision="float16")
