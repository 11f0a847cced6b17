"""DPSGD whose noise is correlated over time: the spectrum between DPSGD and SI-DPSGD, at an ε that is proven.

    ``ĝ_t = (Σ_{i in batch} g_i · min(1, C/‖g_i‖) + zC Σ_k s'_k ξ_{t−k}) / L``,  ξ ~ N(0, 1)

s' are the coefficients of S⁻¹ = A^−p (:class:`lib.accounting.Spectrum`), p the run's ``noise_power``: 0 is DPSGD, 1 is
SI-DPSGD, each step taking the last one's noise away, and p = ½ its sound heir: most of the noise is taken away later,
for a sensitivity that grows with √(log T) and not with √T.

``sampler`` fixed_order   every example comes back after exactly one epoch, so the sensitivity is known exactly, and
                          nothing is gained by sampling.  ``noise_bands`` keeps the first b of s', hence b draws
``sampler`` poisson       b bands of S itself: what an example adds in steps b and more apart is then orthogonal, and
                          where the examples take turns, b steps each, every turn is a Poisson sample of its own
                          (Choquette-Choo et al. 2023, 2306.08153, theorem 4).  One band is DPSGD
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from lib import gaussian
from lib.accounting import Spectrum
from lib.methods.dpsgd import CLIPPED_AND_NOISED, DPSGD, check_norm
from lib.methods.dpsgd import may_differ as may_differ
from lib.run import Run
from lib.sampling import Sampler

SETTINGS = CLIPPED_AND_NOISED | {"clipped", "statistics", "pca_noise_multiplier", "noise_power", "noise_bands"}
SETTINGS -= {"noise_multiplier_decay"}
BANDED = {"fixed_order": "noise", "poisson": "strategy"}  # by sampler


class CorrelatedNoise(DPSGD):
    """The method of the module's page, set up for one run."""

    def __init__(self, run: Run, examples: int, model: nn.Module) -> None:
        in_order = run.sampler == "fixed_order"
        period = Sampler(run.sampler, examples, run.batch_size).steps_per_epoch
        steps = run.epochs * period
        how = {"bands": run.noise_bands, "banded": BANDED[run.sampler]}
        self.spectrum = Spectrum(power=run.noise_power, steps=steps, **how)
        moved = self.spectrum.sensitivity(period=period if in_order else steps)
        # The accountant counts K participations in a fixed order as √K, and those of Poisson sampling one by one.
        discount = moved / math.sqrt(run.epochs) if in_order else moved
        super().__init__(run, examples, model, discount=discount, groups=1 if in_order else run.noise_bands)
        moved *= self.budget.events[-1].sensitivity
        self.sensitivity = f"sensitivity {moved:.4g} C of S = A^{run.noise_power:g}"
        if (turns := self.sampler.groups) > 1:  # so the account is of fewer steps, with a larger probability
            self.sensitivity += f", each of {turns} groups of examples sampled in one of {turns} steps"
        self._recursive = not in_order
        weights = np.trim_zeros((-self.spectrum.strategy if self._recursive else self.spectrum.noise)[1:], "b")
        # In float64, as the draws are: what is taken away later is then what was added, to 53 bits.
        self._oldest_first = torch.from_numpy(weights[::-1].copy()).to(next(model.parameters()).device)
        self._past: Tensor | None = None  # (bands − 1, parameters) of unit noise, the oldest overwritten

    def leave(self, model: nn.Module, total: Mapping[str, Tensor], step: int) -> None:
        self._step = step
        super().leave(model, total, step)

    def hidden(self, total: Tensor, std: float) -> Tensor:
        noise, kept = gaussian.draw(total, self._noise), len(self._oldest_first)
        if kept:
            if self._past is None:
                self._past = noise.new_zeros(kept, len(noise))
            by_row = self._oldest_first.roll(self._step)  # as the draw of step t lies in row t % kept
            fresh, noise = noise, noise + by_row @ self._past
            self._past[self._step % kept] = noise if self._recursive else fresh
        return gaussian.hide_behind(total, noise.mul_(std), std)


def build(run: Run, examples: int, model: nn.Module) -> CorrelatedNoise:
    check_norm(run)
    if run.sampler not in BANDED:
        raise ValueError(
            f"sampler: expected one of {', '.join(BANDED)} for method 'correlated_noise', whose sensitivity depends on "
            f"when an example comes back; got {run.sampler!r}"
        )
    if run.sampler == "poisson" and not run.noise_bands:
        raise ValueError(
            "noise_bands: expected at least 1 for sampler 'poisson', whose examples take so many turns; got 0"
        )
    if run.epsilon is not None and run.noise_multiplier is not None:
        raise ValueError(
            "noise_multiplier: expected None beside an epsilon for method 'correlated_noise', whose sensitivity is "
            f"that of the whole run; got {run.noise_multiplier!r}"
        )
    if run.statistics == "mixed":
        raise ValueError("statistics: expected 'public' or 'per_example' for method 'correlated_noise'; got 'mixed'")
    return CorrelatedNoise(run, examples, model)
