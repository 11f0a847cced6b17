"""SI-DPSGD (v1 algorithm 1): DPSGD with the noise on the weights instead of on the gradients.

    ``µ_{t+1} = µ_t − η_t/L Σ_i g_i(θ_t) · min(1, C/‖g_i‖)``
    ``θ_{t+1} = µ_{t+1} + (η_t/L) · N(0, z²C²)``

DPSGD goes on from θ_{t+1}, SI-DPSGD from µ_{t+1}: its noise never adds up.  v1 concludes that it has DPSGD's guarantee,
as each step given µ_t is the same Gaussian mechanism; but µ_t is never released, and given what is, the neighbours'
means differ by the sum of all participations (:mod:`lib.accounting`, ``si_dpsgd_epsilon``).
**The claimed ε is not proven; see notebook 06.**
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lib import accounting
from lib.methods._statistics import MIXED
from lib.methods.dpsgd import ADAPTIVE_ONLY, BATCH_CLIPPING_ONLY, CORRELATED_ONLY, DPSGD, check
from lib.run import Run


class SIDPSGD(DPSGD):
    """The parameters hold θ_t, starting from θ_0 = µ_0; the means are kept beside them."""

    def __init__(self, run: Run, examples: int, model: nn.Module) -> None:
        super().__init__(run, examples, model)
        self._means: list[Tensor] = []
        self._std = 0.0

    def backward(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> None:
        total, self._std = self.summed(model, x, y, step), self.noise_std(step)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.grad = total[name] / self.run.batch_size

    @torch.no_grad()
    def update(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        parameters = _trained(model)
        _set(parameters, self._means)
        optimizer.step()
        self._means = [parameter.clone() for parameter in parameters]
        std = optimizer.param_groups[0]["lr"] * self._std / self.run.batch_size
        for parameter in parameters:
            parameter.add_(self._draw(parameter, std))

    @contextmanager
    def tested(self, model: nn.Module) -> Iterator[None]:
        """θ_t, or µ_t as the authors' code tests it."""
        parameters = _trained(model)
        noised = [parameter.detach().clone() for parameter in parameters]
        if self.run.test_at == "mu":
            _set(parameters, self._means)
        try:
            yield
        finally:
            _set(parameters, noised)

    def privacy(self) -> dict[str, Any]:
        return self._block({"epsilon": None, "assumes": "", "why": f"claim not proven; see notebook 06: {self._why()}"})

    def _why(self) -> str:
        run = self.run
        if run.statistics == "mixed":
            return MIXED
        if run.test_at == "mu":
            return "µ_T is used without noise"
        if run.momentum or run.lr_schedule != "constant" or run.noise_multiplier_decay != 1 or run.clip_norm_decay != 1:
            return "earlier participations add up"
        least = accounting.si_dpsgd_epsilon(
            noise_multiplier=self.budget.noise_multiplier,
            sampling_prob=self.sampler.sampling_prob,
            steps=self.steps,
            delta=run.delta,
        )
        return f"for a linear loss θ_T alone has ε = {least:.3g}"


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@torch.no_grad()
def _set(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    for parameter, value in zip(parameters, values or parameters, strict=True):
        parameter.copy_(value)


def build(run: Run, examples: int, model: nn.Module) -> SIDPSGD:
    check(run, "statistics_share", *BATCH_CLIPPING_ONLY, *ADAPTIVE_ONLY, *CORRELATED_ONLY)
    if run.optimizer != "sgd":
        raise ValueError(
            "optimizer: expected sgd for method 'si_dpsgd', whose noise is scaled by the step size; "
            f"got {run.optimizer!r}"
        )
    return SIDPSGD(run, examples, model)
