"""How each kind of layer gets per-example gradients from its inputs and the gradients of its outputs.

A rule gives, for every parameter of the layer, a :class:`Contraction`: something that knows the squared norms of the
per-example gradients and their weighted sum.  Inputs and output gradients come as lists, one entry for each call of
the layer; an example's gradient is the sum over the calls.
"""

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Contraction(Protocol):
    """Per-example gradients of one parameter, in whatever form is cheapest."""

    def squares(self) -> Tensor:
        """‖g_i‖², (B,)."""

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Σ_i weights_i g_i, of the parameter's shape; an example of weight 0 counts as zero, whatever it holds."""


class Materialised:
    """The gradients themselves, (B, *shape)."""

    def __init__(self, gradients: Tensor) -> None:
        self.gradients = gradients

    def squares(self) -> Tensor:
        return self.gradients.flatten(1).square().sum(1)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return torch.einsum("b,b...->...", weights, _kept(self.gradients, weights))


class Outer:
    """g_i = Σ_t b_it a_itᵀ for each of G groups: a (B, G, T, D_in), b (B, G, T, D_out), T positions or calls.

    ‖g_i‖² = Σ_tt' (a_t·a_t')(b_t·b_t') costs T² (D_in + D_out); forming g_i costs T D_in D_out, and its memory.
    """

    def __init__(self, a: Tensor, b: Tensor, shape: torch.Size) -> None:
        self.a, self.b, self.shape = a, b, shape
        *_, positions, d_in = a.shape
        self.gram = positions * (d_in + b.shape[-1]) <= d_in * b.shape[-1]
        self.gradients = None if self.gram else torch.einsum("bgto,bgti->bgoi", b, a)

    def squares(self) -> Tensor:
        if self.gradients is not None:
            return self.gradients.flatten(1).square().sum(1)
        if self.a.shape[2] == 1:
            return (self.a.square().sum((2, 3)) * self.b.square().sum((2, 3))).sum(1)
        return (self.a @ self.a.mT * (self.b @ self.b.mT)).sum((1, 2, 3))

    def weighted_sum(self, weights: Tensor) -> Tensor:
        if self.gradients is not None:
            return Materialised(self.gradients).weighted_sum(weights).reshape(self.shape)
        a, b = _kept(self.a, weights), _kept(self.b, weights)
        return torch.einsum("bgto,bgti->goi", b * weights.view(-1, 1, 1, 1), a).reshape(self.shape)


class Rows:
    """g_i has b_it added to row index_it, for all t: index (B, T), b (B, T, D); an embedding."""

    def __init__(self, index: Tensor, b: Tensor, shape: torch.Size) -> None:
        self.index, self.b, self.shape = index, b, shape

    def squares(self) -> Tensor:
        same = self.index.unsqueeze(1) == self.index.unsqueeze(2)  # (B, T, T)
        return (self.b @ self.b.mT * same).sum((1, 2))

    def weighted_sum(self, weights: Tensor) -> Tensor:
        rows = (_kept(self.b, weights) * weights.view(-1, 1, 1)).flatten(0, 1)
        return torch.zeros(self.shape, dtype=rows.dtype, device=rows.device).index_add_(0, self.index.flatten(), rows)


def _kept(values: Tensor, weights: Tensor) -> Tensor:
    """``values`` with the examples of weight 0 set to zero: they may hold NaN, and 0 × NaN is NaN."""
    return torch.where((weights != 0).view(-1, *[1] * (values.dim() - 1)), values, torch.zeros_like(values))


Rule = Callable[[nn.Module, list[Tensor], list[Tensor]], dict[str, Contraction]]


def linear(layer: nn.Linear, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = x Wᵀ + b on x (B, …, D_in)."""
    a = torch.cat([x.reshape(len(x), 1, -1, layer.in_features) for x in inputs], dim=2)
    b = torch.cat([g.reshape(len(g), 1, -1, layer.out_features) for g in gradients], dim=2)
    return {"weight": Outer(a, b, layer.weight.shape), "bias": Materialised(b.sum((1, 2)))}


def conv2d(layer: nn.Conv2d, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """A convolution is a linear map of the patches: T = H' W' positions, D_in = C_in / G · k²."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    patches, outputs = [], []
    for x, g in zip(inputs, gradients, strict=True):
        padded = F.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
        unfolded = F.unfold(padded, layer.kernel_size, dilation=layer.dilation, stride=layer.stride)
        patches.append(unfolded.unflatten(1, (layer.groups, -1)).mT)
        outputs.append(g.flatten(2).unflatten(1, (layer.groups, -1)).mT)
    b = torch.cat(outputs, dim=2)
    bias = b.sum(2).flatten(1)  # (B, C_out)
    return {"weight": Outer(torch.cat(patches, dim=2), b, layer.weight.shape), "bias": Materialised(bias)}


def layer_norm(layer: nn.LayerNorm, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = γ x̂ + β over the last dimensions; those between B and them are positions."""
    normalised = [F.layer_norm(x, layer.normalized_shape, eps=layer.eps) for x in inputs]
    return _affine(normalised, gradients, lambda v: v.reshape(len(v), -1, *layer.normalized_shape).sum(1))


def group_norm(layer: nn.GroupNorm, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """y = γ x̂ + β, one γ and β for each of C channels; x (B, C, …)."""
    normalised = [F.group_norm(x, layer.num_groups, eps=layer.eps) for x in inputs]
    return _affine(normalised, gradients, lambda v: v.reshape(len(v), layer.num_channels, -1).sum(2))


def _affine(
    normalised: list[Tensor], gradients: list[Tensor], reduce: Callable[[Tensor], Tensor]
) -> dict[str, Contraction]:
    gamma = sum(reduce(x * g) for x, g in zip(normalised, gradients, strict=True))
    return {"weight": Materialised(gamma), "bias": Materialised(sum(reduce(g) for g in gradients))}


def embedding(layer: nn.Embedding, inputs: list[Tensor], gradients: list[Tensor]) -> dict[str, Contraction]:
    """Rows of a table: index (B, T); the row ``padding_idx`` has no gradient."""
    index = torch.cat([x.reshape(len(x), -1) for x in inputs], dim=1)
    b = torch.cat([g.reshape(len(g), -1, layer.embedding_dim) for g in gradients], dim=1)
    if layer.padding_idx is not None:
        b = b.masked_fill((index == layer.padding_idx).unsqueeze(-1), 0.0)
    return {"weight": Rows(index, b, layer.weight.shape)}


# A subclass (a noisy layer, say) is its parent plus something that does not change ∂y/∂µ.
_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv2d: conv2d,
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
    nn.Embedding: embedding,
}


def rule_for(layer: nn.Module) -> Rule | None:
    """The rule for ``layer``, None if there is none."""
    return next((rule for kind, rule in _RULES.items() if isinstance(layer, kind)), None)
