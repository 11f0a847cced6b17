"""The clipped gradient of a mini-set's mean loss, one vector for all its examples: bc's g(w; S).

It costs an ordinary backward pass, and what happens inside the mini-set (batch norm) does not matter: the result's norm
is at most C, so replacing one example moves it by at most 2C.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from lib.grads.groups import Groups


def clipped_mean(
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    groups: Groups,
    active: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """``{parameter name: the group's part of g · min(1, C_h / ‖g_h‖)}`` with g = ∇ (1/s) Σ_j ℓ(x_j, y_j).

    Entries where ``active`` is False are set to 0 before the norm is taken.  Zero if the gradient is not finite, and
    for an empty mini-set.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not len(x):
        return {name: torch.zeros_like(p) for name, p in parameters.items()}
    found = torch.autograd.grad(loss(model(x), y).mean(), list(parameters.values()), materialize_grads=True)
    # One vector: a network has many small tensors, and an operation on each costs more than its few numbers.
    vector = torch.cat([g.flatten() for g in found])
    if active:
        vector *= torch.cat([active[name].flatten() for name in parameters])
    parts = dict(zip(parameters, vector.split([p.numel() for p in parameters.values()]), strict=True))
    # In float64, as one long float32 sum of squares would come out too small, and the bound would not hold.
    squares = {name: torch.linalg.vector_norm(part, dtype=torch.float64).square() for name, part in parts.items()}
    factors = groups.factors(groups.norms(squares))
    for name, part in parts.items():
        part *= factors[groups.of[name]]
    vector.nan_to_num_(nan=0.0)  # if one group's norm is not finite the factor is 0 for all, and 0 × ∞ is NaN
    return {name: part.view_as(parameters[name]) for name, part in parts.items()}
