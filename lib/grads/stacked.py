"""Gradients of R networks of one architecture, each of its own batch, in one pass for all of them.

A small network leaves a GPU idle for most of a step; R of them, their parameters stacked, keep it as busy as a large
one.  ``values`` are ``{name: (R, *shape)}``, every network's parameters and buffers; x is (R, B, …), y (R, B).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from lib.grads.contractions import squares_of_vectors
from lib.grads.groups import LEAST, SMALLEST
from lib.grads.looks import Loss
from lib.layers import noisy_parameters, without_noise

Values = Mapping[str, Tensor]


@torch.no_grad()
def values_of(models: Sequence[nn.Module]) -> Values:
    """``{name: (R, *shape)}``: the buffers of all ``models`` and their parameters, with this pass's weight noise."""
    of_each = [{**dict(model.named_buffers()), **noisy_parameters(model)} for model in models]
    return {name: torch.stack([values[name] for values in of_each]) for name in of_each[0]}


def padded(batches: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Batches (x, y) of any sizes as x (R, B, …) and y (R, B), with which of them count (R, B); B is at least 1."""
    sizes = [len(y) for _, y in batches]
    longest = max(1, *sizes)
    x, y = (
        torch.stack([torch.cat([part, part.new_zeros(longest - len(part), *part.shape[1:])]) for part in of_all])
        for of_all in zip(*batches, strict=True)
    )
    counts = torch.arange(longest, device=y.device) < torch.tensor(sizes, device=y.device).unsqueeze(1)
    return x, y, counts


def mean_gradients(model: nn.Module, loss: Loss, values: Values, x: Tensor, y: Tensor) -> tuple[Tensor, Values]:
    """Mean losses (R,) and their gradients ``{parameter name: (R, *shape)}``.

    ``model`` is the architecture, its own values are not used.  ``loss(outputs, y) -> (B,)``.  Buffers among ``values``
    are changed in place, as batch norm's are in a pass.
    """
    trained = {name: values[name].requires_grad_() for name, p in model.named_parameters() if p.requires_grad}
    with without_noise(model):
        outputs = vmap(lambda of_one, x: functional_call(model, of_one, (x,)))(values, x)
    losses = loss(outputs.flatten(0, 1), y.flatten()).view(y.shape).mean(1)
    gradients = torch.autograd.grad(losses.sum(), trained.values())
    return losses.detach(), dict(zip(trained, gradients, strict=True))


def clipped_sums(
    model: nn.Module,
    loss: Loss,
    values: Values,
    x: Tensor,
    y: Tensor,
    *,
    counts: Tensor,
    clip_norms: Sequence[float],
    microbatch_size: int,
) -> tuple[Values, Tensor]:
    """``{parameter name: Σ_i g_i · min(1, C/‖g_i‖) (R, *shape)}``, and the norms (R, B) before clipping.

    Every network has its own C.  An example for which ``counts`` (R, B) is False, or whose gradient is not finite,
    counts as zero.  All gradients of a microbatch, ``microbatch_size`` examples of every network, are made.
    """
    trained = {name: values[name] for name, p in model.named_parameters() if p.requires_grad}
    fixed = {name: value for name, value in values.items() if name not in trained}

    def loss_of_one(trained: Values, fixed: Values, x: Tensor, y: Tensor) -> Tensor:
        return loss(functional_call(model, {**trained, **fixed}, (x.unsqueeze(0),)), y.unsqueeze(0)).sum()

    of_each = vmap(vmap(grad(loss_of_one), in_dims=(None, None, 0, 0)))
    total = {name: torch.zeros_like(value) for name, value in trained.items()}
    clip = next(iter(total.values())).new_tensor(clip_norms).unsqueeze(1)  # x may be words, whose numbers are whole
    norms = [clip.new_zeros(len(x), 0)]
    for part in zip(*(of_all.split(microbatch_size, 1) for of_all in (x, y, counts)), strict=True):
        with without_noise(model):
            gradients = {name: g.flatten(2) for name, g in of_each(trained, fixed, *part[:2]).items()}
        norm = torch.stack([squares_of_vectors(g) for g in gradients.values()]).sum(0).sqrt()
        factors = (clip / norm.clamp(min=LEAST)).clamp(max=1.0)
        factors = torch.where(part[2] & norm.isfinite() & (factors >= SMALLEST), factors, 0.0)
        for name, g in gradients.items():
            g = g.contiguous().nan_to_num_(0.0, 0.0, 0.0)  # 0 × NaN is NaN; in place, as they are many
            total[name] += torch.einsum("rb,rbp->rp", factors, g).view_as(total[name])
        norms.append(norm)
    return total, torch.cat(norms, 1)
