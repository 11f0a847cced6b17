"""Correlated noise: the ends of the spectrum are the two methods, and the noise has the covariance that is counted."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import make_run
from scipy.linalg import toeplitz

from lib import accounting, gaussian, methods, models
from lib.accounting import Spectrum
from lib.generators import generator
from lib.run import Run
from lib.train import train

N, L = 1437, 100  # the digits: 14 steps per epoch
STEPS = 3 * (N // L)


def correlated(**changes) -> Run:
    settings = {"method": "correlated_noise", "sampler": "fixed_order", "accountant": "gdp", "noise_power": 0.5}
    settings |= {"optimizer": "sgd", "clip_norm": 1.0, "noise_multiplier": 2.0, "epochs": 3, "batch_size": L, "lr": 0.1}
    return make_run(**(settings | changes))


def banded(**changes) -> Run:
    return correlated(**({"sampler": "poisson", "accountant": "pld", "noise_bands": 4} | changes))


def build(run: Run) -> methods.Method:
    return methods.build(run, N, models.build(run.model))


@pytest.mark.parametrize(
    ("run", "spectrum"),
    [
        (correlated(), Spectrum(power=0.5, steps=STEPS)),
        (correlated(noise_power=0.75, noise_bands=3), Spectrum(power=0.75, steps=STEPS, bands=3)),
        (correlated(noise_power=1.0), Spectrum(power=1.0, steps=STEPS)),
        (banded(), Spectrum(power=0.5, steps=STEPS, bands=4, banded="strategy")),
    ],
    ids=["all", "3 bands of noise", "p = 1", "4 bands of strategy"],
)
def test_the_noise_has_the_covariance_of_the_inverse(run, spectrum):
    """Empty batches leave noise alone: its covariance over steps, from 266,610 coordinates, is z² C⁻¹ C⁻ᵀ / L²."""
    method, model, steps = build(run), models.build(run.model), 12
    nothing, gradients = torch.zeros(0, 1, 28, 28), []
    for step in range(steps):
        method.backward(model, nothing, torch.zeros(0, dtype=torch.long), step)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]).numpy())
    found = np.cov(np.stack(gradients)) * L**2 / 2.0**2
    inverse = toeplitz(spectrum.noise, np.zeros(STEPS))[:steps, :steps]
    assert found == pytest.approx(inverse @ inverse.T, abs=8 * np.sum(spectrum.noise**2) / 266_610**0.5)


@pytest.mark.parametrize(
    ("run", "spectrum"),
    [
        (correlated(noise_power=1.0), Spectrum(power=1.0, steps=STEPS)),
        (banded(), Spectrum(power=0.5, steps=STEPS, bands=4, banded="strategy")),
    ],
    ids=["p = 1", "4 bands of strategy"],
)
def test_what_is_taken_away_is_what_was_added_to_the_last_digit(run, spectrum):
    """Else what is left of it after the subtraction would be noise of another kind, of float32's roundings."""
    method, model, twin, steps = build(run), models.build(run.model), generator(run.seed, "gradient noise"), 6
    size = sum(parameter.numel() for parameter in model.parameters())
    draws = torch.stack([gaussian.draw(torch.empty(size), twin) for _ in range(steps)])
    expected = torch.from_numpy(toeplitz(spectrum.noise, np.zeros(STEPS))[:steps, :steps]) @ draws * (2.0 / L)
    for step in range(steps):
        method.backward(model, torch.zeros(0, 1, 28, 28), torch.zeros(0, dtype=torch.long), step)
        found = torch.cat([p.grad.flatten() for p in model.parameters()]).double()
        torch.testing.assert_close(found, expected[step], rtol=2.0**-22, atol=2.0**-30 * 2 / L)


def test_no_power_is_dpsgd_step_for_step():
    run = correlated(noise_power=0.0)
    same = replace(run, method="dpsgd", noise_power=0.0)
    assert train(run)["history"]["test_accuracy"] == train(same)["history"]["test_accuracy"]
    assert build(run).privacy()["proven"]["epsilon"] == pytest.approx(build(same).privacy()["proven"]["epsilon"])


def test_one_band_is_amplified_dpsgd_step_for_step():
    run = banded(noise_bands=1)
    same = replace(run, method="dpsgd", noise_power=0.0, noise_bands=0)
    assert train(run)["history"]["test_accuracy"] == train(same)["history"]["test_accuracy"]
    assert build(run).privacy()["proven"]["epsilon"] == build(same).privacy()["proven"]["epsilon"]


def test_a_record_says_what_was_counted_where_examples_take_turns():
    """Its block has the run's own steps and probability, from which another ε would come."""
    method = build(banded())
    block, event = method.privacy(), method.budget.events[-1]
    assert (event.steps, event.sampling_prob) == (-(-block["steps"] // 4), 4 * block["sampling_prob"])
    assert "each of 4 groups of examples sampled in one of 4 steps" in block["proven"]["why"]
    assert "groups" not in build(banded(noise_bands=1)).privacy()["proven"]["why"]


def test_power_one_is_si_dpsgd_step_for_step(monkeypatch):
    """Of opposite noise: SI-DPSGD adds it to the weights, and a gradient is subtracted from them."""
    run = correlated(noise_power=1.0)
    si_dpsgd = replace(run, method="si_dpsgd", noise_power=0.0)
    draws, ends, normal = torch.Generator().manual_seed(0), [], gaussian._normal
    x, y = torch.rand(30, 1, 28, 28, generator=draws), torch.arange(30) % 10
    for of, sign in ((run, 1.0), (si_dpsgd, -1.0)):
        torch.manual_seed(0)
        method, model = build(of), models.build(of.model)
        monkeypatch.setattr(gaussian, "_normal", lambda like, generator, sign=sign: sign * normal(like, generator))
        optimizer = torch.optim.SGD(model.parameters(), lr=of.lr)
        for step in range(10):
            method.backward(model, x, y, step)
            method.update(model, optimizer)
        ends.append(torch.nn.utils.parameters_to_vector(model.parameters()).detach())
    assert (ends[0] - ends[1]).norm() < 1e-4 * ends[1].norm()


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_in_a_fixed_order_the_guarantee_is_the_sensitivity_over_z(power):
    block = build(correlated(noise_power=power)).privacy()
    mu = Spectrum(power=power, steps=STEPS).sensitivity(period=N // L) / 2.0
    exact = accounting.analytic_gaussian(noise_multiplier=1 / mu, delta=1e-5)
    assert block["proven"]["epsilon"] == pytest.approx(exact, rel=1e-9)
    assert "leaves its place" in block["proven"]["assumes"]


def test_in_turns_it_is_poisson_sampling_of_every_fourth_step():
    block = build(banded()).privacy()
    moved = np.linalg.norm(Spectrum(power=0.5, steps=4).strategy)
    how = {"noise_multiplier": 2.0 / moved, "sampling_prob": 4 * L / N, "steps": math.ceil(STEPS / 4)}
    assert block["proven"]["epsilon"] == pytest.approx(accounting.epsilon(**how))


@pytest.mark.parametrize("run", [correlated(), banded()], ids=["fixed order", "in turns"])
def test_noise_that_float32_cannot_hold_is_refused(run):
    """It would be 0, and the gradients beside it not."""
    model = models.build(run.model)
    method = methods.build(replace(run, clip_norm=1e-45), N, model)
    with pytest.raises(ValueError, match=r"noise: expected .* at least 1e-30; got 2e-45"):
        method.backward(model, torch.rand(2, 1, 28, 28), torch.arange(2), 0)


@pytest.mark.parametrize("run", [correlated(), banded()], ids=["fixed order", "in turns"])
def test_noise_from_a_budget_keeps_to_it(run):
    block = build(replace(run, noise_multiplier=None, epsilon=2.0)).privacy()
    assert block["proven"]["epsilon"] == pytest.approx(2.0, rel=1e-3)
    assert block["proven"]["epsilon"] <= 2.0


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (correlated(sampler="shuffled"), "sampler: expected one of fixed_order, poisson .*; got 'shuffled'"),
        (banded(noise_bands=0), "noise_bands: expected at least 1 for sampler 'poisson'.*; got 0"),
        (banded(noise_bands=15), "groups: expected 1 to 14 for sampler 'poisson'; got 15"),
        (correlated(epsilon=1.0), "noise_multiplier: expected None beside an epsilon"),
        (correlated(noise_multiplier_decay=0.9), "noise_multiplier_decay: expected 1.0"),
        (correlated(method="dpsgd"), "noise_power: expected 0.0 for method 'dpsgd'; got 0.5"),
    ],
)
def test_what_its_account_does_not_cover_is_refused(run, message):
    with pytest.raises(ValueError, match=message):
        build(run)
