"""One epoch of balls-and-bins batches: every example draws one of the T batches by itself (Chua et al., 2412.16802).

The worst pair of output distributions of an epoch, in units of the noise: P, of which one of T outputs is shifted by
1/z, whichever it is, against Q, of which none is (2412.16802; the place of a removed example is left empty).  With
R = Σ_t exp(x_t/z − 1/2z²) / T over the outputs, which is P/Q,

    ``δ(ε) = E_Q (R − e^ε)₊``  of P against Q, and  ``E_Q (1 − e^ε R)₊``  of Q against P.

Both are convex in R, so a sum whose terms are spread further, around the same means, bounds them from above.  Here each
term is put on the two points of a grid between which it lies; the sum of twice as many is that of two such sums, put
on a grid of its own.  Ours; 2602.17284 adds up losses in much the same way, rounded in one direction.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import norm

POINTS = 1000  # of a grid; the variance of R is then a few in 10,000 above the exact one, (e^(1/z²) − 1)/T
FAR = 9.5  # standard deviations beyond which no term is kept
RARE = 1e-20  # the probability, under P and under Q, of what is left out of a sum on either side
ROUNDING = 2.0**-43  # of sums of probabilities at most; measured, a tenth of it
BINS = 20_000  # in which the range of a sum is found
LEAST_NOISE = 0.05  # z, for less of which R is beyond floats

Sum = tuple[np.ndarray, np.ndarray]  # values, ascending, and their probabilities under Q


class Epoch:
    """R from above: the range of its logarithm, ``losses``, and δ(ε) in both directions; z ≥ :data:`LEAST_NOISE`."""

    def __init__(self, noise_multiplier: float, steps: int) -> None:
        values, without_it = _sum_of(noise_multiplier, steps)
        self._ratios = values / steps
        with_it = without_it * self._ratios
        self.losses = math.log(self._ratios[0]), math.log(self._ratios[-1])
        self._below = [_cumulated(masses) for masses in (without_it, with_it)]
        self._above = [_cumulated(masses[::-1])[::-1] for masses in (without_it, with_it)]
        # What is left out may have any loss.
        self._lost = [max(0.0, 1 - masses.sum()) + ROUNDING for masses in (without_it, with_it)]

    def remove(self, epsilons: np.ndarray) -> np.ndarray:
        """Of P against Q."""
        least, (without_it, with_it) = np.exp(epsilons), self._above
        first = np.searchsorted(self._ratios, least, side="right")
        return with_it[first] - least * without_it[first] + self._lost[1]

    def add(self, epsilons: np.ndarray) -> np.ndarray:
        """Of Q against P."""
        most, (without_it, with_it) = np.exp(-epsilons), self._below
        end = np.searchsorted(self._ratios, most, side="left")
        return without_it[end] - with_it[end] / most + self._lost[0]


def _cumulated(masses: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, … masses."""
    return np.concatenate([[0.0], np.cumsum(masses)])


@lru_cache(maxsize=64)
def _sum_of(z: float, terms: int) -> Sum:
    if terms == 1:
        return _term(1 / z)
    half = _sum_of(z, terms // 2)
    twice = _added(half, half)
    return _added(twice, _sum_of(z, 1)) if terms % 2 else twice


def _term(shift: float) -> Sum:
    """exp(x·shift − shift²/2) of x ~ N(0, 1): the mass of each cell on its two ends, with the mean that it has."""
    x = np.linspace(-FAR, FAR + shift, POINTS)
    values = np.exp(shift * x - shift**2 / 2)
    mass, mean = _between(x), _between(x - shift)  # the term is the density that shifts x
    higher = np.clip((mean - mass * values[:-1]) / np.diff(values), 0.0, mass)
    return values, np.append(mass - higher, 0.0) + np.append(0.0, higher)


def _between(x: np.ndarray) -> np.ndarray:
    """The standard normal probability of each cell, without the cancellation of differences close to 1."""
    return np.where(x[1:] < 0, np.diff(norm.cdf(x)), -np.diff(norm.sf(x)))


def _added(one: Sum, other: Sum) -> Sum:
    """The sum of two independent ones, on a grid over all but the rarest of its values."""
    sums, masses = np.add.outer(one[0], other[0]).ravel(), np.multiply.outer(one[1], other[1]).ravel()
    edges = np.geomspace(sums[0], sums[-1], BINS + 1)
    index = np.clip(np.searchsorted(edges, sums, side="right") - 1, 0, BINS - 1)
    without_it = np.cumsum(np.bincount(index, masses, BINS))
    with_it = np.cumsum(np.bincount(index, masses * sums, BINS)[::-1])
    first = np.searchsorted(without_it, RARE)
    last = BINS - 1 - np.searchsorted(with_it, RARE * with_it[-1])
    values = np.geomspace(edges[first], edges[last + 1], POINTS)
    kept = (values[0] <= sums) & (sums <= values[-1])
    sums, masses = sums[kept], masses[kept]
    lower = np.clip(np.searchsorted(values, sums, side="right") - 1, 0, POINTS - 2)
    higher = (sums - values[lower]) / (values[lower + 1] - values[lower]) * masses
    return values, np.bincount(lower, masses - higher, POINTS) + np.bincount(lower + 1, higher, POINTS)
