"""How each kind of layer gets per-example gradients from its inputs and the gradients of its outputs.

A rule gives a :class:`~lib.grads.contractions.Contraction` for every parameter of the layer.  Inputs and output
gradients come as lists, one entry for each call of the layer; an example's gradient is the sum over the calls.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.grads.chunks import bytes_of, chunks
from lib.grads.contractions import Contraction, Materialised, Outer, Rows
from lib.grads.convolution import Convolution
from lib.layers import ChannelAffine, NoisyConv2d, NoisyLinear

Rule = Callable[[nn.Module, list[Tensor], list[Tensor]], dict[str, Contraction]]


def linear(layer: nn.Linear, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = x Wᵀ + b on x (B, …, D_in)."""
    a = _joined([x.reshape(len(x), -1, layer.in_features) for x in inputs])
    b = _joined([g.reshape(len(g), -1, layer.out_features) for g in gradients])
    return {"weight": Outer(a, b), "bias": Materialised(b.sum(1))}


def conv2d(layer: nn.Conv2d, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = w ∗ x + b on x (B, C_in, H, W)."""
    bias = sum(g.sum((2, 3)) for g in gradients)
    return {"weight": Convolution(layer, inputs, gradients), "bias": Materialised(bias)}


def layer_norm(layer: nn.LayerNorm, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = γ x̂ + β over the last dimensions; those between B and them are positions."""

    def reduce(values: Tensor) -> Tensor:
        values = values.reshape(len(values), -1, *layer.normalized_shape)
        return values.sum(1) if values.shape[1] > 1 else values.squeeze(1)

    return _affine(lambda x: F.layer_norm(x, layer.normalized_shape, eps=layer.eps), reduce, inputs, gradients)


def group_norm(layer: nn.GroupNorm, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = γ x̂ + β, one γ and β for each of C channels; x (B, C, …)."""
    return _affine(lambda x: F.group_norm(x, layer.num_groups, eps=layer.eps), _by_channel, inputs, gradients)


def batch_norm(
    layer: nn.BatchNorm1d | nn.BatchNorm2d, inputs: list[Tensor], gradients: list[Tensor]
) -> dict[str, Contraction]:
    """y = γ x̂ + β with statistics that are fixed, one of each for every channel; x (B, C, …)."""

    def normalise(x: Tensor) -> Tensor:
        return F.batch_norm(x, layer.running_mean, layer.running_var, eps=layer.eps)

    return _affine(normalise, _by_channel, inputs, gradients)


def channel_affine(layer: ChannelAffine, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = γ x + β, one of each for every channel; x (B, C, …)."""
    return _affine(torch.clone, _by_channel, inputs, gradients)


def _by_channel(values: Tensor) -> Tensor:
    """(B, C, …) summed over positions, (B, C)."""
    return values.reshape(*values.shape[:2], -1).sum(2)


def _affine(
    normalise: Callable[[Tensor], Tensor],
    reduce: Callable[[Tensor], Tensor],
    inputs: list[Tensor],
    gradients: list[Tensor],
) -> dict[str, Contraction]:
    """∂ℓ/∂γ = Σ x̂ ∂ℓ/∂y and ∂ℓ/∂β = Σ ∂ℓ/∂y over positions and calls; x̂ is made again, a few examples at a time."""

    def gamma(x: Tensor, g: Tensor) -> Tensor:
        parts = chunks(len(x), bytes_of(x), x.device)
        return torch.cat([reduce(normalise(x[part]).mul_(g[part])) for part in parts])

    return {
        "weight": Materialised(sum(gamma(x, g) for x, g in zip(inputs, gradients, strict=True))),
        "bias": Materialised(sum(reduce(g) for g in gradients)),
    }


def embedding(layer: nn.Embedding, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """Rows of a table: index (B, T); the row ``padding_idx`` has no gradient."""
    index = _joined([x.reshape(len(x), -1) for x in inputs])
    b = _joined([g.reshape(len(g), -1, layer.embedding_dim) for g in gradients])
    if layer.padding_idx is not None:
        b = b.masked_fill((index == layer.padding_idx).unsqueeze(-1), 0.0)
    return {"weight": Rows(index, b, layer.weight.shape)}


def _joined(calls: list[Tensor]) -> Tensor:
    """(B, T, …) of all calls beside each other."""
    return torch.cat(calls, dim=1) if len(calls) > 1 else calls[0]


_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    NoisyLinear: linear,  # w = µ + noise, so ∂ℓ/∂µ = ∂ℓ/∂w
    nn.Conv2d: conv2d,
    NoisyConv2d: conv2d,
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    ChannelAffine: channel_affine,
    nn.Embedding: embedding,
}


def least_dims(layer: nn.Module) -> int:
    """How many dimensions an input of ``layer`` has at least, with that of the examples: 4 of images, say."""
    if isinstance(layer, nn.Conv2d):
        return 4
    if isinstance(layer, nn.LayerNorm):
        return 1 + len(layer.normalized_shape)
    return 1 if isinstance(layer, nn.Embedding) else 2


def rule_for(layer: nn.Module) -> Rule | None:
    """The rule for ``layer``, None if there is none.

    Not for subclasses: what they compute may be anything, and a wrong norm would be a broken privacy claim.
    """
    return _RULES.get(type(layer))
