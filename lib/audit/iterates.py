"""What all iterates together tell of a canary: a score for each, the larger the more it looks included.

A canary's gradient is constant, so in what a step releases its own row is, in units of the clip norm,

    ``x_t = p_t + z_t Σ_k s'_k ξ_{t−k}``,  p_t = 1 where it takes part, else 0,  ξ ~ N(0, 1)

with s' the coefficients of S⁻¹ (:class:`lib.accounting.Spectrum`; of DPSGD S is I).  S x has independent noise, and in
it a participation in step t is the column S e_t.  With q_t the probability that an included canary takes part in step
t, y = Sᵀ S x and n_t = ‖S e_t‖², the score is

    ``Λ = Σ_t log(1 − q_t + q_t exp((y_t − n_t/2) / z_t²)) − (‖S q‖² − Σ_t n_t q_t²) / (2z²)``,

the logarithm of the likelihood ratio, to which no test is superior: where the columns of its steps are orthogonal, so
that the last term is zero, and in a fixed order, in which every q_t is 0 or 1.  Where an example of the opposite
gradient has the canary's place, so that p_t = −1 where that takes part, it is Λ(x) − Λ(−x).  Where batches are such
that a canary takes part at most once an epoch, in each of its k steps so far with the same probability q, it is the
sum over epochs of

    ``log(1 − kq + q Σ_t exp((x_t − 1/2) / z_t²))``,

with independent noise.  Under SI-DPSGD unknown participations add up in every iterate; its score is Σ_t t·(θ_t − θ_0),
every iterate by the participations to be expected so far.  (With a constant step size the ratio can be found by
recursion over their number; it tells no more.)
"""

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from lib.generators import generator
from lib.methods.correlated_noise import CorrelatedNoise
from lib.methods.dpsgd import DPSGD
from lib.methods.si_dpsgd import SIDPSGD
from lib.sampling import Sampler

SURE = 1e-6  # a noise multiplier, below which all is as good as seen
ONCE_AN_EPOCH = ("shuffled", "balls_and_bins")  # samplers, but for the fixed order, that draw an example so often


class Iterates:
    """Scores (m,) of the canaries that are the examples with the numbers ``places`` (m,), step by step.

    ``replaced``: whether one of the opposite gradient is in the place of a canary that is not there.
    """

    def __init__(self, places: np.ndarray, replaced: bool = False) -> None:
        self._places, self._replaced = places, replaced
        self._turns: np.ndarray | None = None  # in a fixed order: every example's step of the epoch
        self._scores = np.zeros(len(places))
        self._kept: list[tuple[np.ndarray, np.ndarray | float]] = []  # (x_t, q_t), where noise is correlated
        self._likely = np.empty((2, len(places)))  # log Σ_t exp(…) of an epoch, of x and of −x
        self._told: np.ndarray | float = 0.0  # by that epoch, where a canary takes part at most once in each
        self._method: DPSGD | None = None

    def observe(self, method: DPSGD, moved: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """After ``step``: how far rows have ``moved`` from θ_0, and the released mean ``gradient`` along them, (m,)."""
        self._method = method
        if isinstance(method, SIDPSGD):
            self._scores += (step + 1) * moved
            return
        clip_norm = method.clip_norm(step)
        x, q = gradient * method.run.batch_size / clip_norm, self._chance(method.sampler, method.run.seed, step)
        if isinstance(method, CorrelatedNoise):
            self._kept.append((x, q))
        else:
            z = max(SURE, method.noise_std(step) / clip_norm)
            if method.sampler.name in ONCE_AN_EPOCH:
                self._observe_once(x, z, q, step % method.sampler.steps_per_epoch)
            else:
                self._scores += self._against_other(lambda x: log_ratio(q, x - 0.5, z), x)

    def _observe_once(self, x: np.ndarray, z: float, q: float, turn: int) -> None:
        """What the epoch tells with its step ``turn``, from 0, in place of what it told before."""
        if turn == 0:
            self._likely, self._told = np.full_like(self._likely, -np.inf), 0.0
        self._likely = np.logaddexp(self._likely, (np.stack((x, -x)) - 0.5) / z**2)
        so_far = min(1.0, (turn + 1) * q)  # but for rounding
        ratio, of_other = log_ratio(so_far, self._likely - np.log(turn + 1), 1.0)
        told = ratio - of_other if self._replaced else ratio
        self._scores += told - self._told
        self._told = told

    def scores(self) -> np.ndarray:
        """(m,), of the steps so far."""
        if not self._kept:
            return self._scores
        x, q = (np.array(column).reshape(len(self._kept), -1) for column in zip(*self._kept, strict=True))
        z, strategy = max(SURE, self._method.noise_multiplier(0)), self._method.spectrum.strategy[: len(x)]
        return self._against_other(lambda x: correlated(x, q, strategy, z), x)

    def _against_other(self, ratio: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        """``ratio`` of the canary to an empty place, or to the one of opposite gradient."""
        return ratio(x) - ratio(-x) if self._replaced else ratio(x)

    def _chance(self, sampler: Sampler, seed: int, step: int) -> np.ndarray | float:
        """q_t (m,), or one for all."""
        if sampler.name == "fixed_order":
            if self._turns is None:
                self._turns = np.full(sampler.examples, -1)  # of those that sit out
                for turn, batch in enumerate(sampler.epoch(generator(seed, "sampling"))):
                    self._turns[batch.numpy()] = turn
            return (self._turns[self._places] == step % sampler.steps_per_epoch).astype(float)
        if sampler.name == "balls_and_bins":
            return 1 / sampler.steps_per_epoch
        if sampler.groups == 1:
            return sampler.sampling_prob
        its_turn = self._places % sampler.groups == step % sampler.groups
        return sampler.sampling_prob * sampler.groups * its_turn


def log_ratio(q: np.ndarray | float, above: np.ndarray, z: float) -> np.ndarray:
    """log(1 − q + q exp(``above`` ÷ z²)), elementwise."""
    with np.errstate(divide="ignore"):  # q of 0 and 1
        return np.logaddexp(np.log1p(-q), np.log(q) + above / z**2)


def correlated(x: np.ndarray, q: np.ndarray, strategy: np.ndarray, z: float) -> np.ndarray:
    """Λ (m,) of x (T, m) and q, (T, m) or (T, 1), under the Toeplitz S whose first column is ``strategy`` (T,)."""

    def times_s(columns: np.ndarray) -> np.ndarray:
        return lfilter(strategy, [1.0], columns, axis=0)

    y = times_s(times_s(x)[::-1])[::-1]
    lengths = np.cumsum(strategy**2)[::-1, None]  # n_t
    together = np.sum(times_s(q) ** 2 - lengths * q**2, axis=0)
    return np.sum(log_ratio(q, y - lengths / 2, z), axis=0) - together / (2 * z**2)
