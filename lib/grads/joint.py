"""Gradients of losses that share a batch's statistics: ∇_θ ℓ_i(θ; x_1 … x_B), through all rows (v2 algorithm 1).

Each has a norm and can be clipped, but one example has a part in every other's gradient, so that **clipping bounds
nothing**: replacing it can move the clipped sum by 2BC.  What v2 prints has to be computed all the same.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from lib.grads import fast, reference
from lib.grads.groups import Groups
from lib.layers import WithPublic


def per_loss(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """``{parameter name: gradients (B, *shape)}``: one pass forward, and one backward for each loss."""
    trainable = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    losses, pull_back = vjp(lambda parameters: loss(functional_call(model, parameters, (x,)), y), trainable)
    return vmap(lambda weights: pull_back(weights)[0])(torch.eye(len(x), dtype=losses.dtype, device=losses.device))


def clipped_sum(
    model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, groups: Groups
) -> tuple[dict[str, Tensor], Tensor]:
    """Sums of the clipped gradients, and the norms (B, groups) before clipping.

    Where the statistics are constants of the gradient, each loss reaches the parameters through its own example alone,
    and the fast implementation does.
    """
    through = [layer.gradient for layer in model.modules() if isinstance(layer, WithPublic)]
    if through and not any(through):
        return fast.clipped_sum(model, loss, x, y, groups)
    return reference.clipped(per_loss(model, loss, x, y), groups)
