"""Lower bounds on ε: never above the truth, by an exact count, and not far below it where the truth is known."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
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


@pytest.mark.parametrize("bound", [bounds.one_run, bounds.threshold])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0])
def test_it_exceeds_the_truth_no_more_often_than_it_may(bound, mu):
    exceeded = sum(bound(*gaussian(mu, 2000, seed), delta=DELTA) > truth(mu) for seed in range(40))
    assert exceeded <= binom.ppf(0.999, 40, 0.05)


@pytest.mark.parametrize("mu", [0.3, 1.0, 1.5])
def test_many_runs_of_the_gaussian_mechanism_reach_half_of_its_epsilon(mu):
    found = bounds.threshold(*gaussian(mu, 1_000_000, 0), delta=DELTA)
    assert 0.5 * truth(mu) < found <= truth(mu)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_one_run_of_the_gaussian_mechanism_reaches_a_quarter_of_its_epsilon(mu):
    found = bounds.one_run(*gaussian(mu, 20_000, 0), delta=DELTA)
    assert 0.25 * truth(mu) < found <= truth(mu)


@pytest.mark.parametrize("bound", [bounds.one_run, bounds.threshold])
def test_scores_that_know_nothing_find_nothing(bound):
    included = np.arange(2000) % 3 == 0
    assert bound(np.zeros(2000), included, delta=DELTA) == 0.0
    assert bound(np.random.default_rng(0).normal(size=2000), included, delta=DELTA) < 0.1


def test_the_p_value_of_pure_dp_is_the_binomial_tail():
    """With δ = 0: r guesses by randomised response, each right with probability e^ε/(1 + e^ε)."""
    for epsilon, guesses, right in ((1.0, 50, 45), (0.5, 10, 9), (3.0, 100, 100)):
        expected = binom.sf(right - 1, guesses, math.exp(epsilon) / (1 + math.exp(epsilon)))
        assert bounds._p_value(1000, guesses, right, 0.0, epsilon) == pytest.approx(expected)


def test_the_p_value_with_delta_is_the_theorem_term_by_term():
    examples, guesses, right, delta, epsilon = 200, 30, 27, 1e-3, 1.2
    law = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    alpha = max(sum(law.pmf(right - j) for j in range(1, i + 1)) / i for i in range(1, right + 1))
    expected = law.sf(right - 1) + 2 * examples * delta * alpha
    assert bounds._p_value(examples, guesses, right, delta, epsilon) == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("included", [True, False])
def test_a_handful_of_guesses_show_nothing(count, included):
    """Right by luck alone with probability 2^−count at least."""
    assert bounds.one_run(np.arange(count, dtype=float), np.full(count, included), delta=DELTA) == 0.0


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


def test_a_threshold_that_separates_gives_the_clopper_pearson_bound():
    """n of n included above, 0 of n others: ε ≥ log((p − δ)/(1 − p)) with p^n = (1 − confidence)/2."""
    included = np.arange(4000) % 4 < 2  # among the odd ones, on which it is judged, as many of either kind
    found = bounds.threshold(included + np.random.default_rng(0).random(4000) / 10, included, delta=DELTA)
    p = 0.025 ** (1 / 1000)
    assert found == pytest.approx(math.log((p - DELTA) / (1 - p)), rel=0.05)


def test_the_bounds_end_where_notebook_06_says():
    """Whatever is hidden: every guess right, and as many canaries in as out."""
    included = np.arange(2000) < 1000
    assert 5.6 < bounds.one_run(included.astype(float), included, delta=DELTA) < 5.7
    for_one_run = np.arange(5000) < 2500  # as many as records have where batches have a fixed size
    assert 5.6 < bounds.one_run(for_one_run.astype(float), for_one_run, delta=DELTA) < 5.7
    many = np.arange(60_000) % 4 < 2
    scores = many + np.random.default_rng(0).random(60_000) / 10
    assert 8.1 < bounds.threshold(scores, many, delta=DELTA, confidence=0.975) < 8.2


def test_more_canaries_than_the_test_of_one_run_can_use_tell_it_less():
    """Each costs δ, and at most ``GUESSES`` are guessed."""
    found = [bounds.one_run(np.tile([1.0, 0.0], m), np.tile([True, False], m), delta=DELTA) for m in (2500, 30_000)]
    assert found[0] > found[1] + 1


def test_a_bound_of_more_confidence_is_lower():
    scores, included = gaussian(1.0, 20_000, 0)
    for bound in (bounds.one_run, bounds.threshold):
        at = [bound(scores, included, delta=DELTA, confidence=confidence) for confidence in (0.9, 0.95, 0.975)]
        assert at[0] > at[1] > at[2] > 0
        assert at[1] == bound(scores, included, delta=DELTA)


def test_a_threshold_is_judged_with_half_of_the_failures_for_either_rate():
    """Clopper and Pearson's, by their definition: at 100 of 500 the binomial tails are (1 − confidence)/2."""
    scores, included = np.zeros(1000), np.arange(1000) < 500
    scores[:300] = scores[500:600] = 1.0
    lower = brentq(lambda p: binom.sf(299, 500, p) - 0.025, 0, 1)
    upper = brentq(lambda p: binom.cdf(100, 500, p) - 0.025, 0, 1)
    for delta in (1e-5, 0.1):
        expected = max(math.log((lower - delta) / upper), math.log((1 - upper - delta) / (1 - lower)))
        assert bounds._at(0.5, scores, included, delta, 0.95) == pytest.approx(expected, rel=1e-6)


def test_the_other_direction_takes_delta_away_too():
    scores, included = np.zeros(1000), np.arange(1000) < 500
    scores[:490] = scores[500:700] = 1.0
    lower = brentq(lambda p: binom.sf(489, 500, p) - 0.025, 0, 1)
    upper = brentq(lambda p: binom.cdf(200, 500, p) - 0.025, 0, 1)
    expected = math.log((1 - upper - 0.1) / (1 - lower))
    assert expected > math.log((lower - 0.1) / upper)
    assert bounds._at(0.5, scores, included, 0.1, 0.95) == pytest.approx(expected, rel=1e-6)


def test_what_chose_the_threshold_does_not_judge_it():
    """Scores that tell the even ones apart, and say nothing of the odd ones."""
    draws = np.random.default_rng(0)
    included = draws.random(2000) < 0.5
    scores = np.where(np.arange(2000) % 2 == 0, included, draws.random(2000))
    assert bounds.threshold(scores, included, delta=1e-5) < 0.2


def test_delta_is_in_the_judgement():
    included = np.arange(4000) % 4 < 2
    scores = included + np.random.default_rng(0).random(4000) / 10
    p = 0.025 ** (1 / 1000)
    found = bounds.threshold(scores, included, delta=0.5)
    assert found == pytest.approx(math.log((p - 0.5) / (1 - p)), rel=0.05)


def test_a_threshold_may_be_where_few_look_excluded():
    """A tenth of the others is far below everything else: what is told is told there."""
    included = np.arange(40_000) % 4 < 2
    scores = np.random.default_rng(0).random(40_000) - 10.0 * (~included & (np.arange(40_000) % 20 == 6))
    scores[~included & (np.arange(40_000) % 20 == 7)] -= 10.0
    assert bounds.threshold(scores, included, delta=1e-5) > 4


def test_equal_scores_come_in_no_order_that_knows_the_coins():
    included = np.arange(2000) < 1000
    assert bounds.one_run(np.zeros(2000), included, delta=1e-5) < 0.1


def test_delta_is_counted_for_every_example_and_not_for_the_guesses_alone(monkeypatch):
    asked, p_value = [], bounds._p_value
    monkeypatch.setattr(bounds, "_p_value", lambda examples, *of: asked.append(examples) or p_value(examples, *of))
    bounds.one_run(np.arange(100.0), np.arange(100) > 49, delta=1e-5)
    assert set(asked) == {100}
