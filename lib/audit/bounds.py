"""From guesses to a lower bound on ε: two tests that hold with a stated confidence, whatever the attack.

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
from scipy.stats import beta as beta_distribution
from scipy.stats import binom

CONFIDENCE = 0.95
LARGEST = 100.0  # ε up to which is searched
GUESSES = (10, 30, 100, 300, 1000, 10_000)  # as many examples as included, and as not; all of them, if there are fewer


def one_run(scores: np.ndarray, included: np.ndarray, *, delta: float, confidence: float = CONFIDENCE) -> float:
    """ε of one run with many canaries, (m,) scores and coins: Steinke et al. 2023 (2305.08846, theorem 5.2).

    The examples with the highest scores are guessed to be included, as many with the lowest not to be.  If v of r
    guesses are right, a run that is (ε, δ)-DP for adding or removing one example does so well with probability at most
    ``p = β + 2mδ·α``, β = P(B ≥ v), α = max_{1≤i≤v} P(v − i ≤ B < v)/i, B ~ Bin(r, e^ε/(1 + e^ε)).  The numbers of
    guesses that are tried, ``GUESSES`` and those with high scores alone, share 1 − ``confidence``.
    """
    count = len(scores)
    shuffled = np.random.default_rng(0).permutation(count)  # equal scores come in no order that knows the coins
    order = shuffled[np.argsort(-scores[shuffled], kind="stable")]
    right_above, right_below = np.cumsum(included[order]), np.cumsum(~included[order[::-1]])
    tried = list(_guesses(count))
    failure = (1 - confidence) / len(tried)
    best = 0.0
    for above, below in tried:
        right = int(right_above[above - 1]) + (int(right_below[below - 1]) if below else 0)
        best = max(best, _largest(partial(_p_value, count, above + below, right, delta), failure))
    return best


def _guesses(count: int) -> Iterator[tuple[int, int]]:
    """(included, excluded) guesses."""
    for guesses in sorted({max(1, min(guesses, count // 2)) for guesses in GUESSES}):
        if 2 * guesses <= count:  # of one example alone, one guess
            yield guesses, guesses
        yield guesses, 0


def _p_value(examples: int, guesses: int, right: int, delta: float, epsilon: float) -> float:
    """How likely so many right guesses are at most, under (ε, δ)-DP."""
    probability = 1 / (1 + math.exp(-epsilon))
    beta = binom.sf(right - 1, guesses, probability)
    if right == 0:
        return 1.0
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, probability))
    alpha = float(np.max(below / np.arange(1, right + 1)))
    return min(1.0, float(beta) + 2 * examples * delta * alpha)


def threshold(scores: np.ndarray, included: np.ndarray, *, delta: float, confidence: float = CONFIDENCE) -> float:
    """ε of many independent runs: the threshold test with Clopper and Pearson's intervals.

    An (ε, δ)-DP mechanism has TPR ≤ e^ε FPR + δ and 1 − FPR ≤ e^ε (1 − TPR) + δ at every threshold.  The threshold is
    chosen on the runs with even numbers and judged on the odd ones; either rate's bound fails with probability at most
    (1 − ``confidence``)/2.
    """
    even, shares = np.arange(len(scores)) % 2 == 0, np.geomspace(1e-4, 0.5, 40)
    candidates = np.quantile(scores[even], np.concatenate([shares, 1 - shares]))
    # The best of many looks better than it is: it is chosen at a confidence that all of them share.
    shared = 1 - (1 - confidence) / len(candidates)
    chosen = max(candidates, key=lambda at: _at(at, scores[even], included[even], delta, shared))
    return max(0.0, _at(chosen, scores[~even], included[~even], delta, confidence))


def _at(at: float, scores: np.ndarray, included: np.ndarray, delta: float, confidence: float) -> float:
    """The larger of the ε of both directions at one threshold."""
    failure = (1 - confidence) / 2
    hits, members = int(np.sum(scores[included] > at)), int(np.sum(included))
    false, others = int(np.sum(scores[~included] > at)), int(np.sum(~included))
    true_at_least, false_at_most = _lower(hits, members, failure), _upper(false, others, failure)
    return max(
        _log_ratio(true_at_least - delta, false_at_most),
        _log_ratio(1 - false_at_most - delta, 1 - true_at_least),
    )


def _log_ratio(numerator: float, denominator: float) -> float:
    return math.log(numerator / denominator) if numerator > 0 else -math.inf


def _lower(successes: int, trials: int, failure: float) -> float:
    return 0.0 if successes == 0 else float(beta_distribution.ppf(failure, successes, trials - successes + 1))


def _upper(successes: int, trials: int, failure: float) -> float:
    return 1.0 if successes == trials else float(beta_distribution.ppf(1 - failure, successes + 1, trials - successes))


def _largest(p_value: Callable[[float], float], failure: float) -> float:
    """The largest ε that is refuted: ``p_value`` rises with ε and is at most ``failure`` below it."""
    if p_value(0.0) > failure:
        return 0.0
    if p_value(LARGEST) <= failure:
        return LARGEST
    return max(0.0, brentq(lambda epsilon: p_value(epsilon) - failure, 0.0, LARGEST, xtol=1e-6) - 1e-6)
