"""The reference: every example's whole gradient, by ``torch.func``; slow and large.

It is right for any model that ``vmap`` takes; of others, as ``nn.GRU`` or ``Embedding(max_norm=…)``, torch says so.
The noise that a layer draws is the same for all examples of a batch, as in an ordinary forward pass.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from lib.grads.contractions import squares_of_vectors
from lib.grads.groups import Groups
from lib.grads.looks import Loss


def per_example(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """``{parameter name: gradients (B, *shape)}``; x (B·r, …), y (B,)."""
    trainable = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    fixed = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
    fixed |= {name: b.detach() for name, b in model.named_buffers()}

    def loss_of_one(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        outputs = functional_call(model, (parameters, fixed), (x,))
        return loss(outputs, y.unsqueeze(0)).sum()

    return vmap(grad(loss_of_one), in_dims=(None, 0, 0), randomness="same")(trainable, x.unflatten(0, (len(y), -1)), y)


def clipped_sum(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, groups: Groups) -> tuple[dict[str, Tensor], Tensor]:
    """Sums of the clipped gradients, and the norms (B, groups) before clipping."""
    return clipped(per_example(model, loss, x, y), groups)


def clipped(gradients: dict[str, Tensor], groups: Groups) -> tuple[dict[str, Tensor], Tensor]:
    """The sum of ``gradients`` {name: (B, *shape)}, clipped, and their norms (B, groups)."""
    norms = groups.norms({name: squares_of_vectors(g.reshape(len(g), -1)) for name, g in gradients.items()})
    factors = groups.factors(norms)
    counted = factors.any(dim=1)  # an example that counts as zero may hold NaN, and 0 × NaN is NaN
    total = {}
    for name, gradient in gradients.items():
        factor = factors[:, groups.of[name]].view(-1, *[1] * (gradient.dim() - 1))
        kept = counted.view(factor.shape)
        total[name] = torch.where(kept, gradient * factor, torch.zeros_like(gradient)).sum(0)
    return total, norms
