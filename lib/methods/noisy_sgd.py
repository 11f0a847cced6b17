"""SGD whose updates are noisy: the mean gradient plus N(0, σ²) on every coordinate; no clipping, no privacy.

v1 section 3: "another way to introduce noise to the weights is to directly make the SGD updates noisy".
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lib.generators import generator
from lib.methods.non_private import SETTINGS as OF_NON_PRIVATE
from lib.methods.non_private import NonPrivate
from lib.methods.non_private import may_differ as may_differ
from lib.run import Run

SETTINGS = OF_NON_PRIVATE - {"trained_on"} | {"gradient_noise_std"}


class NoisySGD(NonPrivate):
    """σ is the run's ``gradient_noise_std``, in the unit of the gradient."""

    def __init__(self, run: Run, examples: int, model: nn.Module) -> None:
        super().__init__(run, examples)
        self._noise = generator(run.seed, "gradient noise", next(model.parameters()).device)

    def leave(self, model: nn.Module, gradients: Mapping[str, Tensor]) -> None:
        super().leave(model, gradients)
        for parameter in model.parameters():
            noise = torch.empty_like(parameter).normal_(0.0, self.run.gradient_noise_std, generator=self._noise)
            parameter.grad.add_(noise)

    def privacy(self) -> dict[str, Any]:
        block = super().privacy()
        block["proven"]["why"] = "noisy gradients without clipping: their sensitivity is not bounded"
        return block


def build(run: Run, examples: int, model: nn.Module) -> NoisySGD:
    return NoisySGD(run, examples, model)
