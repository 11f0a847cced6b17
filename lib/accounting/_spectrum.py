"""Correlated noise between DPSGD and SI-DPSGD: one power of one matrix, and what it guarantees.

Let A be the lower triangular matrix of ones, so that A g are the sums of the first gradients, which the iterates are.
Releasing S g + ξ, with ξ of independent rows N(0, z²) in units of the clip norm, tells as much as the noisy gradients
g + S⁻¹ ξ; everything else is post-processing.  DPSGD has S = I, and SI-DPSGD, whose iterates are A g + ξ, has S = A.
Between them lie

    ``S = A^p``, 0 ≤ p ≤ 1: Toeplitz, with the coefficients of (1 − x)^−p, s_k = Γ(k + p) / (Γ(p) k!)

    >>> Spectrum(power=0.5, steps=4).strategy.tolist()
    [1.0, 0.5, 0.375, 0.3125]
    >>> Spectrum(power=1.0, steps=2).noise.tolist()  # SI-DPSGD: each step takes the last one's noise away
    [1.0, -1.0]
    >>> one_pass = Spectrum(power=1.0, steps=100)
    >>> one_pass.sensitivity(period=100)  # √T: the claim that SI-DPSGD has DPSGD's guarantee is off by that much
    10.0

An example that takes part in every ``period``-th step moves S g by at most ‖Σ_j S e_{j·period}‖ C (the coefficients are
not negative, so gradients that all point one way are the worst), and the release is µ-GDP with µ = that ÷ z, whoever
chooses the gradients from what was released before (Denisov et al. 2022, 2202.08312, theorem 2.1; several
participations: Choquette-Choo et al. 2022, 2211.06530).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.signal import lfilter

from lib.accounting._event import check_name

BANDED = ("noise", "strategy")


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """A point of the spectrum over ``steps`` T.

    ========  ==========================================================================================================
    power     p: 0 DPSGD, ½ the near-optimal square root, 1 SI-DPSGD
    bands     b: how many coefficients are kept; 0: all.  1 is DPSGD for every p
    banded    noise: those of S⁻¹, so that step t's noise is a sum of b draws | strategy: those of S, so that steps b
              and more apart share nothing, which amplification by sampling asks for (2306.08153)
    ========  ==========================================================================================================

    Raises ``ValueError`` for values out of range.
    """

    power: float
    steps: int
    bands: int = 0
    banded: str = "noise"

    def __post_init__(self) -> None:
        if not 0.0 <= self.power <= 1.0:
            raise ValueError(f"power: expected a number in [0, 1]; got {self.power!r}")
        if self.steps < 1:
            raise ValueError(f"steps: expected at least 1; got {self.steps!r}")
        if self.bands < 0:
            raise ValueError(f"bands: expected at least 0; got {self.bands!r}")
        check_name("banded", self.banded, BANDED)

    @cached_property
    def strategy(self) -> np.ndarray:
        """The first column of S, shape (T,); none of it is negative."""
        return self._kept(self.power) if self.banded == "strategy" else _inverse(self._kept(-self.power))

    @cached_property
    def noise(self) -> np.ndarray:
        """The first column of S⁻¹, shape (T,): step t's noise is Σ_k noise_k ξ_{t−k}."""
        return self._kept(-self.power) if self.banded == "noise" else _inverse(self._kept(self.power))

    def sensitivity(self, *, period: int) -> float:
        """Of S g, in multiples of the clip norm, where an example takes part in one fixed step of every ``period``.

        The worst is the first step: every later column is the same, cut shorter.  Raises ``ValueError`` for a
        ``period`` of less than 1.
        """
        if not period >= 1:
            raise ValueError(f"period: expected at least 1; got {period!r}")
        by_period = np.pad(self.strategy, (0, -self.steps % period)).reshape(-1, period)
        return float(np.linalg.norm(by_period.cumsum(0).ravel()[: self.steps]))

    def _kept(self, power: float) -> np.ndarray:
        """The first coefficients of (1 − x)^−power, the others 0."""
        k = np.arange(1, self.steps)
        coefficients = np.concatenate([[1.0], np.cumprod((k - 1 + power) / k)])
        coefficients[self.bands or self.steps :] = 0.0
        return coefficients


def _inverse(coefficients: np.ndarray) -> np.ndarray:
    """The coefficients of 1 ÷ Σ_k coefficients_k x^k, as many."""
    return lfilter([1.0], np.trim_zeros(coefficients, "b"), np.eye(1, len(coefficients))[0])
