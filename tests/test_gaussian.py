"""Noise that hides what it is added to, and what it would betray if it were a float32, or a single draw of it."""

import math
import sys
from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import make_run
from scipy.stats import kstest, norm
from torch import nn

from lib import gaussian, pca
from lib.accounting import Event
from lib.audit import float32_noise, last_digits
from lib.layers.noised_batch_norm import NoisedBatchNorm
from lib.methods import build

PRIVATE = {"method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 1.0, "noise_multiplier": 1.0}


def draws() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("std", [1.0, 0.1])
def test_it_is_normal_and_added_to_the_total(std):
    total = torch.linspace(-3, 3, 300_000).view(1000, 300)
    hidden = gaussian.hide(total, std, draws())
    assert hidden.dtype == torch.float32
    noise = (hidden.double() - total).flatten().numpy()
    assert kstest(noise, norm(scale=std).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(noise[: gaussian.CHUNK // 2], noise[gaussian.CHUNK // 2 : gaussian.CHUNK])[0, 1]) < 0.03


def test_a_draw_has_the_radii_of_53_bits_and_pairs_at_right_angles():
    noise, twin = gaussian.draw(torch.empty(1001), draws()), draws()
    u = torch.rand(2, 501, dtype=torch.float64, generator=twin)
    radius, angle = (-2 * torch.log1p(-u[0])).sqrt(), 2 * math.pi * u[1]
    pairs = torch.cat([radius * angle.cos(), radius * angle.sin()])[:1001]
    torch.testing.assert_close(noise, pairs, rtol=0, atol=1e-14)
    assert (noise != noise.float()).all()
    whole = u * 2.0**53
    assert torch.equal(whole, whole.round())
    assert (whole % 2 == 1).any()


def test_tensors_of_any_layout_of_none_and_without_noise():
    last = torch.randn(64, 64, 3, 3, generator=draws()).to(memory_format=torch.channels_last)
    hidden = gaussian.hide(last, 1.0, draws())
    assert (hidden - last).std() == pytest.approx(1.0, abs=0.05)
    assert torch.equal(hidden, gaussian.hide(last.contiguous(), 1.0, draws()))
    without = gaussian.hide(last, 0.0, draws())
    assert torch.equal(without, last)
    assert without.data_ptr() != last.data_ptr()
    assert gaussian.hide(torch.empty(0), 1.0, draws()).shape == (0,)
    assert gaussian.hide(torch.tensor(2.0), 1.0, draws()).shape == ()


@pytest.mark.parametrize("std", [1.0, 0.3, 7e-5])
def test_a_result_depends_on_the_total_by_whole_steps_of_one_grid(std):
    """What a sum is rounded to, all its results are moved by, exactly: to round noise comes after, as of one sum."""
    spacing = 2.0 ** (math.frexp(std)[1] - gaussian.GRID)
    assert std * 2.0**-32 <= spacing <= std * 2.0**-31
    total = std * torch.randn(5000, dtype=torch.float64, generator=draws())
    noise = gaussian.hide(torch.zeros_like(total), std, draws())
    hidden = gaussian.hide(total, std, draws())
    assert torch.equal(noise / spacing, (noise / spacing).round())
    assert torch.equal(hidden - noise, (total / spacing).round() * spacing)
    assert (hidden - noise - total).abs().max() <= spacing / 2


def test_stretches_have_noise_of_their_own_wherever_they_end(monkeypatch):
    monkeypatch.setattr(gaussian, "CHUNK", 100)
    total, stretches = torch.ones(250), [(30, 2.0), (0, 5.0), (90, 0.0), (100, 1e-3), (30, 7.0)]
    noise = gaussian.draw(total, draws())
    hidden = gaussian.hide(total, stretches, draws())
    stds = torch.repeat_interleave(torch.tensor([std for _, std in stretches]), torch.tensor([n for n, _ in stretches]))
    torch.testing.assert_close(hidden - 1, (stds * noise).float(), rtol=1e-6, atol=1e-7)
    assert torch.equal(hidden[30:120], total[30:120])
    with pytest.raises(ValueError, match="expected clip norm × noise multiplier of 0 or at least 1e-30; got 1e-31"):
        gaussian.hide(total, [(125, 1.0), (125, 1e-31)], draws())


def test_noise_at_hand_is_added_alike():
    total = torch.randn(1000, generator=draws())
    behind = gaussian.hide_behind(total, gaussian.draw(total, draws()).mul_(0.7), 0.7)
    assert torch.equal(behind, gaussian.hide(total, 0.7, draws()))
    assert torch.equal(gaussian.hide_behind(total, gaussian.draw(total, draws()), 0.0), total)


class TestLastDigits:
    SETTING: ClassVar = {"noise_multiplier": 2.0, "coordinates": 20_000, "examples": 16, "steps": 4}

    def test_of_noise_that_is_added_in_float32_tell_the_two_sums_apart(self):
        found = last_digits.attack(last_digits.in_float32, **self.SETTING)
        assert found["with_it"] == 0
        assert found["without"] > 100

    def test_of_noise_that_is_added_on_a_grid_do_not(self):
        found = last_digits.attack(gaussian.hide, **self.SETTING)
        assert found["with_it"] > 100
        assert found["without"] == pytest.approx(found["with_it"], rel=0.1)

    @staticmethod
    def sums(others: int, included: bool) -> torch.Tensor:
        """Of gradients that are 2⁻⁷ in every coordinate, and of one that is .73 of them."""
        return torch.full((1 << 14,), (others + 0.73 * included) / 128)

    def test_tell_of_an_example_in_a_batch_that_is_drawn_in_secret(self):
        found = last_digits.attack_in_secret(last_digits.in_float32, noise_multiplier=8.0, steps=4, sums=self.sums)
        assert found == {"left_out": 0, "included": 4}

    @pytest.mark.parametrize("mode", ["", ", secure mode"])
    def test_tell_of_it_through_the_noise_of_opacus(self, mode):
        opacus = pytest.importorskip("opacus", reason="Opacus is not installed")
        hide = last_digits.of_opacus()[f"Opacus {opacus.__version__}{mode}"]
        noise = hide(torch.zeros(100_000), 3.0, draws())
        assert float(noise.std()) == pytest.approx(3.0, rel=0.02)
        found = last_digits.attack_in_secret(hide, noise_multiplier=8.0, steps=4, sums=self.sums)
        assert found == {"left_out": 0, "included": 4}

    def test_of_opacus_are_not_looked_at_where_it_is_not_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "opacus", None)
        assert last_digits.of_opacus() == {}

    def test_on_a_grid_tell_nothing_of_it(self):
        found = last_digits.attack_in_secret(gaussian.hide, noise_multiplier=8.0, steps=4, sums=self.sums)
        assert found["left_out"] == found["included"]

    def test_the_sums_are_training_s_own(self):
        sums = last_digits.sums_of_lenet5()
        one, two, three = (sums(n, included).double() for n, included in ((1, False), (2, False), (2, True)))
        assert len(one) == last_digits.COORDINATES
        assert torch.linalg.vector_norm(one) == pytest.approx(1.0, abs=1e-5)
        torch.testing.assert_close(two, 2 * one, rtol=1e-5, atol=1e-7)
        assert torch.linalg.vector_norm(three - two) == pytest.approx(1.0, abs=1e-5)
        assert (three - two) @ one < 0.9

    def test_show_in_one_of_eight_results_whether_a_sum_is_three_quarters_or_the_next(self):
        """Where the noise is a multiple of 2⁻²³ and the result is not rounded: notebook 06, exercise 5."""
        noise = torch.randn(1 << 20, generator=draws())
        even, odd = ((noise + total).double() * 2**24 for total in (0.75, 0.75 + 2.0**-24))
        told = (noise > -1.75) & (noise <= -1.0)
        assert (even[told] % 2 == 0).all()
        assert (odd[told] % 2 == 1).all()
        assert float(told.double().mean()) == pytest.approx(norm.cdf(-1.0) - norm.cdf(-1.75), abs=2e-3)

    def test_what_is_impossible_is_so_of_every_float32(self):
        """By trying all noises near; next to -.75 they are multiples of 2⁻²⁴, and one result is finer."""
        total = torch.tensor([0.75 + 2.0**-20, 0.75])
        noise = -0.75 + torch.arange(-64, 65).float() * 2.0**-24
        y = torch.tensor([2.0**-21 + 2.0**-30, 2.0**-24])
        made = [bool((noise + t == value).any()) for t, value in zip(total, y, strict=True)]
        assert last_digits.impossible(y, total).tolist() == [not one for one in made] == [True, False]


@pytest.mark.parametrize("method", ["dpsgd", "batch_clipping"])
def test_noise_that_float32_would_round_to_a_few_numbers_is_refused(method):
    """N(0, 1e-45²) is 0 in nearly every entry, and what it is to hide shows."""
    model = nn.Linear(3, 2)
    run = make_run(**PRIVATE | {"method": method, "clip_norm": 7e-46, "batch_size": 2})
    with pytest.raises(ValueError, match=r"expected clip norm × noise multiplier of 0 or at least 1e-30; got 7e-46"):
        build(run, 4, model).backward(model, torch.ones(2, 3), torch.zeros(2, dtype=torch.int64), 0)
    assert gaussian.hide(torch.zeros(1000), gaussian.FINEST, draws()).count_nonzero() == 1000


def test_one_draw_of_torch_has_as_many_radii_as_float32_has_uniform_numbers():
    """Box and Muller: the radius of a pair is √(−2 ln u), and u a multiple of 2⁻²⁴."""
    pairs = torch.empty(1 << 20).normal_(generator=draws()).double().view(-1, 2, 8)
    u = torch.exp(-pairs.square().sum(1) / 2) * 2**float32_noise.BITS
    smallest = u[u < 1000]
    assert len(smallest) > 10
    assert (smallest - smallest.round()).abs().max() < 0.01
    assert pytest.approx(math.sqrt(2 * math.log(2**24))) == float32_noise.BOUND


class TestOneDraw:
    """With radii of 12 bits, of which a test can see what those of 24 do to a large network."""

    @pytest.fixture(autouse=True)
    def coarse(self, monkeypatch):
        monkeypatch.setattr(float32_noise, "BITS", 12)
        monkeypatch.setattr(float32_noise, "BOUND", math.sqrt(24 * math.log(2)))
        monkeypatch.setattr(float32_noise, "SPIKED", (1.5, 3.0))
        monkeypatch.setattr(float32_noise, "RESOLUTION", 1e-5)

    @staticmethod
    def one(out, std, generator):
        k = torch.randint(1, 2**12 + 1, out.shape, generator=generator)
        angle = 2 * math.pi * torch.rand(out.shape, generator=generator, dtype=torch.float64)
        return out.copy_(std * torch.sqrt(-2 * torch.log(k * 2.0**-12)) * torch.cos(angle))

    def two(self, out, std, generator):
        other = self.one(torch.empty_like(out), std / math.sqrt(2), generator)
        return self.one(out, std / math.sqrt(2), generator).add_(other)

    def test_is_seen_through_far_better_than_the_account_allows(self):
        found = float32_noise.attack(self.one, coordinates=20_000, noise_multiplier=50.0, steps=100)
        assert found["mu"] > 5 * found["stderr"] > 10 / 50.0

    def test_and_two_are_not(self):
        found = float32_noise.attack(self.two, coordinates=20_000, noise_multiplier=50.0, steps=100)
        assert abs(found["mu"]) < 3 * found["stderr"]

    def test_has_the_density_that_the_attack_takes_it_for(self):
        """Its mean over many radii is the normal's, and its integral between two of them is right."""
        x = np.linspace(1.6, 2.9, 400_001)
        density = np.exp(float32_noise._log_ratio(x)) * norm.pdf(x)
        drawn = self.one(torch.empty(1 << 20), 1.0, draws())
        inside = ((drawn > 1.6) & (drawn < 2.9)).double().mean().item()
        assert np.trapezoid(density, x) == pytest.approx(inside, rel=0.02)
        assert np.trapezoid(density, x) == pytest.approx(norm.cdf(2.9) - norm.cdf(1.6), rel=0.02)

    @pytest.mark.parametrize("moved", [0.01, 0.3, 2.0, 5.0])
    def test_ends_where_an_example_can_be_seen(self, moved):
        drawn = self.one(torch.empty(1 << 20), 1.0, draws()).double()
        beyond = (drawn + moved > float32_noise.BOUND).double().mean().item()
        error = math.sqrt(beyond / (1 << 20))
        assert float32_noise.seen(moved) == pytest.approx(beyond, abs=4 * error + 1e-7)

    def test_the_statistic_is_positive_with_the_example_and_negative_without(self):
        y, s = self.one(torch.empty(1 << 18), 1.0, draws()).double().numpy(), 0.001
        without, included = float32_noise.statistic(y, s), float32_noise.statistic(y + s, s)
        assert included > 0 > without
        assert included == pytest.approx(-without, rel=0.1)


def test_what_a_cut_off_adds_to_delta():
    """By simulation of one step, z = 1/3: none is out there without the example, and with it so many."""
    noise = torch.empty(1 << 22).normal_(generator=draws())
    assert noise.abs().max() < float32_noise.BOUND
    seen = (noise + 3.0 > float32_noise.BOUND).double().mean().item()
    one = Event(noise_multiplier=1 / 3, sampling_prob=1.0, steps=1)
    assert seen == pytest.approx(float32_noise.cut_off([one], 1), rel=0.05)


def test_it_adds_the_more_the_more_coordinates_a_gradient_is_spread_over():
    """By hand: 64 chances of the largest radius within 1/64 of a standard deviation."""
    event, s = Event(noise_multiplier=8.0, sampling_prob=0.5, steps=10), 1 / 64
    reach = 2.0**-24 * math.acos((float32_noise.BOUND - s) / float32_noise.BOUND) / math.pi
    assert float32_noise.cut_off([event], 64) == pytest.approx(10 * 0.5 * 64 * reach, rel=1e-4)
    assert float32_noise.cut_off([event], 64) > 10 * float32_noise.cut_off([event], 1)
    assert float32_noise.cut_off([event, event], 64) == pytest.approx(2 * float32_noise.cut_off([event], 64), rel=1e-3)


def test_what_a_batch_without_the_example_hides_is_not_seen():
    """By simulation: a replaced one moves a Poisson batch by C from where it is without either; others are drawn."""
    rng, draws_of = np.random.default_rng(0), 1 << 22
    q, reach, radius = 0.5, 1 / 0.4, float32_noise.BOUND
    noise = torch.empty(draws_of).normal_(generator=draws()).numpy()
    poisson = Event(noise_multiplier=0.4, sampling_prob=q, steps=1, neighbouring_relation="replace_one")
    seen = np.mean(noise + reach * (rng.random(draws_of) < q) > radius)
    assert float32_noise.cut_off([poisson], 1) == pytest.approx(seen, rel=0.1)
    drawn = rng.binomial(50, q / 50, draws_of)  # of 100, 50 times, with replacement: each stands where −C would
    again = Event(noise_multiplier=0.8, sampling_prob=q, steps=1, sampler="with_replacement")
    once = np.mean(noise + reach * (drawn > 0) > radius)
    assert float32_noise.cut_off([again], 1) == pytest.approx(once, rel=0.1)
    assert float32_noise.cut_off([again], 1) < np.mean(noise + reach * drawn > radius)  # at least, that is


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
def test_every_method_adds_its_noise_here(changes, monkeypatch):
    """Without it two runs of other seeds are one."""
    monkeypatch.setattr(gaussian, "hide_behind", lambda total, noise, std: total.clone())
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
    monkeypatch.setattr(gaussian, "hide", lambda total, std, generator: seen.append(total.shape) or total)
    layer = NoisedBatchNorm(3)
    layer.watch(1.0)
    layer.release(expected_batch_size=8, noise_multiplier=1.0, released=3, generator=draws())
    assert seen == [(3,), (3,)]


def test_so_does_a_private_pca(monkeypatch):
    images = torch.randint(256, (50, 1, 4, 4), generator=draws()).to(torch.uint8)
    how = {"dimensions": 3, "generator": draws()}
    exact = pca.principal_components(images, noise_multiplier=0.0, **how)
    assert not torch.equal(pca.principal_components(images, noise_multiplier=4.0, **how), exact)
    monkeypatch.setattr(gaussian, "hide_behind", lambda total, noise, std: total.clone())
    assert torch.equal(pca.principal_components(images, noise_multiplier=4.0, **how), exact)


def test_an_effect_is_in_units_of_one_sides_spread(monkeypatch):
    """Of Gaussian noise and the sum over the coordinates it is 1/z, what the account allows."""
    monkeypatch.setattr(float32_noise, "statistic", lambda y, shift: y.sum())
    found = float32_noise.attack(float32_noise.in_float64, coordinates=100, noise_multiplier=0.2, steps=500)
    assert found["mu"] == pytest.approx(5.0, rel=0.1)
    assert found["stderr"] == math.sqrt(2 / 500)


def test_the_account_allows_one_over_z(monkeypatch):
    monkeypatch.setattr(float32_noise, "attack", lambda draw, **setting: {})
    assert {found["allowed"] * found["noise_multiplier"] for found in float32_noise.measure().values()} == {1.0}


def test_what_is_seen_best_is_counted_be_it_in_one_coordinate():
    """Three standard deviations end beyond the last radius in one coordinate more often than a 100th of them in 64."""
    event = Event(noise_multiplier=1 / 3, sampling_prob=1.0, steps=1)
    assert float32_noise.cut_off([event], 64) == float32_noise.cut_off([event], 1)
