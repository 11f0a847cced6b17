"""The central-limit value of Gaussian DP that bc quotes: an approximation, neither an upper nor a lower bound.

    >>> from lib.accounting import epsilon
    >>> bc = {"sampler": "without_replacement", "neighbouring_relation": "replace_one", "accountant": "clt"}
    >>> round(epsilon(noise_multiplier=2 * 2.5 / 8**0.5, sampling_prob=64 / 54_000, steps=42_188, **bc), 2)
    2.09

T steps of sampling without replacement under replace-one are nearly µ-GDP with µ = √2·c·h(σ), c = q√T = √(E·m/N) and
h(σ)² = e^{1/σ²} Φ(3/2σ) + 3 Φ(−1/2σ) − 2, where σ is the noise ÷ the sensitivity 2C: σ = z/2.
Source: bc appendix B.1, after Dong, Roth and Su 2019 (1905.02383), corollary 5.4.
"""

import math

from scipy.stats import norm

from lib.accounting._event import Event, Events
from lib.accounting._gaussian import gdp_delta, gdp_epsilon

MATCHES = {("without_replacement", "replace_one")}
UPPER_BOUND = False


def epsilon(events: Events, delta: float) -> float:
    return gdp_epsilon(math.hypot(*map(mu, events)), delta)


def delta(events: Events, epsilon: float) -> float:
    return gdp_delta(math.hypot(*map(mu, events)), epsilon)


def mu(event: Event) -> float:
    """µ = √2·q·√T·h(σ)."""
    return math.sqrt(2 * event.steps) * event.sampling_prob * h(event.noise_multiplier / event.sensitivity)


def h(sigma: float) -> float:
    """h(σ) as above; ∞ where e^{1/σ²} overflows (σ below 0.038)."""
    if sigma**-2 > 700:
        return math.inf
    u = 1 / sigma / math.sqrt(2)  # Φ(3u/√2) + 3 Φ(−u/√2) − 2, as error functions, loses no digits where σ is large
    square = math.expm1(sigma**-2) * norm.cdf(1.5 / sigma) + (math.erf(1.5 * u) - 3 * math.erf(0.5 * u)) / 2
    return math.sqrt(max(0.0, float(square)))
