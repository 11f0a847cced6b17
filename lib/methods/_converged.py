"""Weights that have converged are fixed (bc 3.4, "sparsification": proposed there, never run).

A weight entry has converged if over a large number of recent rounds it hovers around an average, with the standard
deviation that the added noise has; it may then be fixed to that average.  Here the rounds are an epoch's W, and the
entry's variance in them is held against that of a walk made of the noise alone, whose mean is (W² − 1)/(6W) times the
variance of one round's noise:

- ``epoch``: fixed is what varies no more than such walks do on average.  Their variances are so skewed that two walks
  in three do, which have not converged, but have no gradient beside the noise to speak of either.
- ``hovering``: fixed is what varies less than all but a twentieth of such walks, as something pulls it back.  With many
  rounds a walk's variance ÷ W has the distribution of Cramér and von Mises' ω², whose 5 % quantile is .03656
  (Anderson and Darling 1952, table 1).

Only released weights are looked at, so this is post-processing; a fixed entry takes no part in the clipping.
"""

import torch
from torch import Tensor, nn

OF_MEAN_WALK = {"epoch": 1.0, "hovering": 6 * 0.03656}  # the variance up to which an entry has converged


class Converged:
    """Which entries are still trained (``active``), and what they did since the last :meth:`fix`; ``rule`` is one of
    :data:`OF_MEAN_WALK`."""

    def __init__(self, model: nn.Module, rule: str) -> None:
        self._most = OF_MEAN_WALK[rule]
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.active = {name: torch.ones_like(p, dtype=torch.bool) for name, p in trained.items()}
        self._stds = dict.fromkeys(trained, 0.0)  # of this round's noise, before the step size
        self._restart(trained)

    def _restart(self, trained: dict[str, Tensor]) -> None:
        self._start = {name: p.detach().clone() for name, p in trained.items()}
        self._moved = {name: torch.zeros_like(p) for name, p in self._start.items()}  # Σ (w − start)
        self._squares = {name: torch.zeros_like(p) for name, p in self._start.items()}  # Σ (w − start)²
        self._noise = dict.fromkeys(trained, 0.0)  # Σ variance of a round's noise
        self._rounds = 0

    @torch.no_grad()
    def hold(self, name: str, parameter: nn.Parameter, noise_std: float) -> None:
        """Before the update: a fixed entry's gradient, noise included, is 0."""
        parameter.grad.mul_(self.active[name])
        self._stds[name] = noise_std

    @torch.no_grad()
    def observe(self, model: nn.Module, lr: float) -> None:
        """After the update."""
        for name, parameter in model.named_parameters():
            if name in self.active:
                moved = parameter - self._start[name]
                self._moved[name] += moved
                self._squares[name] += moved.square()
                self._noise[name] += (lr * self._stds[name]) ** 2
        self._rounds += 1

    @torch.no_grad()
    def fix(self, model: nn.Module) -> None:
        """At the end of an epoch: fix what has converged to its average; then start afresh."""
        rounds, trained = self._rounds, {name: p for name, p in model.named_parameters() if name in self.active}
        if rounds > 1:
            for name, parameter in trained.items():
                mean = self._moved[name] / rounds
                variance = self._squares[name] / rounds - mean.square()
                walk = self._noise[name] / rounds * (rounds**2 - 1) / (6 * rounds)
                converged = self.active[name] & (variance <= self._most * walk)
                parameter.copy_(torch.where(converged, self._start[name] + mean, parameter))
                self.active[name] &= ~converged
        self._restart(trained)
