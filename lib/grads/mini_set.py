"""The clipped gradient of a mini-set's mean loss, one vector for all its examples: bc's g(w; S).

It costs an ordinary backward pass, and what happens inside the mini-set (batch norm) does not matter: the result's norm
is at most C, so replacing one example moves it by at most 2C.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from lib.grads.groups import Groups
from lib.grads.looks import Loss


def clipped_mean(
    model: nn.Module,
    loss: Loss,
    x: Tensor,
    y: Tensor,
    groups: Groups,
    active: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """g · min(1, C_h / ‖g_h‖) in every group h, with g = ∇ (1/s) Σ_j ℓ(x_j, y_j), as one vector.

    ``groups.parts`` finds a parameter's part.  Entries where ``active`` is False are set to 0 before the norm is taken.
    Zero if the gradient is not finite, and for an empty mini-set.  ``ValueError`` for groups of another model.
    """
    if groups.model is not model:
        raise ValueError("groups: expected those of this model's parameters; got another's")
    if not len(x):
        return groups.zeros()
    found = torch.autograd.grad(loss(model(x), y).mean(), list(groups.parameters.values()), materialize_grads=True)
    # One vector: a network has many small tensors, and an operation on each costs more than its few numbers.
    vector = torch.cat([g.flatten() for g in found])
    if active:
        vector *= torch.cat([active[name].flatten() for name in groups.parameters])
    stretches = dict(zip(groups.stretches, vector.split(list(groups.stretches.values())), strict=True))
    # In float64, as one long float32 sum of squares would come out too small, and the bound would not hold.
    squares = {name: torch.linalg.vector_norm(part, dtype=torch.float64).square() for name, part in stretches.items()}
    factors = groups.factors(groups.norms(squares))
    for name, part in stretches.items():
        part *= factors[groups.of[name]]
    return vector.nan_to_num_(nan=0.0)  # if one group's norm is not finite the factor is 0 for all, and 0 × ∞ is NaN
