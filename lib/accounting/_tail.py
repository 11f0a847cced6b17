"""The exact δ of one Poisson sample; and where many of one pair have a larger δ than µ-GDP, far out in the tail.

An example of sensitivity 1 that is in a batch with probability q is in k given batches with probability q^k.  That
their outputs, as a sum, are beyond t then has the probability Q(t − √k/z), and without the example Q(t); Q is the
normal's survival function.  So

    ``δ(ε) ≥ q^k Q(t − √k/z) − e^ε Q(t)``  for every k and t,

whose tail is that of a Gaussian of mean √k/z: beyond any µ for k large enough, though only at a δ as small as q^k.
"""

import math

from scipy.special import log_ndtr

from lib.accounting._event import Event, check_positive, checked_epsilon

MOST = 10  # given batches
FARTHEST = 200  # the largest ε that is tried


def gdp_exceeded(
    *, mu: float, noise_multiplier: float, sampling_prob: float, steps: int
) -> tuple[float, float, float] | None:
    """The smallest whole ε at which the pair has a larger δ than µ-GDP: (ε, the pair's δ at least, µ-GDP's δ).

    None if there is none up to ε = 200, or no step.  Add or remove one; z is the noise's standard deviation ÷
    sensitivity.

    Raises ``ValueError`` naming what was expected and what came.
    """
    check_positive("mu", mu)
    check_positive("noise_multiplier", noise_multiplier)
    Event(noise_multiplier, sampling_prob, steps)  # which checks the others
    for epsilon in range(1, FARTHEST + 1):
        allowed = _log_gap(_log_q(epsilon / mu - mu / 2), epsilon + _log_q(epsilon / mu + mu / 2))
        batches = range(1, min(MOST, steps) + 1)
        found = max(
            (log_delta_at_least(epsilon, k, noise_multiplier, sampling_prob) for k in batches), default=-math.inf
        )
        if found > allowed:
            return float(epsilon), math.exp(found), math.exp(allowed)
    return None


def delta_of_one_step(*, epsilon: float, noise_multiplier: float, sampling_prob: float) -> float:
    """The exact δ(ε) of one Poisson sample: P of a mixture, (1 − q) N(0, z²) + q N(1, z²), against N(0, z²).

    That is (1 − q) Q(t) + q Q(t − 1/z) − e^ε Q(t), in units of z, beyond the t where the densities' ratio is e^ε: the
    larger of both directions (add or remove one).  :func:`lib.accounting.delta` gives an upper bound of it on a grid.

    Raises ``ValueError`` naming what was expected and what came.
    """
    check_positive("noise_multiplier", noise_multiplier)
    q, mean = Event(noise_multiplier, sampling_prob, 1).sampling_prob, 1 / noise_multiplier
    log_ratio = checked_epsilon(epsilon) + math.log1p(-(1 - q) * math.exp(-epsilon))  # e^ε − 1 + q
    t = (log_ratio - math.log(q)) / mean + mean / 2
    return math.exp(_log_gap(math.log(q) + _log_q(t - mean), log_ratio + _log_q(t)))


def log_delta_at_least(epsilon: float, batches: int, noise_multiplier: float, sampling_prob: float) -> float:
    """ln of the bound above for k = ``batches``, at the t where both densities, weighted so, are equal."""
    mean, log_prob = math.sqrt(batches) / noise_multiplier, batches * math.log(sampling_prob)
    t = (epsilon - log_prob) / mean + mean / 2
    return _log_gap(log_prob + _log_q(t - mean), epsilon + _log_q(t))


def _log_q(t: float) -> float:
    """ln Q(t); scipy.stats' takes a hundred times as long for one t."""
    return float(log_ndtr(-t))


def _log_gap(log_one: float, log_other: float) -> float:
    """ln(e^a − e^b), −∞ where b is not smaller."""
    return log_one + math.log1p(-math.exp(log_other - log_one)) if log_other < log_one else -math.inf
