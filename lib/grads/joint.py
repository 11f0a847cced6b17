"""Gradients of losses that share a batch's statistics: ∇_θ ℓ_i(θ; x_1 … x_B), through all rows (v2 algorithm 1).

Each has a norm and can be clipped, but one example has a part in every other's gradient, so that **clipping bounds
nothing**: replacing it can move the clipped sum by 2BC.  What v2 prints has to be computed all the same.

As in :mod:`lib.grads.fast` no pass goes further back than to the layers' outputs, but there is one for each of the
examples that share statistics; groups that share none take the same passes.  All losses of a group have the layers'
inputs in common, which a layer's weight gradient is then contracted with (:class:`~lib.grads.contractions.Shared`).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from lib.grads import fast, reference, uses
from lib.grads.contractions import Contraction, Materialised, Shared
from lib.grads.convolution import patches
from lib.grads.groups import Groups
from lib.layers import ChannelAffine, NoisyConv2d, NoisyLinear, WithPublic


def clipped_sum(
    model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, groups: Groups
) -> tuple[dict[str, Tensor], Tensor]:
    """Sums of the clipped gradients, and the norms (B, groups) before clipping.

    Where the statistics are constants of the gradient, each loss reaches the parameters through its own example alone,
    and the fast implementation does.
    """
    with_public = [layer for layer in model.modules() if isinstance(layer, WithPublic)]
    size = max((layer.sharing(len(x)) for layer in with_public), default=len(x))
    if rest := len(x) % size:
        return _in_parts(model, loss, x, y, groups, [len(x) - rest, rest])
    if with_public and not any(layer.gradient for layer in with_public):
        return fast.clipped_sum(model, loss, x, y, groups, joint=True)
    layers = fast.trained_layers(model)
    if fast.not_supported(model, layers) or not all(_has_rule(layer) for layer in layers.values()):
        return reference.clipped(per_loss(model, loss, x, y), groups)

    calls, losses = fast.forward(model, layers, loss, x, y)
    if uses.elsewhere(model, loss, losses, [(call.name, call.layer, call.outputs) for call in calls]):
        return reference.clipped(per_loss(model, loss, x, y), groups)
    calls = [call for call in calls if call.outputs]
    outputs = [output for call in calls for output in call.outputs]
    one_of_each_group = torch.eye(size, dtype=losses.dtype, device=losses.device).repeat(1, len(x) // size)

    def back(weights: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(losses, outputs, weights, retain_graph=True, materialize_grads=True)

    gradients, contractions = iter(vmap(back)(one_of_each_group)), {}
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
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    groups: Groups,
    sizes: list[int],
) -> tuple[dict[str, Tensor], Tensor]:
    parts = zip(x.split(sizes), y.split(sizes), strict=True)
    totals, norms = zip(*(clipped_sum(model, loss, *part, groups) for part in parts), strict=True)
    return {name: sum(of_part[name] for of_part in totals) for name in totals[0]}, torch.cat(norms)


def per_loss(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """``{parameter name: gradients (B, *shape)}``: one pass forward, and one backward for each loss; the reference."""
    trainable = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    losses, pull_back = vjp(lambda parameters: loss(functional_call(model, parameters, (x,)), y), trainable)
    return vmap(lambda weights: pull_back(weights)[0])(torch.eye(len(x), dtype=losses.dtype, device=losses.device))


def _has_rule(layer: nn.Module) -> bool:
    """Not for subclasses, as in :func:`lib.grads.rules.rule_for`."""
    of_patches = type(layer) in (nn.Conv2d, NoisyConv2d) and layer.groups == 1
    return of_patches or type(layer) in (nn.Linear, NoisyLinear, ChannelAffine)


def _contractions(
    layer: nn.Module, inputs: list[Tensor], gradients: list[Tensor], groups: int
) -> dict[str, Contraction]:
    """From x (K·R, …) and ∂ℓ_i/∂y (I, K·R, …) of every call: R rows, and I losses, in each of K groups."""
    laid_out = []
    for x, g in zip(inputs, gradients, strict=True):
        a, b = x.unflatten(0, (groups, -1)), g.unflatten(1, (groups, -1)).transpose(0, 1)  # (K, R, …), (K, I, R, …)
        if isinstance(layer, nn.Conv2d):
            a = patches(layer, x, g.shape[-2:]).squeeze(1).unflatten(0, (groups, -1))
        if not isinstance(layer, nn.Linear):  # channels last
            a, b = a.flatten(2).unflatten(2, (a.shape[2], -1)).mT, b.flatten(3).unflatten(3, (b.shape[3], -1)).mT
        laid_out.append((a.flatten(1, -2), b.flatten(2, -2)))
    (a, b), *others = laid_out
    if others:
        a, b = (torch.cat(of_calls, dim=-2) for of_calls in zip(*laid_out, strict=True))
    if isinstance(layer, ChannelAffine):
        weight = Materialised(torch.einsum("ktc,kitc->kic", a, b).flatten(0, 1))
    else:
        weight = Shared(a, b, layer.weight.shape)
    return {"weight": weight, "bias": Materialised(b.sum(2).flatten(0, 1))}
