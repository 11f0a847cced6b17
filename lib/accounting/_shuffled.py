"""A lower bound on ε of shuffled batches, which shows how far from Poisson samples they are.

    >>> round(shuffled_epsilon_at_least(noise_multiplier=0.5, steps_per_epoch=1000), 1)
    10.0
    >>> from lib.accounting import epsilon
    >>> round(epsilon(noise_multiplier=0.5, sampling_prob=1e-3, steps=1000), 1)  # Poisson samples, as many
    3.2

One epoch of T batches of a permuted data set, under the noise zC.  Let every other example have a gradient of length C
in one direction, and the example that differs one of length C in the opposite direction, or, its place left empty,
none.  Measured from a sum of the others alone and in units of the noise, one of the T outputs, whichever it is, is
shifted by 2/z with it and by 1/z without it, and the others are not.  Every function of an epoch's outputs has one
distribution with it, P, and one without, Q.  E epochs, each permuted anew, are E independent draws of P or of Q, so
that ``δ(ε) ≥ E_P[(1 − exp(ε − Σ ln P/Q))₊]``.  Two functions take turns in telling more:

- **the largest output**, with little noise: at most t with probability Φ(t − 2/z) Φ(t)^(T−1), or Φ(t − 1/z) Φ(t)^(T−1).
  Source of the pair and of this function: Chua et al. 2024, 2403.17673; of more epochs, 2411.04205.
- **a sum over the outputs**, with much: of exp(2x/z − 2/z²) − exp(x/z − 1/2z²), which to first order in 1/T is T times
  the logarithm of P/Q, of all outputs.  Ours.  The variance of that logarithm is (e^(4/z²) − 2e^(2/z²) + e^(1/z²))/T,
  and of as many Poisson samples (e^(1/z²) − 1)/T, which is less: over many epochs shuffled batches cost more at any z.

Both are told by the bucket that they fall into, which tells no more.  Losses are rounded down, and probabilities
lowered or raised by what rounding may have added to them or taken away.
"""

import math

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf
from scipy import fft
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import norm

from lib.accounting._event import check_count, check_positive, checked_delta

THRESHOLDS = 4000  # of the largest output
FAR = 9.0  # standard deviations beyond which nothing is told apart
BUCKETS = 2**16  # of the sum, modulo their number
PER_SPREAD = 200  # buckets in a standard deviation of the sum
LARGEST_TELLS_AS_MUCH = 0.5  # z up to which the sum is left out, whose terms get out of hand
WIDTHS = 1000  # of the grid of losses, in a standard deviation of one epoch's
POINTS = 100_000  # of that grid, at most
NEGLIGIBLE = 1e-3  # part of δ
ROUNDING = 2.0**-52
ADDED = 2.0**-49  # to δ, by an epoch's share of the Fourier transforms that compose them; measured, an eighth of it

Pair = tuple[np.ndarray, np.ndarray]  # ln of the probabilities of all buckets, with the example and without


def shuffled_epsilon_at_least(
    *, noise_multiplier: float, steps_per_epoch: int, epochs: int = 1, delta: float = 1e-5
) -> float:
    """What ε at ``delta`` is at least, of ``epochs`` shuffled anew, of T = ``steps_per_epoch`` batches; 0 if it tells
    nothing.

    z is the noise's standard deviation ÷ C.  Every example is in one of an epoch's T batches, which may differ in size.
    The bound holds under add or remove one, where :func:`lib.accounting.epsilon` by ``gdp`` is the upper one, equal for
    T = 1; if a batch of the smaller data set is always the short one, too, as whoever sees the outputs may permute
    them; and under replace one, as a gradient may be 0.  It is of the worst data and gradients that clipping allows:
    no statement about a data set.

    Raises ``ValueError`` naming what was expected and what came.
    """
    check_positive("noise_multiplier", noise_multiplier)
    check_count("steps_per_epoch", steps_per_epoch, least=1)
    check_count("epochs", epochs, least=1)
    delta, of_epoch = checked_delta(delta), (float(noise_multiplier), int(steps_per_epoch))
    pairs = [_of_largest(*of_epoch, delta)]
    if noise_multiplier > LARGEST_TELLS_AS_MUCH:
        pairs.append(_of_sum(*of_epoch))
    return max(_composed(*pair, int(epochs), delta) for pair in pairs)


def _composed(with_it: np.ndarray, without_it: np.ndarray, epochs: int, delta: float) -> float:
    """ε of as many draws of a bucket, from below."""
    told = np.isfinite(with_it) & np.isfinite(without_it)
    masses, losses = np.exp(with_it[told]), (with_it - without_it)[told]
    rare = NEGLIGIBLE * delta / epochs  # on either end: smaller losses are left out, larger ones made smaller
    order = np.argsort(losses)
    masses, losses = masses[order], losses[order]
    first = np.searchsorted(np.cumsum(masses), rare)
    last = len(masses) - 1 - np.searchsorted(np.cumsum(masses[::-1]), rare)
    masses, losses = masses[first:], np.minimum(losses, losses[last])[first:]
    spread = math.sqrt(np.sum(masses * (losses - np.sum(masses * losses)) ** 2))
    width = max(spread / WIDTHS, (losses[-1] - losses[0]) / POINTS)
    if width == 0:  # all are in one bucket
        return 0.0
    index = np.floor(losses / width).astype(int)
    masses = np.bincount(index - index[0], masses)
    one = DensePLDPmf(width, index[0], masses, infinity_mass=0.0, pessimistic_estimate=False)
    composed = one.self_compose(epochs)  # whose get_epsilon_for_delta is too large beyond 700, where e^-ε underflows

    def excess(epsilon: float) -> float:
        return composed.get_delta_for_epsilon(epsilon) - delta - ADDED * epochs

    return brentq(excess, 0.0, epochs * losses[-1]) if excess(0.0) > 0 else 0.0


def _of_largest(z: float, steps: int, delta: float) -> Pair:
    """The largest output, between thresholds; in logarithms, so that no digits are lost far out."""
    others, shift = steps - 1, 1 / z
    first, last = max(2 * shift - FAR, -FAR), 2 * shift + max(norm.isf(delta / steps), FAR)
    t = np.linspace(first, last, THRESHOLDS)
    pair = []
    for mean in (2 * shift, shift):
        below = log_ndtr(t - mean) + others * log_ndtr(t)
        with np.errstate(divide="ignore"):  # of the others where they are none, or too far for floats
            rest = np.log(-np.expm1(others * log_ndtr(t)))
        beyond = np.logaddexp(log_ndtr(mean - t), log_ndtr(t - mean) + rest)
        between = np.where(
            below[1:] < beyond[1:], _log_difference(below[1:], below[:-1]), _log_difference(beyond[:-1], beyond[1:])
        )
        pair.append(np.concatenate([below[:1], between, beyond[-1:]]))
    return tuple(pair)


def _log_difference(more: np.ndarray, less: np.ndarray) -> np.ndarray:
    """ln(e^more − e^less), −∞ where they are the same to rounding."""
    found, apart = np.full_like(more, -math.inf), more > less
    found[apart] = more[apart] + np.log(-np.expm1(less[apart] - more[apart]))
    return found


def _of_sum(z: float, steps: int) -> Pair:
    """The sum over the outputs: what rounding may have added is taken off with the example, and put on without it."""
    other, *own = (fft.rfft(of_one) for of_one in _terms(z, steps))
    others = other ** (steps - 1)
    error = ROUNDING * (16 + steps * np.abs(others).mean())  # some ten times what is measured
    without_it, with_it = (fft.irfft(others * of_one, BUCKETS) for of_one in own)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(with_it - error, 0.0)), np.log(np.maximum(without_it, 0.0) + error)


def _terms(z: float, steps: int) -> list[np.ndarray]:
    """The probabilities of the buckets that one output's term falls into: of a batch of others alone, of the one that
    the example has left, and of the one that has it.  Beyond the last bucket it is the first one's turn."""
    shift = 1 / z
    spread = math.sqrt(steps * (math.exp(4 * shift**2) - 2 * math.exp(2 * shift**2) + math.exp(shift**2)))
    x = np.linspace(-FAR, 2 * shift + FAR, BUCKETS)
    term = np.exp(2 * shift * (x - shift)) - np.exp(shift * (x - shift / 2))
    bucket = np.floor(np.minimum(term * PER_SPREAD / spread, BUCKETS // 2)).astype(int) % BUCKETS
    edges = np.concatenate([[-math.inf], (x[1:] + x[:-1]) / 2, [math.inf]])
    return [np.bincount(bucket, np.diff(norm.cdf(edges - mean)), BUCKETS) for mean in (0.0, shift, 2 * shift)]
