"""One Gaussian query, where everything is known in closed form, and SI-DPSGD against direct integration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, norm

from lib.accounting import analytic_gaussian, classical_gaussian, epsilon, si_dpsgd_delta, si_dpsgd_epsilon

EPSILONS, DELTAS, NOISE = st.floats(0.01, 30.0), st.floats(1e-12, 0.1), st.floats(0.1, 100.0)


@settings(derandomize=True, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_noise_and_back(epsilon, delta):
    for formula in (classical_gaussian, analytic_gaussian):
        z = formula(epsilon=epsilon, delta=delta)
        assert formula(noise_multiplier=z, delta=delta) == pytest.approx(epsilon, rel=1e-6)
        assert formula(noise_multiplier=z, epsilon=epsilon) == pytest.approx(delta, rel=1e-5)


@settings(derandomize=True, deadline=None)
@given(noise=NOISE, delta=DELTAS)
def test_replace_one_is_twice_the_sensitivity(noise, delta):
    doubled = analytic_gaussian(noise_multiplier=2 * noise, delta=delta, neighbouring_relation="replace_one")
    assert doubled == pytest.approx(analytic_gaussian(noise_multiplier=noise, delta=delta), abs=1e-9)


@pytest.mark.parametrize(("z", "eps"), [(0.5, 1.0), (1.0, 3.0), (3.0, 0.1)])
def test_the_analytic_gaussian_is_the_integral(z, eps):
    def excess(x):
        return max(0.0, norm.pdf(x, 1, z) - math.exp(eps) * norm.pdf(x, 0, z))

    start = 0.5 + eps * z**2  # where the first density overtakes e^ε times the second
    assert analytic_gaussian(noise_multiplier=z, epsilon=eps) == pytest.approx(quad(excess, start, 1 + 12 * z)[0])


@pytest.mark.parametrize(("claimed", "true_delta"), [(1, 4.1e-8), (8, 8.0e-6), (10, 2.3e-5)])
def test_where_the_classical_formula_is_unsafe(claimed, true_delta):
    z = classical_gaussian(epsilon=claimed, delta=1e-5)
    assert float(f"{analytic_gaussian(noise_multiplier=z, epsilon=claimed):.1e}") == true_delta


@pytest.mark.parametrize(("claimed", "true", "digits"), [(1, 1.61, 2), (3, 5.6, 1), (7, 15.9, 1)])
def test_the_classical_formula_fails_at_once_under_replace_one(claimed, true, digits):
    z = classical_gaussian(epsilon=claimed, delta=1e-5)
    found = analytic_gaussian(noise_multiplier=z, delta=1e-5, neighbouring_relation="replace_one")
    assert round(found, digits) == true


def test_without_noise():
    for formula in (classical_gaussian, analytic_gaussian):
        assert formula(noise_multiplier=0, delta=1e-5) == math.inf
        assert formula(noise_multiplier=0, epsilon=1.0) == 1.0
    assert analytic_gaussian(noise_multiplier=1e-160, delta=1e-5) == math.inf
    assert math.isfinite(analytic_gaussian(noise_multiplier=1e-150, delta=1e-5))


def test_far_beyond_any_budget_delta_is_0():
    for formula in (classical_gaussian, analytic_gaussian):
        assert formula(noise_multiplier=1e10, epsilon=1e200) == 0.0


@pytest.mark.parametrize("formula", [classical_gaussian, analytic_gaussian])
@pytest.mark.parametrize("values", [{}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-5, "noise_multiplier": 1.0}])
def test_exactly_one_is_left_out(formula, values):
    with pytest.raises(ValueError, match="expected two of the three; got"):
        formula(**values)


@pytest.mark.parametrize("eps", [0.3, 1.0, 2.0, 3.0])
def test_si_dpsgd_is_the_integral(eps):
    steps, q, z = 6, 0.3, 1.5
    counts = np.arange(steps + 1)

    def mixture(x):
        return float(np.sum(binom.pmf(counts, steps, q) * norm.pdf(x, counts, z)))

    def excess(first, second):
        def integrand(x):
            return max(0.0, first(x) - math.exp(eps) * second(x))

        return quad(integrand, -15, 22, limit=500, epsabs=1e-10)[0]

    worse = max(excess(mixture, lambda x: norm.pdf(x, 0, z)), excess(lambda x: norm.pdf(x, 0, z), mixture))
    setting = {"noise_multiplier": z, "sampling_prob": q, "steps": steps}
    assert si_dpsgd_delta(epsilon=eps, **setting) == pytest.approx(worse, abs=1e-6)
    assert si_dpsgd_epsilon(**setting, delta=worse) == pytest.approx(eps, abs=1e-4)


def test_si_dpsgd_with_full_batches_is_one_query_of_sensitivity_t():
    one = analytic_gaussian(noise_multiplier=5.0 / 7, delta=1e-5)
    assert si_dpsgd_epsilon(noise_multiplier=5.0, sampling_prob=1.0, steps=7) == pytest.approx(one, rel=1e-6)


def test_si_dpsgd_transcript_by_hand():
    """Two epochs of three batches: one participation in the first three outputs, two in the others."""
    mu = math.sqrt(3 * 1 + 3 * 4) / 2.0
    found = si_dpsgd_epsilon(noise_multiplier=2.0, sampling_prob=1 / 3, steps=6, released="transcript")
    assert found == pytest.approx(analytic_gaussian(noise_multiplier=1 / mu, delta=1e-5))
    delta = si_dpsgd_delta(epsilon=found, noise_multiplier=2.0, sampling_prob=1 / 3, steps=6, released="transcript")
    assert delta == pytest.approx(1e-5)


def test_si_dpsgd_is_never_below_dpsgd():
    for steps in (1, 10, 100):
        setting = {"noise_multiplier": 2.0, "sampling_prob": 0.1, "steps": steps}
        assert si_dpsgd_epsilon(**setting) >= epsilon(**setting) - 1e-3


@pytest.mark.parametrize("released", ["last", "transcript"])
def test_si_dpsgd_at_the_ends(released):
    kind = {"sampling_prob": 0.1, "released": released}
    assert si_dpsgd_epsilon(noise_multiplier=1.0, steps=0, **kind) == 0.0
    assert si_dpsgd_epsilon(noise_multiplier=0.0, steps=5, **kind) == math.inf
    assert si_dpsgd_delta(epsilon=1.0, noise_multiplier=1.0, steps=0, **kind) == 0.0
    assert si_dpsgd_delta(epsilon=1.0, noise_multiplier=0.0, steps=5, **kind) == 1.0
    with pytest.raises(ValueError, match="released: expected one of last, transcript; got 'all'"):
        si_dpsgd_epsilon(noise_multiplier=1.0, sampling_prob=0.1, steps=5, released="all")


def test_si_dpsgd_with_little_noise_and_many_participations_is_finite_and_large():
    """An ε of more than 100, where e^ε and the tails leave the range of floats on the way."""
    setting = {"noise_multiplier": 0.763, "sampling_prob": 256 / 60_000, "steps": 2808}
    epsilon = si_dpsgd_epsilon(**setting)
    assert 100 < epsilon < 1000
    assert si_dpsgd_delta(epsilon=epsilon, **setting) == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize("epsilon", [1e8, 1e14])
def test_noise_for_an_astronomical_budget_is_not_too_little(epsilon):
    """A σ of 1e-7 that is 1e-12 too small has a δ of 1."""
    z = analytic_gaussian(epsilon=epsilon, delta=1e-5)
    assert analytic_gaussian(epsilon=epsilon, noise_multiplier=z) <= 1e-5
