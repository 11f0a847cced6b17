"""What balls-and-bins batches cost: simulated, integrated, and between what is known of other samplers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from lib import accounting
from lib.accounting import _balls_and_bins

BALLS = {"sampler": "balls_and_bins"}
UNHIDDEN = {"sampler": "shuffled", "accountant": "gdp"}  # a participation in every epoch, in a batch that is known


def of(z, batches, epochs=1, **how):
    return {"noise_multiplier": z, "sampling_prob": 1 / batches, "steps": batches * epochs, **how}


@pytest.mark.parametrize(
    ("z", "batches", "epochs", "epsilon"),
    [(0.6, 3, 2, 2.0), (1.0, 20, 5, 1.0), (1.0, 1, 3, 2.0), (2.0, 50, 20, 0.5), (4.0, 30, 100, 0.5), (0.4, 10, 3, 8.0)],
)
@pytest.mark.parametrize("removed", [True, False])
def test_it_is_what_drawn_outputs_tell(z, batches, epochs, epsilon, removed):
    """δ = E (1 − e^ε ÷ P/Q)₊ under P, which has the example in one batch of each epoch, or the same the other way."""
    generator, trainings = np.random.default_rng(0), 4_000_000 // (batches * epochs)
    losses = np.zeros(trainings)
    for _ in range(epochs):
        outputs = generator.standard_normal((trainings, batches))
        outputs[:, 0] += removed / z  # whichever it is, the loss is the same
        losses += np.log(np.exp(outputs / z - 0.5 / z**2).mean(axis=1)) * (1 if removed else -1)
    of_each = np.maximum(0.0, -np.expm1(epsilon - losses))
    drawn, error = of_each.mean(), of_each.std() / math.sqrt(trainings)
    (event,) = [accounting.Event(**of(z, batches, epochs), **BALLS)]
    loss = accounting.pld.composed((event,))
    pmf = loss._pmf_remove if removed else loss._pmf_add
    assert drawn - 4 * error < pmf.get_delta_for_epsilon(epsilon) < drawn * 1.01 + 4 * error


@pytest.mark.parametrize("z", [0.5, 1.0, 3.0])
def test_of_two_batches_it_is_an_integral_over_the_plane(z):
    x = np.linspace(-8, 1 / z + 8, 2001)
    one, two = np.meshgrid(x, x)
    without_it = norm.pdf(one) * norm.pdf(two)
    with_it = (norm.pdf(one - 1 / z) * norm.pdf(two) + norm.pdf(one) * norm.pdf(two - 1 / z)) / 2
    epoch, epsilons = _balls_and_bins.Epoch(z, 2), np.array([0.0, 0.3, 1.0])
    for found, (more, less) in ((epoch.remove, (with_it, without_it)), (epoch.add, (without_it, with_it))):
        for epsilon, delta in zip(epsilons, found(epsilons), strict=True):
            exact = np.trapezoid(np.trapezoid(np.maximum(0, more - math.exp(epsilon) * less), x), x)
            assert exact * (1 - 1e-5) < delta < exact * 1.003 + 1e-9


@pytest.mark.parametrize(("z", "batches"), [(0.3, 50), (1.0, 7), (1.1, 240), (4.0, 100_000)])
def test_the_sum_keeps_its_mean_and_nearly_its_variance(z, batches):
    """The probabilities sum to 1 with the example, and without; the variance is never below the exact one."""
    values, masses = _balls_and_bins._sum_of(z, batches)
    assert masses.sum() == pytest.approx(1, abs=1e-12 + 1e-15 * batches)
    assert masses @ values / batches == pytest.approx(1, abs=1e-12 + 1e-15 * batches)
    exact = math.expm1(1 / z**2) / batches
    assert exact < masses @ (values / batches) ** 2 - 1 < 1.005 * exact


@settings(derandomize=True, deadline=None, max_examples=8)
@given(z=st.floats(0.2, 20.0), batches=st.integers(1, 500), epochs=st.integers(1, 50))
def test_it_is_never_more_than_a_known_batch_costs(z, batches, epochs):
    found = accounting.epsilon(**of(z, batches, epochs), **BALLS)
    assert 0 <= found <= accounting.epsilon(**of(z, batches, epochs), **UNHIDDEN) * 1.01 + 0.01


@pytest.mark.parametrize("z", [0.01, 0.049])
def test_with_next_to_no_noise_it_is_what_a_known_batch_costs(z):
    known = accounting.epsilon(**of(z, 100, 3), **UNHIDDEN)
    assert accounting.epsilon(**of(z, 100, 3), **BALLS) == pytest.approx(known, rel=0.01)


def test_one_batch_of_all_is_the_gaussian_mechanism():
    known = accounting.epsilon(**of(2.0, 1, 30), **UNHIDDEN)
    assert accounting.epsilon(**of(2.0, 1, 30), **BALLS) == pytest.approx(known, rel=1e-4)


@pytest.mark.parametrize(("z", "batches", "epochs"), [(1.1, 240, 60), (4.0, 100, 100), (1.0, 58, 8), (7.1, 1875, 10)])
def test_it_is_a_little_less_than_poisson_samples_cost_and_much_less_than_shuffled_ones(z, batches, epochs):
    """At v1's settings, abadi's, that of TensorFlow Privacy's tutorial, and with batches of 1024 from 60,000."""
    found, poisson = (accounting.epsilon(**of(z, batches, epochs), **how) for how in (BALLS, {}))
    assert 0.9 * poisson < found < poisson
    shuffled = accounting.shuffled_epsilon_at_least(noise_multiplier=z, steps_per_epoch=batches, epochs=epochs)
    assert found < shuffled


def test_it_is_within_another_librarys_bounds():
    """PLD_accounting 2.0 (2602.17284), by its gaussian_allocation_epsilon_range to within .02: below and above."""
    assert 0.8833 < accounting.epsilon(**of(1.0, 58), **BALLS) < 0.8940


def test_noise_and_steps_are_found_from_epsilon():
    setting = {"sampling_prob": 1 / 58, **BALLS}
    z = accounting.noise_multiplier(epsilon=1.0, steps=58 * 8, **setting)
    assert 0.999 < accounting.epsilon(noise_multiplier=z, steps=58 * 8, **setting) <= 1
    steps = accounting.steps(epsilon=1.0, noise_multiplier=z, **setting)
    assert steps == 58 * 8  # a ninth epoch that is begun costs as much as a whole one


def test_an_epoch_that_is_begun_counts_and_is_shared_by_no_two_events():
    begun, whole = (accounting.epsilon(**of(1.0, 10, 3) | {"steps": steps}, **BALLS) for steps in (21, 30))
    assert begun == whole
    parts = [accounting.Event(z, 0.1, steps, **BALLS) for z, steps in ((1.0, 20), (2.0, 5))]
    assert accounting.composed_epsilon(parts) > accounting.composed_epsilon(parts[:1])
    message = "steps: expected whole epochs of 10 steps in all events of sampler 'balls_and_bins' but the last; got 5"
    with pytest.raises(ValueError, match=message):
        accounting.composed_epsilon(parts[::-1])


def test_no_accountant_covers_it_where_an_example_is_replaced():
    with pytest.raises(
        ValueError, match="no accountant here covers it, for sampler 'balls_and_bins' under 'replace_one'"
    ):
        accounting.epsilon(**of(1.0, 10), **BALLS, neighbouring_relation="replace_one")
