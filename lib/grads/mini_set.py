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
    found = torch.autograd.grad(loss(model(x), y).mean(), list(parameters.values()), allow_unused=True)
    gradient = {
        name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(parameters.items(), found, strict=True)
    }
    for name, kept in (active or {}).items():
        gradient[name] = gradient[name] * kept
    norms = groups.norms({name: torch.linalg.vector_norm(g).square().view(1) for name, g in gradient.items()})
    factors = groups.factors(norms)[0]  # 0 for all if one group's norm is not finite; what 0 × ∞ leaves is 0, too
    return {name: (g * factors[groups.of[name]]).nan_to_num_(nan=0.0) for name, g in gradient.items()}
