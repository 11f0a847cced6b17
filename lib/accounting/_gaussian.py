"""One Gaussian query: the classical formula, and the exact trade-off that shows where the classical one fails.

    >>> z = classical_gaussian(epsilon=1.0, delta=1e-5)
    >>> round(z, 3), round(analytic_gaussian(noise_multiplier=z, delta=1e-5), 3)
    (4.845, 0.751)
    >>> round(analytic_gaussian(noise_multiplier=z, delta=1e-5, neighbouring_relation="replace_one"), 2)  # not 1
    1.61

µ-GDP is the exact guarantee of telling N(µ, 1) from N(0, 1).  One query with noise multiplier z and sensitivity s is
s/z-GDP, and k of them together, chosen adaptively or not, are √k·s/z-GDP.
"""

import math

import numpy as np
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian
from scipy.stats import norm

from lib.accounting._event import Event, checked_delta, checked_epsilon

XTOL = 2e-12  # by which dp-accounting's σ may be too small: nothing, but where ε is astronomical
MOST_MU = 1e150  # beyond it ε, about µ²/2, is no float


def classical_gaussian(
    *, epsilon: float | None = None, delta: float | None = None, noise_multiplier: float | None = None
) -> float:
    """The textbook formula z = √(2 ln(1.25/δ))/ε (v1 equation 13, abadi section 3.1).  Leave one out; it is returned.

    Proved for ε < 1 and sensitivity C.  At δ = 1e-5 it happens to hold up to about ε = 8.4, beyond which its true δ is
    larger; under ``replace_one``, where the sensitivity is 2C, it fails at once.  Use :func:`analytic_gaussian`.
    Raises ``ValueError`` unless exactly two values in their ranges are given.
    """
    epsilon, delta, z = _two_of(epsilon, delta, noise_multiplier)
    if epsilon is None:
        return math.sqrt(2 * math.log(1.25 / delta)) / z if z else math.inf
    if delta is None:
        return min(1.0, 1.25 * math.exp(-epsilon * z * epsilon * z / 2))  # ** would raise where this is ∞
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def analytic_gaussian(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    neighbouring_relation: str = "add_or_remove_one",
) -> float:
    """The exact trade-off of Balle and Wang 2018 (1805.06530, theorem 8).  Leave one of the three out; it is returned.

    δ = Φ(s/2z − εz/s) − e^ε Φ(−s/2z − εz/s), with s = 1 under ``add_or_remove_one`` and s = 2 under ``replace_one``.
    Raises ``ValueError`` unless exactly two values in their ranges are given.
    """
    epsilon, delta, z = _two_of(epsilon, delta, noise_multiplier)
    sensitivity = Event(1.0 if z is None else z, 1.0, 1, neighbouring_relation=neighbouring_relation).sensitivity
    if z is None:
        with np.errstate(divide="ignore"):  # as in gdp_epsilon
            return sensitivity * (float(get_sigma_gaussian(epsilon, delta)) + XTOL)
    mu = sensitivity / z if z else math.inf
    return gdp_epsilon(mu, delta) if epsilon is None else gdp_delta(mu, epsilon)


def gdp_epsilon(mu: float, delta: float) -> float:
    """ε at ``delta`` of a µ-GDP mechanism; ∞ beyond ``MOST_MU``."""
    if mu > MOST_MU:
        return math.inf
    with np.errstate(divide="ignore"):  # it takes the logarithm of 0 where ε is astronomical, and means it
        return float(get_epsilon_gaussian(1 / mu, delta))


def gdp_delta(mu: float, epsilon: float) -> float:
    """δ at ``epsilon`` of a µ-GDP mechanism; 1 where µ is ∞."""
    return float(gdp_deltas(np.array(mu), epsilon))


def gdp_deltas(mu: np.ndarray, epsilon: float) -> np.ndarray:
    """δ at ``epsilon`` for every µ: Φ(µ/2 − ε/µ) − e^ε Φ(−µ/2 − ε/µ)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # where µ is 0, and so δ
        second = np.exp(np.minimum(epsilon + norm.logcdf(-mu / 2 - epsilon / mu), 0.0))  # since e^ε alone overflows
        deltas = norm.cdf(mu / 2 - epsilon / mu) - second
    return np.where(mu > 0, np.maximum(deltas, 0.0), 0.0)


def _two_of(epsilon: float | None, delta: float | None, z: float | None) -> tuple[float | None, ...]:
    given = sum(value is not None for value in (epsilon, delta, z))
    if given != 2:
        raise ValueError(f"epsilon, delta, noise_multiplier: expected two of the three; got {given}")
    return (
        None if epsilon is None else checked_epsilon(epsilon),
        None if delta is None else checked_delta(delta),
        None if z is None else Event(z, 1.0, 1).noise_multiplier,
    )
