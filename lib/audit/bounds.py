"""From guesses to a lower bound on ε: tests that hold with a stated confidence, whatever the attack.

Examples are included or not, by fair coins; an attack gives each a score, large where it looks included.

    >>> import numpy as np
    >>> included = np.arange(1000) % 2 == 0
    >>> round(one_run(included.astype(float), included, delta=1e-5), 1)  # every guess right
    5.1
    >>> one_run(np.zeros(1000), included, delta=1e-5)
    0.0
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

CONFIDENCE = 0.95
LARGEST = 100.0  # ε up to which is searched
SURELY = 1e-9  # how likely more coins are given away than are tried
GUESSES = (10, 30, 100, 300, 1000, 10_000)  # as many examples as included, and as not; all of them, if there are fewer

PValue = Callable[[int, int, int, float, float], float]  # of examples, guesses, right ones, δ and ε


def one_run(scores: np.ndarray, included: np.ndarray, *, delta: float, confidence: float = CONFIDENCE) -> float:
    """ε of one run with many canaries, (m,) scores and coins: Steinke et al. 2023 (2305.08846, theorem 5.2).

    The examples with the highest scores are guessed to be included, as many with the lowest not to be.  If v of r
    guesses are right, a run that is (ε, δ)-DP for adding or removing one example does so well with probability at most
    ``p = β + 2mδ·α``, β = P(B ≥ v), α = max_{1≤i≤v} P(v − i ≤ B < v)/i, B ~ Bin(r, e^ε/(1 + e^ε)).  The numbers of
    guesses that are tried, ``GUESSES`` and those with high scores alone, share 1 − ``confidence``.
    """
    return _most(_of_one_run, scores, included, delta, confidence)


def many_runs(scores: np.ndarray, included: np.ndarray, *, delta: float, confidence: float = CONFIDENCE) -> float:
    """ε where the m examples are in as many independent runs, by the same guesses.

    No (ε, δ)-DP mechanism tells of a coin more than randomised response, right with probability e^ε/(1 + e^ε), that
    with probability δ gives it away (Kairouz et al. 2015, 1311.0776).  So D ~ Bin(m, δ) of the coins are given away,
    whichever are guessed, and v of r guesses are right with probability at most ``min_d P(B ≥ v − d) + P(D > d)``,
    B ~ Bin(r − d, e^ε/(1 + e^ε)).
    """
    return _most(_of_many_runs, scores, included, delta, confidence)


def _most(p_value: PValue, scores: np.ndarray, included: np.ndarray, delta: float, confidence: float) -> float:
    """The largest ε that any number of guesses refutes."""
    count = len(scores)
    shuffled = np.random.default_rng(0).permutation(count)  # equal scores come in no order that knows the coins
    order = shuffled[np.argsort(-scores[shuffled], kind="stable")]
    right_above, right_below = np.cumsum(included[order]), np.cumsum(~included[order[::-1]])
    tried = list(_guesses(count))
    failure = (1 - confidence) / len(tried)
    best = 0.0
    for above, below in tried:
        right = int(right_above[above - 1]) + (int(right_below[below - 1]) if below else 0)
        best = max(best, _largest(partial(p_value, count, above + below, right, delta), failure))
    return best


def _guesses(count: int) -> Iterator[tuple[int, int]]:
    """(included, excluded) guesses."""
    for guesses in sorted({max(1, min(guesses, count // 2)) for guesses in GUESSES}):
        if 2 * guesses <= count:  # of one example alone, one guess
            yield guesses, guesses
        yield guesses, 0


def _of_one_run(examples: int, guesses: int, right: int, delta: float, epsilon: float) -> float:
    """How likely so many right guesses are at most, under (ε, δ)-DP."""
    probability = 1 / (1 + math.exp(-epsilon))
    beta = binom.sf(right - 1, guesses, probability)
    if right == 0:
        return 1.0
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, probability))
    alpha = float(np.max(below / np.arange(1, right + 1)))
    return min(1.0, float(beta) + 2 * examples * delta * alpha)


def _of_many_runs(examples: int, guesses: int, right: int, delta: float, epsilon: float) -> float:
    """The same, each example in a run of its own."""
    given_away = np.arange(1 + min(right, int(binom.ppf(1 - SURELY, examples, delta))))
    probability = 1 / (1 + math.exp(-epsilon))
    by_guessing = binom.sf(right - given_away - 1, guesses - given_away, probability)
    return min(1.0, float(np.min(by_guessing + binom.sf(given_away, examples, delta))))


def _largest(p_value: Callable[[float], float], failure: float) -> float:
    """The largest ε that is refuted: ``p_value`` rises with ε and is at most ``failure`` below it."""
    if p_value(0.0) > failure:
        return 0.0
    if p_value(LARGEST) <= failure:
        return LARGEST
    return max(0.0, brentq(lambda epsilon: p_value(epsilon) - failure, 0.0, LARGEST, xtol=1e-6) - 1e-6)
