"""Per-example gradients of one parameter, in whatever form is cheapest."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

ROUNDING = 8  # units of rounding that a sum of a few terms, or of many in chunks, may be off by
RUN = 16  # terms of a long inner product for each unit more; measured, of equal numbers, whose errors add up: 37
LONGEST = 100_000  # terms of an inner product: of more, so much would have to be added for rounding that it shows
CHUNK = 256  # numbers whose squares are added up one after another


class Contraction(Protocol):
    """What is asked of per-example gradients g_i, i = 1 … B, of one parameter."""

    def squares(self) -> Tensor:
        """‖g_i‖², (B,)."""

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Σ_i weights_i g_i, of the parameter's shape, contiguous: noise drawn like either is the same noise."""


def gram_is_smaller(positions: int, d_in: int, d_out: int) -> bool:
    """Whether two T × T Gram matrices need less memory than a D_out × D_in gradient, and are exact enough."""
    return 2 * positions**2 < d_in * d_out and max(d_in, d_out) <= LONGEST


def rounding(terms: int, dtype: torch.dtype) -> float:
    """How far an inner product of so many terms may be off, ÷ its vectors' lengths."""
    return (ROUNDING + terms / RUN) * torch.finfo(dtype).eps


def squares_of_vectors(values: Tensor) -> Tensor:
    """‖v‖² rounded up, (…), of vectors v, (…, P).

    One long float32 sum of squares comes out too small, by 1e-3 for millions of equal numbers, and a norm that is too
    small would break the bound.  Sums of :data:`CHUNK` squares, and their sum, are off by a few units of rounding.
    """
    whole = values.shape[-1] // CHUNK * CHUNK
    chunks = torch.linalg.vector_norm(values[..., :whole].unflatten(-1, (-1, CHUNK)), dim=-1).square().sum(-1)
    rest = torch.linalg.vector_norm(values[..., whole:], dim=-1).square()
    return (chunks + rest) * (1 + ROUNDING * torch.finfo(values.dtype).eps)


def squares_of(products: Tensor, terms: int) -> Tensor:
    """‖Σ_t g_t‖² rounded up, (…), from the inner products of its parts, (…, T, T), each of so many ``terms``.

    Where parts cancel, their sum is smaller than the rounding of the products, and may come out as anything, or
    negative.  ‖Σ_t g_t‖² is at most (Σ_t ‖g_t‖)², so its error is some :func:`rounding` of that, which is added: a norm
    that is too large clips too much, one that is too small would break the bound.
    """
    sizes = products.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt().sum(-1)
    squares = products.sum((-2, -1)).clamp(min=0.0)
    return squares + rounding(terms, products.dtype) * sizes.square()


class Materialised:
    """The gradients themselves, (B, *shape)."""

    def __init__(self, gradients: Tensor) -> None:
        self.gradients = gradients

    def squares(self) -> Tensor:
        return squares_of_vectors(self.gradients.flatten(1))

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return (weights @ self.gradients.flatten(1)).view(self.gradients.shape[1:])


class Outer:
    """g_i = Σ_t b_it a_itᵀ: a (B, T, D_in), b (B, T, D_out), T positions or calls.

    In the Gram form ‖g_i‖² = Σ_tt' (a_t·a_t')(b_t·b_t'), and no g_i is ever made.
    """

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a, self.b = a, b
        self.gram = gram_is_smaller(a.shape[1], a.shape[2], b.shape[2])
        self.gradients = None if self.gram else Materialised(b.mT @ a)

    def squares(self) -> Tensor:
        if self.gradients is not None:
            return self.gradients.squares()
        if self.a.shape[1] == 1:
            return Materialised(self.a).squares() * Materialised(self.b).squares()
        terms = self.a.shape[2] + self.b.shape[2]
        return squares_of((self.a @ self.a.mT).mul_(self.b @ self.b.mT), terms)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        if self.gradients is not None:
            return self.gradients.weighted_sum(weights)
        scale = weights.view(-1, 1, 1)  # of the smaller one
        a, b = (self.a * scale, self.b) if self.a.shape[2] < self.b.shape[2] else (self.a, self.b * scale)
        return b.flatten(0, 1).mT @ a.flatten(0, 1)


class Shared:
    """g_ki = Σ_rt b_kirt a_krtᵀ: all i of a group k have the same inputs, of R rows of T positions each.

    For every call of the layer a (K, R, D_in, T) and b (K, R, I, D_out, T); the examples are those of all groups, one
    group's after another's.  The a, patches of a convolution, are large and not kept: ``weighted`` makes the gradient
    of the calls' Σ_i w_ki b_ki, (K·R, D_out, T).
    """

    def __init__(self, a: list[Tensor], b: list[Tensor], weighted: Callable[[list[Tensor]], Tensor]) -> None:
        self.b, self.weighted = b, weighted
        (_, _, d_in, positions), d_out = a[0].shape, b[0].shape[3]
        if len(a) == 1 and d_in * d_out <= (d_in + d_out) * positions:  # less than laying both out once more would be
            gradients = (b[0].flatten(2, 3) @ a[0].mT).sum(1)
        else:
            of_a = torch.cat([call.transpose(1, 2).flatten(2) for call in a], dim=-1)  # (K, D_in, all T)
            of_b = torch.cat([call.permute(0, 2, 3, 1, 4).flatten(3) for call in b], dim=-1)  # (K, I, D_out, all T)
            if gram_is_smaller(of_a.shape[-1], d_in, d_out):
                products = (of_b.mT @ of_b).mul_((of_a.mT @ of_a).unsqueeze(1))
                self._squares = squares_of(products, d_in + d_out).flatten()
                return
            gradients = of_b.flatten(1, 2) @ of_a.mT
        self._squares = squares_of_vectors(gradients.unflatten(1, (-1, d_out)).flatten(2)).flatten()

    def squares(self) -> Tensor:
        return self._squares

    def weighted_sum(self, weights: Tensor) -> Tensor:
        groups = len(self.b[0])
        calls = [torch.einsum("ki,kriot->krot", weights.view(groups, -1), call).flatten(0, 1) for call in self.b]
        return self.weighted(calls)


class Rows:
    """g_i has b_it added to row index_it, for all t: index (B, T), b (B, T, D); an embedding."""

    def __init__(self, index: Tensor, b: Tensor, shape: torch.Size) -> None:
        self.index, self.b, self.shape = index, b, shape

    def squares(self) -> Tensor:
        same = self.index.unsqueeze(1) == self.index.unsqueeze(2)  # (B, T, T)
        return squares_of((self.b @ self.b.mT).mul_(same), self.b.shape[2])

    def weighted_sum(self, weights: Tensor) -> Tensor:
        rows = (self.b * weights.view(-1, 1, 1)).flatten(0, 1)
        return torch.zeros(self.shape, dtype=rows.dtype, device=rows.device).index_add_(0, self.index.flatten(), rows)
