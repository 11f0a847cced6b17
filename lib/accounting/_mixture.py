"""A mixture of Gaussians against one Gaussian: P = Σ_k w_k N(c_k, z²) against N(0, z²), with c_0 = 0 and c_k ≥ 0.

The pair of an example whose contribution is random: drawn several times, or added up over a run.

    >>> import numpy as np
    >>> float(hockey_stick(np.array([1.0]), np.array([0.0, 1.0]), np.array([0.5, 0.5]), 1.0, "remove")[0].round(6))
    0.028868

Its privacy loss log Σ_k w_k exp((c_k x − c_k²/2)/z²) increases with x, so the hockey-stick divergence is a difference
of two tails, at the x where the loss is ε.  dp-accounting 0.6.0 has this pair too, but looks for x between those of
the smallest and of the largest c alone.  The exponent is concave in c, so x may lie outside, and δ comes out too small:
0.08 for 0.32 at ε = 9.1 with v1's CIFAR settings.
"""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm


def hockey_stick(epsilons: np.ndarray, shifts: np.ndarray, weights: np.ndarray, z: float, direction: str) -> np.ndarray:
    """δ at every ε, shape (E,): of P against N(0, z²) ("remove") or of N(0, z²) against P ("add")."""
    # As differences of like tails, which keep their digits where P and N(0, z²) hardly differ.  Where the loss reaches
    # its target, e^ε times the second probability is at most the first: the exponents below are cut at 0 for those ε
    # alone that no loss reaches, where they are not used and would overflow.
    target = epsilons if direction == "remove" else -epsilons
    x = _where_loss_is(target, shifts, weights, z)[:, None]  # (E, 1)
    above = norm.sf(x, shifts[1:], z) - norm.sf(x, 0.0, z)
    below = norm.cdf(x, 0.0, z) - norm.cdf(x, shifts[1:], z)
    moved = np.where(x > 0, above, below) @ weights[1:]  # how much likelier it is to be above x under P
    if direction == "remove":
        log_second, nowhere = norm.logsf(x[:, 0], 0.0, z), -np.expm1(np.minimum(epsilons, 0.0))
    else:
        log_second, nowhere = logsumexp(norm.logcdf(x, shifts, z), axis=1, b=weights), 0.0
    beyond = np.exp(np.minimum(epsilons + log_second, 0.0)) - np.exp(log_second)
    beyond = np.where(epsilons < 1, np.expm1(np.minimum(epsilons, 1.0)) * np.exp(log_second), beyond)
    return np.clip(np.where(target <= np.log(weights[0]), nowhere, moved - beyond), 0.0, 1.0)


def loss(x: np.ndarray, shifts: np.ndarray, weights: np.ndarray, z: float) -> np.ndarray:
    """log P(x) ÷ N(0, z²)(x), shape that of x."""
    return logsumexp((shifts * x[..., None] - shifts**2 / 2) / z**2, axis=-1, b=weights)


def largest_loss(shifts: np.ndarray, weights: np.ndarray, z: float, negligible: float) -> float:
    """The loss that P exceeds with at most ``negligible`` probability."""
    x = np.linspace(0.0, shifts[-1] + 10 * z, 2_000)
    return float(loss(x[norm.sf(x[:, None], shifts, z) @ weights > negligible][-1:] + x[1], shifts, weights, z)[0])


def _where_loss_is(target: np.ndarray, shifts: np.ndarray, weights: np.ndarray, z: float) -> np.ndarray:
    """x with loss(x) = target; anything where no loss is so small.

    By formula for a mixture of two, else by bisection within 40 z of the shifts: beyond, the tails are 0 or 1.
    """
    if len(shifts) == 2:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            excess = target + np.log(-np.expm1(np.log(weights[0]) - target))  # log(e^target − w_0)
        return (z**2 * (excess - np.log(weights[1])) + shifts[1] ** 2 / 2) / shifts[1]
    low, high = np.full_like(target, -40 * z), np.full_like(target, shifts[-1] + 40 * z)
    for _ in range(60):
        middle = (low + high) / 2
        below = loss(middle, shifts, weights, z) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
