"""Privacy loss distributions against integrals that share no code with them, and what each sampler's bound covers."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom, norm, poisson

from lib import accounting
from lib.accounting._mixture import hockey_stick

Z, Q = 1.2, 0.1


def log_density(x, shifts, weights, z):
    return logsumexp(norm.logpdf(x, np.array(shifts), z), b=np.array(weights))


def loss(direction, x, z=Z, q=Q, shift=1.0):
    """log P(x)/Q(x) for P = (1−q) N(0) + q N(shift), Q = N(0), or the other way round."""
    value = np.logaddexp(math.log1p(-q), math.log(q) + (2 * shift * x - shift**2) / (2 * z**2))
    return value if direction == "remove" else -value


def density(direction, x, z=Z, q=Q, shift=1.0):
    base = norm.pdf(x, 0, z)
    return base * math.exp(loss("remove", x, z, q, shift)) if direction == "remove" else base


def one_step_delta(direction, eps, z=Z, q=Q, shift=1.0):
    """The hockey-stick divergence of one step, from where the loss crosses ε."""
    sign = 1 if direction == "remove" else -1
    if math.exp(sign * eps) <= 1 - q:  # the loss never gets there: all of the space, or none of it
        return max(0.0, -math.expm1(eps)) if direction == "remove" else 0.0
    crossing = (2 * z**2 * math.log((math.exp(sign * eps) - 1 + q) / q) + shift**2) / (2 * shift)
    mixed = (1 - q) * norm.sf(crossing, 0, z) + q * norm.sf(crossing, shift, z)
    if direction == "remove":
        return mixed - math.exp(eps) * norm.sf(crossing, 0, z)
    return norm.cdf(crossing, 0, z) - math.exp(eps) * (1 - mixed)


def two_step_delta(first, second, eps, **pair):
    """One step integrated over the other's output."""

    def integrand(x):
        return density(first, x, **pair) * one_step_delta(second, eps - loss(first, x, **pair), **pair)

    return quad(integrand, -14, 16, limit=400, epsabs=1e-12)[0]


@pytest.mark.parametrize("eps", [0.1, 0.5, 1.0, 2.0])
def test_poisson_steps_are_the_integral(eps):
    one = max(one_step_delta(way, eps) for way in ("remove", "add"))
    two = max(two_step_delta(way, way, eps) for way in ("remove", "add"))
    for steps, expected in ((1, one), (2, two)):
        found = accounting.delta(epsilon=eps, noise_multiplier=Z, sampling_prob=Q, steps=steps)
        assert expected <= found + 1e-10
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize(
    ("sampler", "relation"),
    [("poisson", "add_or_remove_one"), ("poisson", "replace_one"), ("without_replacement", "replace_one")],
)
def test_full_batches_are_one_gaussian(sampler, relation):
    run = {"noise_multiplier": 20.0, "sampling_prob": 1.0, "steps": 50, "neighbouring_relation": relation}
    exact = accounting.analytic_gaussian(
        noise_multiplier=20.0 / math.sqrt(50), delta=1e-5, neighbouring_relation=relation
    )
    assert accounting.epsilon(**run, sampler=sampler) == pytest.approx(exact, rel=1e-3)
    assert accounting.epsilon(**run, accountant="gdp") == exact


@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-10, 1e-12])
def test_rounding_over_many_steps_is_counted(delta):
    """20,000 Fourier transforms round away mass that matters beside a δ of 1e-12."""
    run = {"noise_multiplier": 50.0, "sampling_prob": 1.0, "steps": 20_000}
    found = accounting.epsilon(**run, delta=delta)
    assert found >= accounting.epsilon(**run, delta=delta, accountant="gdp")
    if math.isfinite(found):
        assert accounting.delta(**run, epsilon=found) == pytest.approx(delta, rel=1e-3)


def test_a_delta_below_the_rounding_has_no_epsilon():
    assert accounting.epsilon(noise_multiplier=50.0, sampling_prob=0.01, steps=20_000, delta=1e-12) == math.inf


@pytest.mark.parametrize("eps", [0.2, 1.0])
def test_poisson_under_replace_one_is_the_integral(eps):
    def excess(x):
        log_p = log_density(x, [0.0, 1.0], [1 - Q, Q], Z)
        log_q = log_density(x, [0.0, -1.0], [1 - Q, Q], Z)
        return max(0.0, math.exp(log_p) - math.exp(eps + log_q))

    expected = quad(excess, -14, 16, limit=400, epsabs=1e-12)[0]
    found = accounting.delta(
        epsilon=eps, noise_multiplier=Z, sampling_prob=Q, steps=1, neighbouring_relation="replace_one"
    )
    assert found == pytest.approx(expected, rel=1e-3)


def test_no_replaced_gradient_is_worse_than_the_opposite_one():
    """In the plane, by integration over a grid, for gradients inside the disk, and at 150° and more on its rim."""
    axis = np.arange(-9, 9, 0.1)
    plane = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)

    def density(gradient):
        return (1 - Q) * gaussian(np.zeros(2)) + Q * gaussian(gradient)

    def gaussian(mean):
        return np.exp(-((plane - mean) ** 2).sum(-1) / (2 * Z**2)) / (2 * math.pi * Z**2)

    def deltas(gradient, other):
        excess = density(gradient)[..., None] - density(other)[..., None] * np.exp([0.05, 0.2, 0.5, 1.0])
        return np.maximum(excess, 0).sum((0, 1)) * 0.1**2

    draws = np.random.default_rng(0)
    inside = draws.normal(size=(12, 2, 2))
    inside *= draws.uniform(size=(12, 2, 1)) / np.linalg.norm(inside, axis=2, keepdims=True)
    angles = np.deg2rad([150, 170])
    rim = np.stack([np.tile([1.0, 0.0], (2, 1)), np.stack([np.cos(angles), np.sin(angles)], -1)], 1)
    worst = deltas(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    for gradient, other in [*inside, *rim]:
        assert (deltas(gradient, other) < worst).all()


@pytest.mark.parametrize(("z", "delta"), [(1e5, 1e-8), (1e4, 1e-7), (1e3, 1e-6)])
def test_rounding_does_not_drown_losses_that_are_tiny(z, delta):
    """So much noise that many steps are Gaussian."""
    found = accounting.epsilon(noise_multiplier=z, sampling_prob=1e-3, steps=10_000, delta=delta)
    exact = accounting.gdp_epsilon(1e-3 * math.sqrt(10_000) / z, delta)
    assert exact < found < 1.001 * exact


WITHOUT_REPLACEMENT = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}


@pytest.mark.parametrize("eps", [0.1, 0.5, 1.0, 2.0])
def test_without_replacement_covers_every_order_of_directions(eps):
    """The example that looks unusual may be one neighbour's in one step and the other's in the next."""
    run = {"noise_multiplier": 2 * Z, "sampling_prob": Q, "epsilon": eps} | WITHOUT_REPLACEMENT
    one = max(one_step_delta(way, eps) for way in ("remove", "add"))
    assert accounting.delta(**run, steps=1) == pytest.approx(one, rel=1e-3, abs=1e-9)
    orders = [("remove", "remove"), ("add", "add"), ("remove", "add")]
    worst = max(two_step_delta(*order, eps) for order in orders)
    assert worst <= accounting.delta(**run, steps=2) <= 1.5 * worst + 1e-6


@pytest.mark.parametrize(("q", "eps"), [(0.5, 0.5), (0.2, 0.3)])
def test_without_replacement_no_order_of_directions_is_a_bound(q, eps):
    """All other gradients are C or all are −C, as an adversary has chosen who sees the first step: once its loss is
    beyond ε the reverse pair tells more, so they are turned around."""
    pair = {"z": 1.0, "q": q}

    def integrand(x):
        left = eps - loss("remove", x, **pair)
        return density("remove", x, **pair) * max(one_step_delta(way, left, **pair) for way in ("remove", "add"))

    told = quad(integrand, -14, 16, limit=400, epsabs=1e-12)[0]
    orders = [("remove", "remove"), ("add", "add"), ("remove", "add")]
    assert told > 1.03 * max(two_step_delta(*order, eps, **pair) for order in orders)
    run = {"noise_multiplier": 2.0, "sampling_prob": q, "epsilon": eps} | WITHOUT_REPLACEMENT
    assert told < accounting.delta(**run, steps=2) < 1.05 * told


def test_without_replacement_is_more_than_either_direction_alone():
    alone = accounting.epsilon(noise_multiplier=1.0, sampling_prob=0.1, steps=100)
    joined = accounting.epsilon(noise_multiplier=2.0, sampling_prob=0.1, steps=100, **WITHOUT_REPLACEMENT)
    assert joined > 1.05 * alone
    assert joined < accounting.epsilon(
        noise_multiplier=2.0, sampling_prob=0.1, steps=100, accountant="rdp", **WITHOUT_REPLACEMENT
    )


def test_hardly_any_noise_comes_without_a_warning():
    """k participations cost kµ²/2 and little more, µ = 2/z, for the largest k that δ does not exclude."""
    z, q, steps = 0.02, 64 / 1297, 20
    found = accounting.epsilon(noise_multiplier=z, sampling_prob=q, steps=steps, **WITHOUT_REPLACEMENT)
    assert found == pytest.approx(binom.isf(1e-5, steps, q) * (2 / z) ** 2 / 2, rel=0.01)


@pytest.mark.parametrize("batch_size", [1, 3, 30])
def test_with_replacement_covers_every_batch_size(batch_size):
    """An example drawn k times displaces k others; the bound knows only q = L/N."""
    eps, z, times = 1.0, 3.0, np.arange(batch_size + 1)
    weights = binom.pmf(times, batch_size, Q / batch_size)

    def integrand(x):
        mixture = math.exp(log_density(x, 2.0 * times, weights, z))
        return max(0.0, mixture - math.exp(eps) * norm.pdf(x, 0, z))

    exact = quad(integrand, 0, 60, limit=500, epsabs=1e-12)[0]
    found = accounting.delta(epsilon=eps, noise_multiplier=z, sampling_prob=Q, steps=1, sampler="with_replacement")
    assert exact <= found * (1 + 1e-6)


def test_with_replacement_is_the_integral_of_its_pair():
    """Two steps of the mixture that one_step holds, one integrated over the other's output."""
    eps, z, rate, times = 0.5, 4.0, -math.log1p(-Q), np.arange(12)
    shifts, weights = 2.0 * times, poisson.pmf(times, rate)

    def loss_at(x):
        return logsumexp((shifts * x - shifts**2 / 2) / z**2, b=weights)

    def one(budget):
        if budget <= math.log(weights[0]):
            return -math.expm1(budget)
        crossing = brentq(lambda x: loss_at(x) - budget, -400, 900)
        return weights @ norm.sf(crossing, shifts, z) - math.exp(budget) * norm.sf(crossing, 0, z)

    def integrand(x):
        return norm.pdf(x, 0, z) * math.exp(loss_at(x)) * one(eps - loss_at(x))

    expected = quad(integrand, -45, 60, limit=400, epsabs=1e-12)[0]
    found = accounting.delta(epsilon=eps, noise_multiplier=z, sampling_prob=Q, steps=2, sampler="with_replacement")
    assert expected <= found + 1e-10
    assert found == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("away", [-9.0, -6.0, -0.5, 0.5, 6.0, 9.0])
@pytest.mark.parametrize(("z", "q"), [(1.0, 0.5), (2.0, 0.3)])
def test_both_tails_of_a_step_keep_their_digits(z, q, away):
    """At the ε that the loss has ``away`` standard deviations from 0, as a product that loses none."""
    x, shifts, weights = away * z, np.array([0.0, 1.0]), np.array([1 - q, q])
    eps = loss("remove", x, z, q)
    tails = log_ndtr(-away), np.logaddexp(math.log1p(-q) + log_ndtr(-away), math.log(q) + log_ndtr((1 - x) / z))
    heads = log_ndtr(away), np.logaddexp(math.log1p(-q) + log_ndtr(away), math.log(q) + log_ndtr((x - 1) / z))
    removed = math.exp(tails[1]) * -math.expm1(eps + tails[0] - tails[1])
    added = math.exp(heads[0]) * -math.expm1(heads[1] - eps - heads[0])
    for direction, exact, at in (("remove", removed, eps), ("add", added, -eps)):
        assert hockey_stick(np.array([at]), shifts, weights, z, direction)[0] == pytest.approx(
            exact, rel=1e-8, abs=1e-30
        )
