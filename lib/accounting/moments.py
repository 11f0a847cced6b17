"""abadi's moments accountant: log moments by numerical integration, λ up to 32, and the tail bound.

    >>> from lib.accounting import epsilon
    >>> round(epsilon(noise_multiplier=4.0, sampling_prob=0.01, steps=10_000, accountant="moments"), 2)
    1.26

With µ₀ = N(0, z²) and µ = (1 − q) N(0, z²) + q N(1, z²), one step has α(λ) = log max(E1, E2),
E1 = E_{µ₀}[(µ₀/µ)^λ], E2 = E_µ[(µ/µ₀)^λ] (abadi equations 3 and 4), T steps have T·α(λ), and
δ = min over λ of exp(T·α(λ) − λε) (theorem 2).  As λ ends at 32, ε never falls below ln(1/δ)/32: 0.36 at δ = 1e-5.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from lib.accounting._event import Events

MATCHES = {("poisson", "add_or_remove_one")}
UPPER_BOUND = True
ORDERS = np.arange(1, 33)  # λ


def epsilon(events: Events, delta: float) -> float:
    return float(np.min((_composed(events) + math.log(1 / delta)) / ORDERS))


def delta(events: Events, epsilon: float) -> float:
    return math.exp(min(0.0, float(np.min(_composed(events) - ORDERS * epsilon))))


def _composed(events: Events) -> np.ndarray:
    return sum(event.steps * log_moments(event.noise_multiplier, event.sampling_prob) for event in events)


@lru_cache(maxsize=256)
def log_moments(z: float, q: float) -> np.ndarray:
    """α(λ) of one step, shape (32,).

    The trapezoidal rule, in logarithms, over everything within 12 standard deviations of a peak of E2's, of which the
    last is near x = λ + 1 (E1's may lie below the grid where q is near 1; E2 is the larger: 1908.10530, theorem 5).
    For such integrands it converges exponentially in the step, here z/20.  For z < 0.01, where the grid would be huge
    and sampling helps little, the bound without sampling, λ(λ + 1)/2z².
    """
    if q == 1.0 or z < 0.01:
        return ORDERS * (ORDERS + 1) / (2 * z**2)
    x = np.arange(-12 * z, ORDERS[-1] + 1 + 12 * z, z / 20)
    log_base = -(x**2) / (2 * z**2) - math.log(z * math.sqrt(2 * math.pi)) + math.log(z / 20)  # log µ₀(x) dx
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * z**2))  # log µ(x)/µ₀(x)
    both = [(logsumexp(log_base - k * log_ratio), logsumexp(log_base + (k + 1) * log_ratio)) for k in ORDERS]
    return np.maximum(0.0, np.max(both, axis=1))


def leading_log_moments(z: float, q: float) -> np.ndarray:
    """The leading term of abadi's bound α(λ) ≤ q²λ(λ + 1)/((1 − q)z²) + O(q³/z³) of one step, shape (32,).

    No bound by itself, and nothing is counted by it: the rest has no constant, and all of it needs z ≥ 1, q < 1/(16z)
    and λ ≤ z² ln(1/(qz)).  Expects z > 0 and q < 1.  Source: abadi section 3.2, after equation 4; what it needs is in
    lemma 3 of the full version, 1607.00133.
    """
    return q**2 * ORDERS * (ORDERS + 1) / ((1 - q) * z**2)
