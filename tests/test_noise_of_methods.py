"""The noise that every private method leaves in every parameter tensor, against what its account counts.

Empty batches leave noise alone; their gradients over many steps are the sample.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import make_run
from torch import nn

from lib import methods, models
from lib.accounting import Spectrum
from lib.layers import NoisedBatchNorm

N, STEPS, L, Z, C = 1337, 300, 16, 2.0, 0.5  # the digits without 100 public ones
NOTHING = (torch.zeros(0, 1, 28, 28), torch.zeros(0, dtype=torch.int64))
PLAIN = make_run(
    model="lenet5",
    norm="layer",
    method="dpsgd",
    optimizer="sgd",
    batch_size=L,
    clip_norm=C,
    noise_multiplier=Z,
    epochs=4,
    lr=0.3,
    public_examples=100,
    sampler="without_replacement",
    neighbouring_relation="replace_one",
    accountant="clt",
)
BC = replace(PLAIN, method="batch_clipping", mini_set_size=L)
ALC = replace(BC, method="adaptive_layerwise", gradient_norm_examples=50)
SHARED = {"norm": "noised_batch_without_affine", "statistics_clip_norm": 2.0, "statistics_share": 0.2}
RUNS = {
    "DPSGD": PLAIN,
    "DPSGD, layers clipped": replace(PLAIN, clipped="layer"),
    "DPSGD, statistics share the budget": replace(PLAIN, **SHARED),
    "SI-DPSGD": replace(PLAIN, method="si_dpsgd"),
    "correlated": replace(
        PLAIN,
        method="correlated_noise",
        sampler="poisson",
        neighbouring_relation="add_or_remove_one",
        accountant="pld",
        noise_power=0.5,
        noise_bands=4,
    ),
    "IC": replace(BC, mini_set_size=1),
    "BC": BC,
    "BC, averaged over examples": replace(BC, averaged_over="examples"),
    "ALC": ALC,
    "ALC, Zhang's": replace(ALC, adaptive_clipping="zhang"),
    "ALC, modules": replace(ALC, layers="modules"),
    "ALC, four groups": replace(ALC, layers="four_groups"),
    "multiplication factors": replace(ALC, adaptive_clipping="multiplication_factors"),
}
COUNTED = [name for name, run in RUNS.items() if run.method not in ("si_dpsgd", "correlated_noise")]


def prepared(run) -> tuple[methods.Method, nn.Module]:
    torch.manual_seed(0)
    model = models.build(run.model, norm=run.norm)
    method = methods.build(run, N, model)
    method.prepare(model, (torch.rand(100, 1, 28, 28), torch.arange(100) % 10))
    return method, model


def noise(run) -> tuple[methods.Method, dict[str, np.ndarray]]:
    """The method, and for every parameter tensor its noise on the sum, (steps, values)."""
    method, model = prepared(run)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=run.lr)
    found = {name: [] for name in start}
    for step in range(STEPS):
        method.backward(model, *NOTHING, step)
        if run.method == "si_dpsgd":  # its noise goes to the weights: θ − µ, and µ stays
            method.update(model, optimizer)
        for name, p in model.named_parameters():
            drawn = (p.detach() - start[name]) / run.lr if run.method == "si_dpsgd" else p.grad
            found[name].append(drawn.flatten()[:2000].numpy().copy())
    over_vectors = run.method in (BC.method, ALC.method) and run.averaged_over == "vectors"
    divisor = L // run.mini_set_size if over_vectors else L
    return method, {name: np.stack(values) * divisor for name, values in found.items()}


def reach(run, method) -> dict[str, float]:
    """What the noise of a tensor is Z times of: by the papers' formulas, from the measured norms e_h."""
    if run.method != "adaptive_layerwise":
        shared = math.sqrt(1 - run.statistics_share)
        return dict.fromkeys((name for name, _ in prepared(run)[1].named_parameters()), C / shared)
    unit = 1.0 if run.adaptive_clipping == "zhang" else max(method.expected.values())
    return {name: C * e / unit for group, e in method.expected.items() for name in group}


@pytest.mark.parametrize("name", RUNS)
def test_every_tensor_has_noise_of_its_own_and_of_the_scale_that_is_counted(name):
    run = RUNS[name]
    method, found = noise(run)
    of_step = np.ones(STEPS)
    if run.method == "correlated_noise":  # of step t: the first t coefficients
        spectrum = Spectrum(power=0.5, steps=method.steps, bands=4, banded="strategy")
        of_step = np.sqrt(np.cumsum(spectrum.noise[:STEPS] ** 2))
    for tensor, expected in reach(run, method).items():
        values = found[tensor] / (Z * expected * of_step[:, None])
        error = 5 / math.sqrt(2 * values.size / np.mean(of_step**4))  # correlated steps count for fewer
        assert values.std() == pytest.approx(1.0, rel=error), tensor
        assert abs(values.mean()) < error * 2, tensor
    firsts = np.stack([values[:, 0] for values in found.values()])
    alike = np.corrcoef(firsts) - np.eye(len(firsts))
    assert np.abs(alike).max() < 6 / math.sqrt(STEPS)
    if run.method != "correlated_noise":
        assert abs(np.corrcoef(firsts[:, 1:].ravel(), firsts[:, :-1].ravel())[0, 1]) < 5 / math.sqrt(firsts.size)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (name, {"ALC": 20, "ALC, Zhang's": 20, "ALC, modules": 10, "ALC, four groups": 4}.get(name, 1))
        for name in COUNTED
    ],
)
def test_as_many_parts_as_are_clipped_by_themselves_are_counted(name, parts):
    """Each part is a Gaussian mechanism with noise multiplier Z; together they are one with Z/√L."""
    method, _ = prepared(RUNS[name])
    (event,) = method.budget.events
    assert event.noise_multiplier == pytest.approx(Z / math.sqrt(parts))


def test_the_noise_of_batch_norms_statistics_is_that_of_their_share(monkeypatch):
    """z_s = z/√f over all D channels of all layers at once: the standard deviation of what moves each running mean."""
    told, release = [], NoisedBatchNorm.release
    monkeypatch.setattr(
        NoisedBatchNorm, "release", lambda layer, **how: (told.append((layer.clip_norm, how)), release(layer, **how))
    )
    method, model = prepared(RUNS["DPSGD, statistics share the budget"])
    norms = [layer for layer in model if isinstance(layer, NoisedBatchNorm)]
    channels = sum(len(layer.mean) for layer in norms)
    sample = []
    for step in range(50):
        for layer in norms:
            layer.mean.zero_()
        method.backward(model, *NOTHING, step)
        sample.append(torch.cat([layer.mean for layer in norms]) / 0.1)
    assert channels == 6 + 16 + 120 + 84
    assert len(told) == 50 * len(norms)
    for clip_norm, how in told:
        assert clip_norm == 2.0
        assert how["noise_multiplier"] == pytest.approx(Z / math.sqrt(0.2))
        assert (how["released"], how["expected_batch_size"]) == (channels, L)
    values = torch.stack(sample)
    expected = Z / math.sqrt(0.2) * math.sqrt(2 * channels) * 2.0 / L
    assert float(values.std()) == pytest.approx(expected, rel=5 / math.sqrt(2 * values.numel()))
    at_once = torch.stack([values[:, start] for start in (0, 6, 22, 142)])  # the first channel of each layer
    assert float((torch.corrcoef(at_once) - torch.eye(4)).abs().max()) < 5 / math.sqrt(50)


@pytest.mark.parametrize("name", ["DPSGD", "DPSGD, statistics share the budget", "SI-DPSGD", "IC", "BC", "ALC"])
def test_the_noise_that_is_drawn_follows_its_factors_from_epoch_to_epoch(name):
    """And not what a method says of it alone."""
    run = replace(RUNS[name], clip_norm_decay=0.5, noise_multiplier_decay=0.6)
    method, model = prepared(run)
    start = model[1 if run.norm == "none" else 0].weight.detach().clone()
    optimizer, period, stds = torch.optim.SGD(model.parameters(), lr=1.0), N // L, []
    for step in (period - 1, period, 3 * period - 1):
        found = []
        for _ in range(20):
            method.backward(model, *NOTHING, step)
            if run.method == "si_dpsgd":
                method.update(model, optimizer)
                found.append((model[0].weight - start).detach())
            else:
                found.append(model[0].weight.grad.clone())
        stds.append(float(torch.stack(found).std()))
    assert stds[1] / stds[0] == pytest.approx(0.3, rel=0.06)
    assert stds[2] / stds[0] == pytest.approx(0.09, rel=0.06)


def test_so_does_the_noise_of_statistics():
    method, model = prepared(replace(RUNS["DPSGD, statistics share the budget"], noise_multiplier_decay=0.1))
    layer, stds = next(layer for layer in model if isinstance(layer, NoisedBatchNorm) and len(layer.mean) > 100), []
    for step in (0, N // L):
        layer.mean.zero_()
        method.backward(model, *NOTHING, step)
        stds.append(float(layer.mean.std()))
    assert stds[1] / stds[0] == pytest.approx(0.1, rel=0.4)


def test_noise_of_statistics_and_of_gradients_is_not_the_same():
    method, _ = prepared(RUNS["DPSGD, statistics share the budget"])
    assert method._noise.initial_seed() != method._statistics._generator.initial_seed()


@pytest.mark.parametrize("name", ["DPSGD", "DPSGD, statistics share the budget", "SI-DPSGD", "correlated", "BC"])
def test_every_seed_has_noise_of_its_own(name):
    """Else what two of them release would differ by their gradients alone."""
    drawn = []
    for seed in (0, 1):
        run = replace(RUNS[name], seed=seed)
        method, model = prepared(run)  # which begins alike
        method.backward(model, *NOTHING, 0)
        method.update(model, torch.optim.SGD(model.parameters(), lr=run.lr))
        drawn.append([*model.parameters(), *(layer.mean for layer in model if isinstance(layer, NoisedBatchNorm))])
    assert not any(torch.equal(*of_both) for of_both in zip(*drawn, strict=True))
