"""Noise whose tail is not cut off where float32 ends."""

import math

import pytest
import torch
from conftest import make_run
from scipy.stats import kstest, norm
from torch import nn

from lib import gaussian
from lib.layers.noised_batch_norm import NoisedBatchNorm
from lib.methods import build

PRIVATE = {"method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 1.0, "noise_multiplier": 1.0}


def draws() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_torch_has_no_tail_and_ours_begins_where_torch_is_still_fine():
    """Box and Muller: the radius of a pair is √(−2 ln u), and u a multiple of 2⁻²⁴."""
    pairs = torch.empty(1 << 20).normal_(generator=draws()).double().view(-1, 2, 8)
    u = torch.exp(-pairs.square().sum(1) / 2) * 2**24
    smallest = u[u < 1000]
    assert len(smallest) > 10
    assert (smallest - smallest.round()).abs().max() < 0.01
    assert pytest.approx(math.sqrt(2 * math.log(2**24))) == gaussian.FLOAT32_BOUND
    assert gaussian.FAR < gaussian.FLOAT32_BOUND - 1.5


@pytest.mark.parametrize(("far", "std"), [(4.0, 1.0), (0.5, 1.0), (1.5, 0.1)])
def test_it_is_normal_wherever_its_tail_begins(far, std, monkeypatch):
    monkeypatch.setattr(gaussian, "FAR", far)
    noise = gaussian.fill(torch.empty(1000, 300), std, draws())
    assert noise.dtype == torch.float32
    assert kstest(noise.flatten().numpy(), norm(scale=std).cdf).pvalue > 1e-3


def test_its_tail_goes_on_beyond_what_float32_has():
    count = 4_000_000
    found = gaussian.beyond(gaussian.FAR, count, draws())
    assert found.min() > gaussian.FAR
    expected = count * norm.sf(gaussian.FLOAT32_BOUND) / norm.sf(gaussian.FAR)
    assert (found > gaussian.FLOAT32_BOUND).sum().item() == pytest.approx(expected, abs=5 * math.sqrt(expected))
    assert found.max() > 6.0


def test_what_is_far_out_is_drawn_anew_on_its_side(monkeypatch):
    at = torch.tensor([5.0, -5.0, 3.9, 4.5])
    monkeypatch.setattr(torch.Tensor, "normal_", lambda out, mean, std, generator: out.copy_(std * at))
    noise = gaussian.fill(torch.empty(4), 2.0, draws())
    assert noise[2] == 2 * at[2]
    assert (noise[[0, 3]] > 2 * gaussian.FAR).all()
    assert noise[1] < -2 * gaussian.FAR
    assert not set(noise.tolist()) & {10.0, -10.0, 9.0}


def test_parts_of_a_vector_strange_strides_and_no_noise():
    vector = torch.zeros(30_000)
    gaussian.fill(vector[10_000:20_000].view(100, 100), 1.0, draws())
    assert vector[:10_000].count_nonzero() == vector[20_000:].count_nonzero() == 0
    assert vector[10_000:20_000].std() == pytest.approx(1.0, abs=0.05)
    last = torch.empty(64, 64, 3, 3).to(memory_format=torch.channels_last)
    assert gaussian.fill(last, 1.0, draws()).std() == pytest.approx(1.0, abs=0.05)
    assert gaussian.fill(torch.ones(5), 0.0, draws()).tolist() == [0.0] * 5
    assert gaussian.fill(torch.empty(0), 1.0, draws()).shape == (0,)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": "si_dpsgd"},
        {"method": "correlated_noise", "noise_power": 0.5, "sampler": "fixed_order", "accountant": "gdp"},
        {"method": "batch_clipping", "mini_set_size": 64, "sampler": "shuffled", "accountant": "gdp"}
        | {"neighbouring_relation": "replace_one"},
    ],
    ids=lambda changes: changes.get("method", "dpsgd"),
)
def test_every_method_draws_its_noise_here(changes, monkeypatch):
    """Without it two runs of other seeds are one."""
    monkeypatch.setattr(gaussian, "fill", lambda out, std, generator: out.zero_())
    x, y, found = torch.randn(64, 4, generator=draws()), torch.arange(64) % 3, []
    for seed in range(2):
        run, model = make_run(**(PRIVATE | {"batch_size": 64, "seed": seed} | changes)), linear()
        method, optimizer = build(run, 640, model), torch.optim.SGD(model.parameters(), lr=0.1)
        method.backward(model, x, y, 0)
        method.update(model, optimizer)
        found.append(model.weight.detach())
    assert torch.equal(*found)
    assert not torch.equal(found[0], linear().weight)


def test_so_do_noised_statistics(monkeypatch):
    seen = []
    monkeypatch.setattr(gaussian, "fill", lambda out, std, generator: seen.append(out.shape) or out.zero_())
    layer = NoisedBatchNorm(3)
    layer.watch(1.0)
    layer.release(expected_batch_size=8, noise_multiplier=1.0, released=3, generator=draws())
    assert seen == [(2, 3)]
