"""Lower bounds on ε: never above the truth, by an exact count, and not far below it where the truth is known."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from lib import accounting
from lib.audit import bounds

DELTA = 1e-5


def gaussian(mu: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a µ-GDP mechanism's canaries, with their coins."""
    draws = np.random.default_rng(seed)
    included = draws.random(count) < 0.5
    return draws.normal(size=count) + mu * included, included


def truth(mu: float) -> float:
    return accounting.analytic_gaussian(noise_multiplier=1 / mu, delta=DELTA)


@pytest.mark.parametrize("bound", [bounds.one_run, bounds.many_runs])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0])
def test_it_exceeds_the_truth_no_more_often_than_it_may(bound, mu):
    exceeded = sum(bound(*gaussian(mu, 2000, seed), delta=DELTA) > truth(mu) for seed in range(40))
    assert exceeded <= binom.ppf(0.999, 40, 0.05)


@pytest.mark.parametrize("mu", [0.3, 1.0, 1.5])
def test_many_runs_of_the_gaussian_mechanism_reach_half_of_its_epsilon(mu):
    found = bounds.many_runs(*gaussian(mu, 60_000, 0), delta=DELTA)
    assert 0.5 * truth(mu) < found <= truth(mu)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_one_run_of_the_gaussian_mechanism_reaches_a_quarter_of_its_epsilon(mu):
    found = bounds.one_run(*gaussian(mu, 20_000, 0), delta=DELTA)
    assert 0.25 * truth(mu) < found <= truth(mu)


@pytest.mark.parametrize("bound", [bounds.one_run, bounds.many_runs])
def test_scores_that_know_nothing_find_nothing(bound):
    included = np.arange(2000) % 3 == 0
    assert bound(np.zeros(2000), included, delta=DELTA) == 0.0
    assert bound(np.random.default_rng(0).normal(size=2000), included, delta=DELTA) < 0.1


def test_the_p_value_of_pure_dp_is_the_binomial_tail():
    """With δ = 0: r guesses by randomised response, each right with probability e^ε/(1 + e^ε)."""
    for epsilon, guesses, right in ((1.0, 50, 45), (0.5, 10, 9), (3.0, 100, 100)):
        expected = binom.sf(right - 1, guesses, math.exp(epsilon) / (1 + math.exp(epsilon)))
        assert bounds._of_one_run(1000, guesses, right, 0.0, epsilon) == pytest.approx(expected)


def test_the_p_value_with_delta_is_the_theorem_term_by_term():
    examples, guesses, right, delta, epsilon = 200, 30, 27, 1e-3, 1.2
    law = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    alpha = max(sum(law.pmf(right - j) for j in range(1, i + 1)) / i for i in range(1, right + 1))
    expected = law.sf(right - 1) + 2 * examples * delta * alpha
    assert bounds._of_one_run(examples, guesses, right, delta, epsilon) == pytest.approx(expected)


def revealing(epsilon: float, delta: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of randomised response that gives a coin away with probability δ: the worst that (ε, δ)-DP allows."""
    draws = np.random.default_rng(seed)
    included = draws.random(count) < 0.5
    told = included ^ (draws.random(count) > 1 / (1 + math.exp(-epsilon)))
    return np.where(draws.random(count) < delta, 4.0 * included - 2, 2.0 * told - 1), included


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (1.0, 1e-2), (1.0, 0.2)])
def test_of_the_worst_mechanism_many_runs_find_no_more_than_there_is(epsilon, delta):
    found = [bounds.many_runs(*revealing(epsilon, delta, 1000, seed), delta=delta) for seed in range(60)]
    assert sum(one > epsilon for one in found) <= binom.ppf(0.999, 60, 0.05)
    assert np.mean(found) > 0.5 * epsilon
    if delta > 0.1:  # were δ not taken away, it would be far too much
        unaware = [bounds.many_runs(*revealing(epsilon, delta, 1000, seed), delta=0.0) for seed in range(10)]
        assert all(one > epsilon for one in unaware)


def test_the_p_value_of_many_runs_is_that_of_the_worst_mechanism_term_by_term():
    examples, guesses, right, delta, epsilon = 200, 30, 27, 1e-3, 1.2
    p, given = 1 / (1 + math.exp(-epsilon)), binom(examples, delta)
    expected = min(binom.sf(right - d - 1, guesses - d, p) + given.sf(d) for d in range(7))
    assert bounds._of_many_runs(examples, guesses, right, delta, epsilon) == pytest.approx(expected)
    assert bounds._of_many_runs(examples, guesses, right, 0.0, epsilon) == pytest.approx(
        binom.sf(right - 1, guesses, p)
    )
    assert bounds._of_many_runs(examples, guesses, 0, delta, epsilon) == 1.0


def test_the_p_value_of_many_runs_is_no_less_than_what_the_worst_mechanism_does():
    """By its exact law: coins that are given away come first in the guesses."""
    examples, guesses, delta, epsilon = 60, 20, 0.05, 0.8
    p, given = 1 / (1 + math.exp(-epsilon)), binom(examples, delta)
    for right in range(guesses + 1):
        exact = sum(
            given.pmf(d) * binom.sf(right - min(d, guesses) - 1, guesses - min(d, guesses), p)
            for d in range(examples + 1)
        )
        assert exact <= bounds._of_many_runs(examples, guesses, right, delta, epsilon) + 1e-12


@pytest.mark.parametrize("bound", [bounds.one_run, bounds.many_runs])
def test_what_is_told_may_be_told_of_few(bound):
    """A hundred of the included stand out, and nothing else does."""
    included = np.arange(4000) % 2 == 0
    scores = np.random.default_rng(0).random(4000) + 10.0 * (np.arange(4000) < 200) * included
    assert bound(scores, included, delta=DELTA) > 1.5


def test_many_runs_show_more_than_one():
    for mu in (0.2, 0.5, 1.0):
        scores, included = gaussian(mu, 60_000, 0)
        of_one, of_many = (bound(scores, included, delta=DELTA) for bound in (bounds.one_run, bounds.many_runs))
        assert of_many > of_one > 0


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("included", [True, False])
def test_a_handful_of_guesses_show_nothing(count, included):
    """Right by luck alone with probability 2^−count at least."""
    for bound in (bounds.one_run, bounds.many_runs):
        assert bound(np.arange(count, dtype=float), np.full(count, included), delta=DELTA) == 0.0


def test_more_right_guesses_show_more():
    found = []
    for wrong in (0, 5, 20, 100):
        included = np.arange(1000) % 2 == 0
        scores = included.astype(float)
        scores[:wrong] = 1 - scores[:wrong]
        scores += np.linspace(0, 1e-6, 1000)
        found.append(bounds.one_run(scores, included, delta=DELTA))
    assert all(more >= less for more, less in pairwise(found))
    assert found[0] > found[-1] > 0


def test_the_bounds_end_where_notebook_06_says():
    """Whatever is hidden: every guess right, and as many canaries in as out."""
    included = np.arange(2000) < 1000
    assert 5.6 < bounds.one_run(included.astype(float), included, delta=DELTA) < 5.7
    for_one_run = np.arange(5000) < 2500  # as many as records have where batches have a fixed size
    assert 5.6 < bounds.one_run(for_one_run.astype(float), for_one_run, delta=DELTA) < 5.7
    many = np.arange(60_000) < 30_000
    assert 8.2 < bounds.many_runs(many.astype(float), many, delta=DELTA) < 8.21


def test_more_canaries_than_the_test_of_one_run_can_use_tell_it_less():
    """Each costs δ, and at most ``GUESSES`` are guessed."""
    found = [bounds.one_run(np.tile([1.0, 0.0], m), np.tile([True, False], m), delta=DELTA) for m in (2500, 30_000)]
    assert found[0] > found[1] + 1


def test_a_bound_of_more_confidence_is_lower():
    scores, included = gaussian(1.0, 20_000, 0)
    for bound in (bounds.one_run, bounds.many_runs):
        at = [bound(scores, included, delta=DELTA, confidence=confidence) for confidence in (0.9, 0.95, 0.975)]
        assert at[0] > at[1] > at[2] > 0
        assert at[1] == bound(scores, included, delta=DELTA)


def test_equal_scores_come_in_no_order_that_knows_the_coins():
    included = np.arange(2000) < 1000
    assert bounds.one_run(np.zeros(2000), included, delta=1e-5) < 0.1


def test_delta_is_counted_for_every_example_and_not_for_the_guesses_alone(monkeypatch):
    asked, p_value = [], bounds._of_one_run
    monkeypatch.setattr(bounds, "_of_one_run", lambda examples, *of: asked.append(examples) or p_value(examples, *of))
    bounds.one_run(np.arange(100.0), np.arange(100) > 49, delta=1e-5)
    assert set(asked) == {100}
