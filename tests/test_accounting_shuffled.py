"""What shuffled batches cost at least: simulated, integrated, and never more than what is proven."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from lib import accounting

SHUFFLED = {"sampler": "shuffled", "accountant": "gdp"}


def at_most(z, batches, delta, **how):
    run = {"noise_multiplier": z, "sampling_prob": 1 / batches, "steps": batches, "delta": delta}
    return accounting.epsilon(**run | SHUFFLED | how)


def at_least(z, batches, delta):
    return accounting.shuffled_epsilon_at_least(noise_multiplier=z, steps_per_epoch=batches, delta=delta)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(z=st.floats(0.01, 100.0), batches=st.integers(1, 10**6), delta=st.floats(1e-12, 0.1))
def test_it_is_never_more_than_what_is_proven(z, batches, delta):
    found = at_least(z, batches, delta)
    assert 0 <= found <= at_most(z, batches, delta) * (1 + 1e-9) + 1e-9
    assert found <= at_most(z, batches, delta, neighbouring_relation="replace_one")


@pytest.mark.parametrize("z", [1e-3, 0.1, 1.0, 5.0, 50.0])
def test_one_batch_of_all_examples_is_the_gaussian_mechanism(z):
    assert at_least(z, 1, 1e-5) == pytest.approx(at_most(z, 1, 1e-5), rel=1e-4)


@pytest.mark.parametrize(
    ("z", "least", "most", "poisson"),
    [(0.5, 9.997, 9.997, 3.24), (0.7, 6.53, 6.65, 0.61), (1.0, 2.88, 4.38, 0.149), (4.0, 0.00434, 0.926, 0.0216)],
)
def test_a_thousand_batches(z, least, most, poisson):
    """With little noise the upper bound is reached, and three times Poisson's; with much, nothing is known."""
    assert at_least(z, 1000, 1e-5) == pytest.approx(least, rel=0.01)
    assert at_most(z, 1000, 1e-5) == pytest.approx(most, rel=0.01)
    assert accounting.epsilon(noise_multiplier=z, sampling_prob=1e-3, steps=1000) == pytest.approx(poisson, rel=0.01)


@pytest.mark.parametrize(("z", "batches", "delta"), [(0.7, 1000, 1e-5), (2.0, 100, 1e-5), (0.5, 7, 1e-3)])
def test_no_other_threshold_gives_more(z, batches, delta):
    """The best of a fine grid of events, by the formula of the module's page."""
    t = np.linspace(-10, 30, 400_001)
    with_it, without_it = (1 - norm.cdf(t - k / z) * norm.cdf(t) ** (batches - 1) for k in (2, 1))
    seen = with_it > delta
    best = np.log((with_it[seen] - delta) / without_it[seen]).max()
    assert at_least(z, batches, delta) == pytest.approx(best, rel=1e-3)


def test_it_is_what_shuffled_sums_show():
    """200,000 epochs of 12 examples in 3 batches, shuffled, summed and noised one by one, C = 1."""
    generator, z, delta, epochs = np.random.default_rng(0), 0.8, 0.05, 200_000
    beyond, t = {}, np.linspace(-4, 6, 101)
    for differing in (1.0, 0.0):  # the example's gradient, or its place left empty
        examples = generator.permuted(np.tile([differing, *[-1.0] * 11], (epochs, 1)), axis=1)
        outputs = examples.reshape(epochs, 3, 4).sum(axis=2) + z * generator.standard_normal((epochs, 3))
        largest = np.sort(outputs.max(axis=1))
        beyond[differing] = 1 - np.searchsorted(largest, t) / epochs
    seen = beyond[1.0] > 2 * delta
    shown = np.log((beyond[1.0][seen] - delta) / beyond[0.0][seen]).max()
    assert shown == pytest.approx(at_least(z, 3, delta), abs=0.02)


@pytest.mark.parametrize(("z", "delta"), [(0.7, 1e-3), (1.5, 1e-2)])
def test_two_batches_have_at_least_that_delta(z, delta):
    """The pair's own δ, of both outputs and not of the larger alone, as an integral over the plane."""
    x = np.linspace(-8, 2 / z + 8, 2001)
    one, two = np.meshgrid(x, x)
    with_it, without_it = (
        (norm.pdf(one - k / z) * norm.pdf(two) + norm.pdf(one) * norm.pdf(two - k / z)) / 2 for k in (2, 1)
    )
    excess = np.maximum(0, with_it - math.exp(at_least(z, 2, delta)) * without_it)
    of_both = np.trapezoid(np.trapezoid(excess, x), x)
    assert delta * (1 - 1e-4) < of_both < 1.5 * delta


def test_it_falls_with_noise_and_with_batches_and_ends_at_0():
    by_noise = [at_least(z, 100, 1e-5) for z in (0.02, 0.5, 1.0, 2.0, 4.0)]
    assert by_noise == sorted(by_noise, reverse=True)
    by_batches = [at_least(1.0, batches, 1e-5) for batches in (1, 10, 100, 1000)]
    assert by_batches == sorted(by_batches, reverse=True)
    assert at_least(100.0, 10**6, 0.1) == 0.0
    assert at_least(0.1, 10, 1 - 1e-9) >= 0.0  # without a warning, which would be an error


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise_multiplier": 0.0}, r"^noise_multiplier: expected a finite number of more than 0; got 0.0$"),
        ({"steps_per_epoch": 0}, r"^steps_per_epoch: expected a whole number of at least 1; got 0$"),
        ({"steps_per_epoch": 2.5}, r"^steps_per_epoch: expected a whole number of at least 1; got 2.5$"),
        ({"delta": 1.0}, r"^delta: expected a number in \(0, 1\); got 1.0$"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        accounting.shuffled_epsilon_at_least(**{"noise_multiplier": 1.0, "steps_per_epoch": 10} | wrong)
