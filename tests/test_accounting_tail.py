"""δ far out in the tail: a pair of data sets against µ-GDP."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from lib import accounting
from lib.accounting import _tail
from lib.accounting._gaussian import gdp_delta

BC = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_no_other_threshold_gives_more(batches, epsilon):
    """The best of a fine grid of events, by the formula of the module's page."""
    z, q = 0.9, 0.05
    t = np.linspace(-5, 30, 700_001)
    bounds = q**batches * norm.sf(t - math.sqrt(batches) / z) - math.exp(epsilon) * norm.sf(t)
    found = math.exp(_tail.log_delta_at_least(epsilon, batches, z, q))
    assert found == pytest.approx(bounds.max(), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "z", "q"), [(0.01, 4.0, 0.01), (1.0, 0.8, 1.0), (3.0, 0.5, 0.1), (1e-4, 1.0, 0.5)])
def test_the_delta_of_one_step_is_the_integral_and_at_most_pld_s(epsilon, z, q):
    x = np.linspace(-12 * z, 1 + 12 * z, 400_001)
    mixture = (1 - q) * norm.pdf(x, 0, z) + q * norm.pdf(x, 1, z)
    exact = np.trapezoid(np.maximum(0, mixture - math.exp(epsilon) * norm.pdf(x, 0, z)), x)
    other = np.trapezoid(np.maximum(0, norm.pdf(x, 0, z) - math.exp(epsilon) * mixture), x)
    how = {"noise_multiplier": z, "sampling_prob": q}
    found = accounting.delta_of_one_step(epsilon=epsilon, **how)
    assert found == pytest.approx(exact, rel=1e-5)
    assert other <= found * (1 + 1e-5) <= (1 + 1e-4) * accounting.delta(epsilon=epsilon, steps=1, **how)
    assert accounting.delta_of_one_step(epsilon=1e4, **how) == 0.0


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"noise_multiplier": 0.0}, {"sampling_prob": 0.0}], ids=str)
def test_one_step_that_cannot_be_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=rf"^{next(iter(wrong))}: expected a .*; got 0.0$"):
        accounting.delta_of_one_step(**{"epsilon": 1.0, "noise_multiplier": 1.0, "sampling_prob": 0.1} | wrong)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_it_is_less_than_what_is_proven(epsilon):
    how = {"noise_multiplier": 0.9, "sampling_prob": 0.05}
    most = accounting.delta(epsilon=epsilon, steps=20, **how)
    found = [math.exp(_tail.log_delta_at_least(epsilon, k, *how.values())) for k in range(1, 11)]
    assert 0 < max(found) < most


def test_one_batch_of_all_examples_is_the_gaussian_mechanism():
    z, epsilon = 0.8, 1.5
    found = math.exp(_tail.log_delta_at_least(epsilon, 1, z, 1.0))
    assert found == pytest.approx(accounting.analytic_gaussian(noise_multiplier=z, epsilon=epsilon), rel=1e-9)


def test_where_the_limit_of_batch_clipping_is_exceeded():
    """bc's σ = 2.5 with 8 layers: from ε = 6 on; at 7 by 40 digits."""
    z, q = 2 * 2.5 / 8**0.5, 64 / 54_000
    mu = accounting.limit_mu(accounting.Event(z, q, 42_188, **BC))
    assert mu == pytest.approx(0.5213, abs=1e-4)
    epsilon, pair, allowed = accounting.gdp_exceeded(mu=mu, noise_multiplier=z / 2, sampling_prob=q, steps=42_188)
    assert epsilon == 6.0
    assert allowed == pytest.approx(gdp_delta(mu, 6.0), rel=1e-6)
    assert 1.1 < pair / allowed < 1.3
    with mpmath.workdps(40):

        def beyond(t):
            return mpmath.erfc(mpmath.mpf(t) / mpmath.sqrt(2)) / 2

        mean = 2 / mpmath.mpf(z)
        t = (7 - mpmath.log(q)) / mean + mean / 2
        pair = q * beyond(t - mean) - mpmath.exp(7) * beyond(t)
        allowed = beyond(7 / mpmath.mpf(mu) - mu / 2) - mpmath.exp(7) * beyond(7 / mpmath.mpf(mu) + mu / 2)
    assert math.exp(_tail.log_delta_at_least(7.0, 1, z / 2, q)) == pytest.approx(float(pair), rel=1e-6)
    assert gdp_delta(mu, 7.0) == pytest.approx(float(allowed), rel=1e-6)
    assert pair > 1e6 * allowed


def test_nothing_exceeds_a_limit_that_is_large_enough():
    assert accounting.gdp_exceeded(mu=20.0, noise_multiplier=1.0, sampling_prob=0.001, steps=1000) is None


def test_no_more_batches_are_counted_than_there_are():
    """One batch of all examples is exactly 1-GDP, and ten of them are not."""
    how = {"mu": 1.0, "noise_multiplier": 1.0, "sampling_prob": 1.0}
    assert accounting.gdp_exceeded(**how, steps=0) is accounting.gdp_exceeded(**how, steps=1) is None
    assert accounting.gdp_exceeded(**how, steps=10)[0] == 1.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mu": 0}, r"^mu: expected a finite number of more than 0; got 0$"),
        ({"noise_multiplier": -1.0}, r"^noise_multiplier: expected a finite number of more than 0; got -1.0$"),
        ({"sampling_prob": 1.5}, r"^sampling_prob: expected a number in \(0, 1\]; got 1.5$"),
        ({"steps": 2.5}, r"^steps: expected a whole number of at least 0; got 2.5$"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong, message):
    how = {"mu": 1.0, "noise_multiplier": 1.0, "sampling_prob": 0.1, "steps": 10}
    with pytest.raises(ValueError, match=message):
        accounting.gdp_exceeded(**how | wrong)
