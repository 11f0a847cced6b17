"""Four sums of gradients, of which their authors say that one example, replaced, moves them by 2 C at most.

Notebook 06 has them read before they are measured: whose claim is wrong?
"""

import math

import torch
from torch import Tensor, nn

from lib import models
from lib.audit.meter import sensitivity
from lib.generators import seed_for
from lib.grads import clipped_sum
from lib.methods.dpsgd import cross_entropy  # one for each example

C, EXAMPLES = 0.1, 12
Sum = dict[str, Tensor]


def each_example(model: nn.Module, x: Tensor, y: Tensor) -> Sum:
    return clipped_sum(model, cross_entropy, x, y, clip_norm=C)[0]


def each_parameter(model: nn.Module, x: Tensor, y: Tensor) -> Sum:
    return clipped_sum(model, cross_entropy, x, y, clip_norm={name: C for name, _ in model.named_parameters()})[0]


def by_the_largest(model: nn.Module, x: Tensor, y: Tensor) -> Sum:
    total, norms = clipped_sum(model, cross_entropy, x, y, clip_norm=math.inf)
    return {name: gradient * C / norms.max() for name, gradient in total.items()}


def means_of_four(model: nn.Module, x: Tensor, y: Tensor) -> Sum:
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for images, labels in zip(x.split(4), y.split(4), strict=True):
        mean = torch.autograd.grad(cross_entropy(model(images), labels).mean(), list(model.parameters()))
        length = torch.cat([gradient.flatten() for gradient in mean]).norm()
        for name, gradient in zip(total, mean, strict=True):
            total[name] += gradient * C / max(C, length)
    return total


SUMS = (each_example, each_parameter, by_the_largest, means_of_four)


def replaced() -> dict[str, float]:
    """{sum: how far the meter moves it, ÷ C}, by replacing one of a batch of ``EXAMPLES`` of LeNet-5's."""
    model, x, y = _batch(EXAMPLES)
    how = {"clip_norm": C, "classes": 10, "examples": 1, "ascent": 5}
    return {summed.__name__: sensitivity(summed, model, x, y, **how).multiple for summed in SUMS}


def removed(*, bright: tuple[int, ...], examples: int) -> dict[str, float]:
    """The same by leaving one out, where the examples in the places ``bright`` are one image, of large gradients."""
    model, x, y = _batch(examples)
    x[list(bright)] = 100 * x[0]
    how = {"clip_norm": C, "neighbouring_relation": "add_or_remove_one", "examples": examples}
    return {summed.__name__: sensitivity(summed, model, x, y, **how).multiple for summed in SUMS}


def _batch(examples: int) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(seed_for(0, "audit"))
    return models.build("lenet5"), torch.rand(examples, 1, 28, 28), torch.zeros(examples, dtype=torch.long)
