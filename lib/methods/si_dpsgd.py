"""SI-DPSGD (v1 algorithm 1): DPSGD with the noise on the weights instead of on the gradients.

    ``µ_{t+1} = µ_t − η_t/L Σ_i g_i(θ_t) · min(1, C/‖g_i‖)``
    ``θ_{t+1} = µ_{t+1} + (η_t/L) · N(0, z²C²)``

DPSGD goes on from θ_{t+1}, SI-DPSGD from µ_{t+1}: its noise never adds up.  v1 concludes that it has DPSGD's guarantee,
as each step given µ_t is the same Gaussian mechanism; but µ_t is never released, and given what is, the neighbours'
means differ by the sum of all participations (:mod:`lib.accounting`, ``si_dpsgd_epsilon``).
**The claimed ε is not proven; see notebook 06.**
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lib import accounting, gaussian
from lib.methods._statistics import MIXED
from lib.methods.dpsgd import CLIPPED_AND_NOISED, DPSGD, as_vector, check_norm, finite, parts
from lib.methods.dpsgd import may_differ as may_differ
from lib.run import Run

FINE = 32  # times what rounding moves all weights together: a move of µ to which it adds 0.1 % or less
SHORT = "; weights that stay within ten times the length of the first, by which their rounding is judged"
SETTINGS = CLIPPED_AND_NOISED | {"clipped", "statistics", "test_at", "first_weights"}


class SIDPSGD(DPSGD):
    """The parameters hold θ_t, starting from θ_0 = µ_0; the means are kept beside them."""

    def __init__(self, run: Run, examples: int, model: nn.Module) -> None:
        super().__init__(run, examples, model)
        self._means: list[Tensor] = []
        self._std = 0.0
        first = torch.linalg.vector_norm(as_vector(_trained(model)))
        self._rounding = torch.finfo(torch.float32).eps * float(first)

    def backward(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> None:
        if step == 0 and self.run.first_weights == "noised":
            self._means = [parameter.detach().clone() for parameter in _trained(model)]
            self._noise_weights(model, self.run.lr * self.lr_factor(0) * self.noise_std(0) / self.run.batch_size)
        super().backward(model, x, y, step)

    def leave(self, model: nn.Module, total: Mapping[str, Tensor], step: int) -> None:
        self._std = self.noise_std(step)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.grad = total[name] / self.run.batch_size

    @torch.no_grad()
    def update(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        parameters = _trained(model)
        _set(parameters, self._means)
        super().update(model, optimizer)
        self._means = [parameter.clone() for parameter in parameters]
        self._noise_weights(model, optimizer.param_groups[0]["lr"] * self._std / self.run.batch_size)

    @torch.no_grad()
    def _noise_weights(self, model: nn.Module, std: float) -> None:
        trained = _trained(model)
        for parameter, noised in parts(gaussian.hide(as_vector(trained), std, self._noise), trained):
            parameter.copy_(noised)

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
        """Proven: of all θ_t together, which θ_T is one of; of µ_T nothing is."""
        run, why = self.run, self._unproven()
        if why:
            return self._block({"epsilon": None, "assumes": "", "why": f"claim not proven, as {why}"})
        epsilon = accounting.si_dpsgd_proven_epsilon(
            moved=self._moved(),
            sampling_prob=self.sampler.sampling_prob,
            steps=self.steps,
            delta=run.delta,
            sampler=run.sampler,
            neighbouring_relation=run.neighbouring_relation,
        )
        why = f"claim not proven, as earlier participations add up; proven of all θ_t together{self._least()}"
        return self._block({"epsilon": finite(epsilon), "assumes": self.all_assumed + SHORT, "why": why})

    def _unproven(self) -> str:
        """Why nothing is proven; "" where something is.

        µ is rounded to float32 before it is noised, which no post-processing of the noise is: an example that moves a
        weight by less than its last digit can move it by as much.  So the η_t C/L that an example moves µ by has
        to be long, in every step, beside all last digits together, 2⁻²³ ‖θ_0‖; how large the noise is does not matter.
        Should µ become ten times as long as θ_0, rounding adds up to a percent; there is room for that in the √T of the
        bound, but no proof, so it is assumed not to.
        """
        if self.run.statistics == "mixed":
            return MIXED
        if self.run.test_at == "mu":
            return "µ_T is used without noise"
        moves = [self.run.lr * self.lr_factor(step) * self.clip_norm(step) for step in range(self.steps)]
        if min(moves, default=math.inf) < FINE * self._rounding * self.run.batch_size:
            return "an example moves the weights by so little that their rounding tells it apart"
        return ""

    def _moved(self) -> float:
        steps = range(self.steps)
        return accounting.si_dpsgd_moved(
            step_sizes=[self.lr_factor(step) for step in steps],
            clip_norms=[self.clip_norm(step) for step in steps],
            noise_stds=[self.noise_std(step) for step in steps],
            momentum=self.run.momentum,
        )

    def _least(self) -> str:
        """The exact ε of a linear loss, in words, where it is known."""
        run, names = self.run, ("momentum", "lr_schedule", "noise_multiplier_decay", "clip_norm_decay", "sampler")
        if [getattr(run, name) for name in names] != [0.0, "constant", 1.0, 1.0, "poisson"]:
            return ""
        if run.neighbouring_relation != "add_or_remove_one":
            return ""
        least = accounting.si_dpsgd_epsilon(
            noise_multiplier=self.budget.noise_multiplier,
            sampling_prob=self.sampler.sampling_prob,
            steps=self.steps,
            delta=run.delta,
        )
        return f"; for a linear loss θ_T alone has ε = {least:.3g}"


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@torch.no_grad()
def _set(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    for parameter, value in zip(parameters, values or parameters, strict=True):
        parameter.copy_(value)


def build(run: Run, examples: int, model: nn.Module) -> SIDPSGD:
    check_norm(run)
    if run.optimizer != "sgd":
        raise ValueError(
            "optimizer: expected sgd for method 'si_dpsgd', whose noise is scaled by the step size; "
            f"got {run.optimizer!r}"
        )
    return SIDPSGD(run, examples, model)
