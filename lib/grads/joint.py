"""Gradients of losses that share a batch's statistics: ∇_θ ℓ_i(θ; x_1 … x_B), through all rows (v2 algorithm 1).

Each has a norm and can be clipped, but one example has a part in every other's gradient, so that **clipping bounds
nothing**: replacing it can move the clipped sum by 2BC.  What v2 prints has to be computed all the same.

As in :mod:`lib.grads.fast` no pass goes further back than to the layers' outputs, but there is one for each of the
examples that share statistics; groups that share none take the same passes.  All losses of a group have the layers'
inputs in common, which a layer's weight gradient is then contracted with (:class:`~lib.grads.contractions.Shared`).
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.func import functional_call, vjp, vmap

from lib.grads import fast, reference, uses
from lib.grads.contractions import Contraction, Materialised, Shared
from lib.grads.convolution import patches, weight_gradient
from lib.grads.groups import Groups
from lib.grads.looks import Loss
from lib.layers import ChannelAffine, NoisyConv2d, NoisyLinear, WithPublic


def clipped_sum(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, groups: Groups) -> tuple[dict[str, Tensor], Tensor]:
    """Sums of the clipped gradients, and the norms (B, groups) before clipping.

    Where the statistics are constants of the gradient, each loss reaches the parameters through its own example alone,
    and the layers' rules do.  Examples inside a :class:`~lib.layers.WithPublic` are taken to meet in its statistics
    and nowhere else; where they do not meet there, either, joint is :mod:`lib.grads.fast`, which looks whether they do.
    """
    with_public = [layer for layer in model.modules() if isinstance(layer, WithPublic)]
    if with_public and not any(layer.joint for layer in with_public):
        return fast.clipped_sum(model, loss, x, y, groups)
    size = max((layer.sharing(len(x)) for layer in with_public), default=len(x))
    if rest := len(x) % size:
        return _in_parts(model, loss, x, y, groups, [len(x) - rest, rest])
    layers = fast.trained_layers(model)
    try:
        if with_public and not any(layer.gradient for layer in with_public):
            return fast.by_layers(model, loss, x, y, groups, joint=True)
        calls, losses = fast.forward(model, layers, loss, x, y)
    except uses.NotSupportedError:
        return reference.clipped(per_loss(model, loss, x, y), groups)
    if not all(_has_rule(layer) for layer in layers.values()):
        return reference.clipped(per_loss(model, loss, x, y), groups)
    calls = [call for call in calls if call.outputs]
    outputs = [output for call in calls for output in call.outputs]
    gradients, contractions = iter(_gradients(losses, outputs, size)), {}
    for call in calls:
        of_call = [next(gradients) for _ in call.outputs]
        for name, contraction in _contractions(call.layer, call.inputs, of_call, len(x) // size).items():
            if (name := f"{call.name}.{name}" if call.name else name) in groups.of:
                contractions[name] = contraction
    norms = groups.norms({name: contraction.squares() for name, contraction in contractions.items()})
    if not norms.isfinite().all():  # 0 × NaN is NaN, so weights cannot take a group out of a sum
        if size < len(x):
            return _in_parts(model, loss, x, y, groups, [size] * (len(x) // size))
        return reference.clipped(per_loss(model, loss, x, y), groups)
    factors = groups.factors(norms)
    return {name: c.weighted_sum(factors[:, groups.of[name]]) for name, c in contractions.items()}, norms


def _in_parts(
    model: nn.Module, loss: Loss, x: Tensor, y: Tensor, groups: Groups, sizes: list[int]
) -> tuple[dict[str, Tensor], Tensor]:
    parts = zip(x.split(sizes), y.split(sizes), strict=True)
    totals, norms = zip(*(clipped_sum(model, loss, *part, groups) for part in parts), strict=True)
    return {name: sum(of_part[name] for of_part in totals) for name in totals[0]}, torch.cat(norms)


def per_loss(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """``{parameter name: gradients (B, *shape)}``: one pass forward, and one backward for each loss; the reference."""
    trainable = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    losses, pull_back = vjp(lambda parameters: loss(functional_call(model, parameters, (x,)), y), trainable)
    return vmap(lambda weights: pull_back(weights)[0])(torch.eye(len(x), dtype=losses.dtype, device=losses.device))


def _gradients(losses: Tensor, outputs: list[GradientEdge], size: int) -> list[Tensor]:
    """∂ℓ_i/∂y of every output y (K·R, …), as (K·R, I, …), of the I = ``size`` losses of each of K groups.

    One pass back for every i.  ``vmap`` would do all in one, and copy what is the same for all of them.
    """
    one_of_each_group = torch.eye(size, dtype=losses.dtype, device=losses.device).repeat(1, len(losses) // size)
    how = {"retain_graph": True, "materialize_grads": True}
    passes = [torch.autograd.grad(losses, outputs, weights, **how) for weights in one_of_each_group]
    return [torch.stack(of_output, 1) for of_output in zip(*passes, strict=True)]


def _has_rule(layer: nn.Module) -> bool:
    """Not for subclasses, as in :func:`lib.grads.rules.rule_for`."""
    of_patches = type(layer) in (nn.Conv2d, NoisyConv2d) and layer.groups == 1
    return of_patches or type(layer) in (nn.Linear, NoisyLinear, ChannelAffine)


def _contractions(
    layer: nn.Module, inputs: list[Tensor], gradients: list[Tensor], groups: int
) -> dict[str, Contraction]:
    """From x (K·R, …) and ∂ℓ_i/∂y (K·R, I, …) of every call: R rows, and I losses, in each of K groups."""
    a, b = [], []
    for x, g in zip(inputs, gradients, strict=True):
        if isinstance(layer, nn.Conv2d):
            x = patches(layer, x, g.shape[-2:]).squeeze(1)
        if isinstance(layer, nn.Linear):  # what is contracted, channels or entries, before the positions
            x, g = x.movedim(-1, 1), g.movedim(-1, 2)
        a.append(x.reshape(*x.shape[:2], -1).unflatten(0, (groups, -1)))
        b.append(g.reshape(*g.shape[:3], -1).unflatten(0, (groups, -1)))
    bias = Materialised(sum(g.sum((1, 4)) for g in b).flatten(0, 1))
    if isinstance(layer, ChannelAffine):
        weight = sum((x.unsqueeze(2) * g).sum((1, 4)) for x, g in zip(a, b, strict=True))
        return {"weight": Materialised(weight.flatten(0, 1)), "bias": bias}

    if isinstance(layer, nn.Linear):
        weighted = partial(_of_linear, inputs)
    else:
        weighted = partial(_of_conv2d, layer, inputs, [g.shape[-2:] for g in gradients])
    return {"weight": Shared(a, b, weighted), "bias": bias}


def _of_linear(inputs: list[Tensor], gradients: list[Tensor]) -> Tensor:
    """Of x (B, …, D_in) and g (B, D_out, T)."""
    calls = zip(inputs, gradients, strict=True)
    return sum(torch.einsum("bot,bti->oi", g, x.reshape(len(x), -1, x.shape[-1])) for x, g in calls)


def _of_conv2d(layer: nn.Conv2d, inputs: list[Tensor], sizes: list[torch.Size], gradients: list[Tensor]) -> Tensor:
    """Of x (B, C_in, H, W) and g (B, C_out, T), of outputs of ``sizes`` (H', W')."""
    calls = zip(inputs, sizes, gradients, strict=True)
    return sum(weight_gradient(layer, x, g.unflatten(2, size)) for x, size, g in calls)
