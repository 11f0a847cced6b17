"""A lower bound on ε of shuffled batches, which shows how far from Poisson samples they may be.

    >>> round(shuffled_epsilon_at_least(noise_multiplier=0.5, steps_per_epoch=1000, delta=1e-5), 2)
    10.0
    >>> from lib.accounting import epsilon
    >>> round(epsilon(noise_multiplier=0.5, sampling_prob=1e-3, steps=1000), 2)  # Poisson samples, as many
    3.24

One epoch of T batches of a permuted data set, under the noise zC.  Let every other example have a gradient of length C
in one direction, and the example that differs one of length C in the opposite direction, or, its place left empty,
none.  Measured from a sum of the others alone and in units of the noise, the batch with it is shifted by 2/z, without
it by 1/z; whichever of the T it is, that some output is beyond t has the probability

    ``P(t) = 1 − Φ(t − 2/z) Φ(t)^(T−1)``  with it and  ``Q(t) = 1 − Φ(t − 1/z) Φ(t)^(T−1)``  without it;

δ(ε) ≥ P(t) − e^ε Q(t), so that ``ε ≥ ln((P(t) − δ)/Q(t))`` for every t.  What the outputs tell beside their maximum
would make it larger.  Source of the pair and the event: Chua et al. 2024, 2403.17673; of more epochs, 2411.04205.
"""

import math

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import norm

from lib.accounting._event import check_count, check_positive, checked_delta

THRESHOLDS = 4001  # t that are tried, no two further apart than .02; each gives a bound
CERTAIN = 9.0  # standard deviations below 2/z where P is 1 but for rounding, so that a smaller t gives less


def shuffled_epsilon_at_least(*, noise_multiplier: float, steps_per_epoch: int, delta: float = 1e-5) -> float:
    """What ε at ``delta`` is at least, of an epoch of T = ``steps_per_epoch`` shuffled batches; 0 if it tells nothing.

    z is the noise's standard deviation ÷ C.  Every example is in one of the T batches, which may differ in size.  The
    bound holds under add or remove one, where :func:`lib.accounting.epsilon` by ``gdp`` is the upper one, equal for
    T = 1; and under replace one, as a gradient may be 0.  It is one of more epochs, too: they only release more.

    Raises ``ValueError`` naming what was expected and what came.
    """
    check_positive("noise_multiplier", noise_multiplier)
    check_count("steps_per_epoch", steps_per_epoch, least=1)
    delta, shift, others = checked_delta(delta), 1 / noise_multiplier, int(steps_per_epoch) - 1
    # Where the bound is best and positive, the densities of both maxima have a ratio of e^ε > 1, so t > 1.5/z; and
    # from the last t on, P is at most δ, since each of the T terms that it is less than is at most δ/T.
    first = max(1.5 * shift, 2 * shift - CERTAIN)
    t = np.linspace(first, 2 * shift + norm.isf(delta / (others + 1)), THRESHOLDS)
    with_it, without_it = (_log_beyond(t, mean, others) for mean in (2 * shift, shift))
    seen = with_it > math.log(delta)
    found = with_it[seen] + np.log(-np.expm1(math.log(delta) - with_it[seen])) - without_it[seen]
    return float(np.max(found, initial=0.0))


def _log_beyond(t: np.ndarray, mean: float, others: int) -> np.ndarray:
    """ln of 1 − Φ(t − mean) Φ(t)^others, as 1 − Φ(t − mean) and the rest, so that no digits are lost far out."""
    with np.errstate(divide="ignore"):  # of the others where they are none, or too far for floats
        rest = np.log(-np.expm1(others * log_ndtr(t)))
    return np.logaddexp(log_ndtr(mean - t), log_ndtr(t - mean) + rest)
