"""What shuffled batches cost at least: simulated, integrated, and never more than what is proven."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from lib import accounting
from lib.accounting import _shuffled

SHUFFLED = {"sampler": "shuffled", "accountant": "gdp"}


def at_most(z, batches, delta, epochs=1, **how):
    run = {"noise_multiplier": z, "sampling_prob": 1 / batches, "steps": batches * epochs, "delta": delta}
    return accounting.epsilon(**run | SHUFFLED | how)


def poisson(z, batches, epochs):
    return accounting.epsilon(noise_multiplier=z, sampling_prob=1 / batches, steps=batches * epochs)


def at_least(z, batches, delta=1e-5, epochs=1):
    return accounting.shuffled_epsilon_at_least(noise_multiplier=z, steps_per_epoch=batches, epochs=epochs, delta=delta)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    z=st.floats(0.01, 100.0),
    batches=st.integers(1, 10**6),
    epochs=st.integers(1, 200),
    delta=st.floats(1e-12, 0.1),
)
def test_it_is_never_more_than_what_is_proven(z, batches, epochs, delta):
    found = at_least(z, batches, delta, epochs)
    assert 0 <= found <= at_most(z, batches, delta, epochs) * (1 + 1e-9) + 1e-9
    assert found <= at_most(z, batches, delta, epochs, neighbouring_relation="replace_one")


@pytest.mark.parametrize("z", [1e-3, 0.1, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("epochs", [1, 30])
def test_one_batch_of_all_examples_is_the_gaussian_mechanism(z, epochs):
    assert at_least(z, 1, epochs=epochs) == pytest.approx(at_most(z, 1, 1e-5, epochs), rel=3e-3)


@pytest.mark.parametrize("delta", [1e-13, 1e-15])
@pytest.mark.parametrize(("z", "epochs"), [(10.0, 200), (5.0, 1000), (3.0, 30)])
def test_what_composing_adds_by_rounding_is_no_part_of_it(z, epochs, delta):
    """At a δ so small that Fourier transforms may add as much."""
    exact = at_most(z, 1, delta, epochs)
    assert 0.8 * exact < at_least(z, 1, delta, epochs) <= exact


@pytest.mark.parametrize(
    ("z", "least", "most", "of_poisson"),
    [
        (0.5, 9.997, 9.997, 3.24),
        (0.7, 6.53, 6.65, 0.61),
        (1.0, 2.88, 4.38, 0.149),
        (2.0, 0.0943, 1.99, 0.050),
        (4.0, 0.0246, 0.926, 0.0216),
    ],
)
def test_a_thousand_batches(z, least, most, of_poisson):
    """With little noise the upper bound is reached, and three times Poisson's; with much it is more than Poisson's."""
    assert at_least(z, 1000) == pytest.approx(least, rel=0.01)
    assert at_most(z, 1000, 1e-5) == pytest.approx(most, rel=0.01)
    assert poisson(z, 1000, 1) == pytest.approx(of_poisson, rel=0.01)


@pytest.mark.parametrize(("z", "batches", "delta"), [(0.7, 1000, 1e-5), (0.5, 7, 1e-3), (0.3, 100, 1e-5)])
def test_with_little_noise_it_is_what_the_largest_output_tells(z, batches, delta):
    """The best of a fine grid of events {largest > t}, by the formula of the module's page."""
    t = np.linspace(-10, 30, 400_001)
    with_it, without_it = (
        norm.sf(t - k / z) + norm.cdf(t - k / z) * -np.expm1((batches - 1) * norm.logcdf(t)) for k in (2, 1)
    )
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


@pytest.mark.parametrize(
    ("z", "batches", "epochs", "delta"),
    [(0.6, 3, 2, 0.01), (1.0, 20, 5, 0.01), (2.0, 50, 20, 0.01), (4.0, 30, 100, 0.01), (0.4, 10, 3, 0.001)],
)
def test_all_outputs_together_tell_at_least_as_much(z, batches, epochs, delta):
    """Their own δ at that ε, from the exact ln P/Q of drawn outputs: no less than ``delta``, and not much more."""
    generator, trainings = np.random.default_rng(0), 2_000_000 // (batches * epochs)
    losses = np.zeros(trainings)
    for _ in range(epochs):
        outputs = generator.standard_normal((trainings, batches))
        outputs[:, 0] += 2 / z  # whichever it is, the loss is the same
        with_it, without_it = (np.exp(outputs * k / z - (k / z) ** 2 / 2).mean(axis=1) for k in (2, 1))
        losses += np.log(with_it / without_it)
    of_each = np.maximum(0.0, -np.expm1(at_least(z, batches, delta, epochs) - losses))
    found, error = of_each.mean(), of_each.std() / math.sqrt(trainings)
    assert delta - 3 * error < found < 1.5 * delta


def test_a_tutorials_shuffled_training_costs_several_times_what_is_counted():
    """TensorFlow Privacy's MNIST tutorial: z = 1.1, batches of 250 from 60,000, 60 epochs."""
    assert poisson(1.1, 240, 60) == pytest.approx(2.35, rel=0.01)
    assert at_least(1.1, 240, epochs=60) > 11.2


@pytest.mark.parametrize("z", [0.5, 0.8, 1.5, 4.0, 8.0])
def test_over_a_hundred_epochs_they_cost_more_than_poisson_samples(z):
    assert at_least(z, 100, epochs=100) > poisson(z, 100, 100)


@pytest.mark.parametrize("steps", [1, 2, 300, 100_001])
def test_the_sums_distribution_is_on_the_safe_side_of_rounding(steps, monkeypatch):
    """Against products without a Fourier transform: every term is positive, so that nothing cancels."""
    monkeypatch.setattr(_shuffled, "BUCKETS", size := 512)
    monkeypatch.setattr(_shuffled, "PER_SPREAD", 20)
    wrapped = (np.arange(size)[:, None] - np.arange(size)) % size
    power, (other, *own) = np.eye(size)[0], _shuffled._terms(1.0, steps)
    for digit in bin(steps - 1)[2:]:
        power = power[wrapped] @ power
        power = other[wrapped] @ power if digit == "1" else power
    without_it, with_it = (power[wrapped] @ of_one for of_one in own)
    lower, upper = (np.exp(found) for found in _shuffled._of_sum(1.0, steps))
    assert np.all(lower <= with_it)
    assert np.all(upper >= without_it)
    assert lower == pytest.approx(with_it, abs=1e-12)
    assert upper == pytest.approx(without_it, abs=1e-12)


def test_it_falls_with_noise_and_with_batches_rises_with_epochs_and_ends_at_0():
    by_noise = [at_least(z, 100) for z in (0.02, 0.5, 1.0, 2.0, 4.0)]
    assert by_noise == sorted(by_noise, reverse=True)
    by_batches = [at_least(1.0, batches) for batches in (1, 10, 100, 1000)]
    assert by_batches == sorted(by_batches, reverse=True)
    by_epochs = [at_least(1.0, 100, epochs=epochs) for epochs in (1, 2, 10, 100)]
    assert by_epochs == sorted(by_epochs)
    assert at_least(100.0, 10**6, 0.1) == 0.0
    assert at_least(0.1, 10, 1 - 1e-9) >= 0.0  # without a warning, which would be an error


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise_multiplier": 0.0}, r"^noise_multiplier: expected a finite number of more than 0; got 0.0$"),
        ({"steps_per_epoch": 0}, r"^steps_per_epoch: expected a whole number of at least 1; got 0$"),
        ({"steps_per_epoch": 2.5}, r"^steps_per_epoch: expected a whole number of at least 1; got 2.5$"),
        ({"epochs": 0}, r"^epochs: expected a whole number of at least 1; got 0$"),
        ({"delta": 1.0}, r"^delta: expected a number in \(0, 1\); got 1.0$"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        accounting.shuffled_epsilon_at_least(**{"noise_multiplier": 1.0, "steps_per_epoch": 10} | wrong)
