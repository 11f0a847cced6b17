"""Batch norm whose statistics come from public examples (v2 algorithm 1, and the variants of it that are private).

A layer by itself cannot tell public rows from private ones: :class:`~lib.layers.with_public.WithPublic` lays the rows
out and tells it.  There are no running averages, so nothing is released that is not accounted for.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ChannelAffine(nn.Module):
    """y = γ x + β with one γ and one β for each of C channels; x (B, C, …)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        shape = (-1, *[1] * (x.dim() - 2))
        return x * self.weight.view(shape) + self.bias.view(shape)


@dataclass(frozen=True)
class Rows:
    """How the rows of a pass lie: G groups, each of P private and then M public examples.

    Statistics are taken over each group by itself, over its ``public`` examples alone or over all of them.
    """

    groups: int
    private: int
    public: int
    public_alone: bool

    def grouped(self, x: Tensor) -> Tensor:
        """(G·(P + M), …) → (G, P + M, …), and so (G·P + M, …), where all groups' public rows are the same."""
        private, public = self._parts(x)
        if len(public) == self.groups:
            return x.unflatten(0, (self.groups, -1))
        return torch.cat([private, public.expand(self.groups, *public.shape[1:])], 1)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, (G, C) or (1, C) each, of what the groups of x (G·(P + M) or G·P + M, C, …) take."""
        private, public = self._parts(x)
        public_mean, public_variance = _moments(public)
        if self.public_alone:
            return public_mean, public_variance
        mean, variance = _moments(private)
        share, away = self.public / (self.private + self.public), public_mean - mean
        within = (1.0 - share) * variance + share * public_variance
        return mean + share * away, within + share * (1.0 - share) * away.square()

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The private rows (G, P, …), and the public ones (G, M, …), or (1, M, …) where all groups' are the same."""
        if len(x) == self.groups * (self.private + self.public):
            return x.unflatten(0, (self.groups, -1)).split([self.private, self.public], 1)
        private, public = x.split([self.groups * self.private, self.public])
        return private.unflatten(0, (self.groups, self.private)), public.unsqueeze(0)


EPS = 1e-5  # torch's default


class PublicBatchNorm(nn.Module):
    """x̂ = (x − µ)/√(σ² + EPS), γ x̂ + β, for x (B, C) or (B, C, H, W); µ and σ² per channel, σ² biased (v2 eq. 1, 2).

    ``rows`` says whose statistics µ and σ² are, and ``found`` then holds them, (G, C) each; or ``given`` has them,
    (B, C) or (1, C), and they are constants.  Without either a pass raises ``RuntimeError``.  ``pool``: max-pooling of
    the result.  Of statistics found apart from x̂ it is done before x is scaled, to the same effect (of the smallest
    where γ < 0), so that most of the work is on a pooled x, and all groups' public rows are pooled once.
    """

    def __init__(self, channels: int, *, affine: bool = True, pool: nn.MaxPool2d | None = None) -> None:
        super().__init__()
        self.affine = ChannelAffine(channels) if affine else nn.Identity()
        self.pool = pool
        self.rows: Rows | None = None
        self.given: tuple[Tensor, Tensor] | None = None
        self.found: tuple[Tensor, Tensor] | tuple[()] | None = None  # () where a gradient needs them and nobody else

    def forward(self, x: Tensor) -> Tensor:
        if self.given is not None:
            return self.affine(self._scaled(self._pooled(x), *self.given))
        if self.rows is None:
            raise RuntimeError(
                "PublicBatchNorm: expected to be in a model inside WithPublic, which has the public rows"
            )
        if self.found is not None:
            raise RuntimeError("PublicBatchNorm: expected one call in a pass; got two: use a layer for each place")
        if torch.is_grad_enabled() and not self.rows.public_alone:
            self.found = ()
            x = self.affine(self._by_group(x))
            return x if self.pool is None else self.pool(x)
        mean, variance = self.found = self.rows.moments(x)
        rows = self.rows.grouped(self._pooled(x))  # (G, P + M, C, …)
        return self.affine(self._scaled(rows, mean.unsqueeze(1), variance.unsqueeze(1)).flatten(0, 1))

    def _by_group(self, x: Tensor) -> Tensor:
        """x̂, every group by its own statistics: torch's batch norm of G·C channels, several times as fast back."""
        rows = self.rows.grouped(x).transpose(0, 1)  # (P + M, G, C, …)
        scaled = F.batch_norm(rows.flatten(1, 2), None, None, training=True, eps=EPS)
        return scaled.view(rows.shape).transpose(0, 1).flatten(0, 1)

    def _pooled(self, x: Tensor) -> Tensor:
        if self.pool is None:
            return x
        if isinstance(self.affine, nn.Identity):
            return self.pool(x)
        signs = torch.where(self.affine.weight < 0, -1.0, 1.0).to(x.dtype).view(-1, 1, 1)
        return self.pool(x * signs) * signs

    def _scaled(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return (x - _beside(mean, x)) * _beside(torch.rsqrt(variance + EPS), x)


def _moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (G, C) of rows (G, R, C, …)."""
    positions = rows.flatten(3) if rows.dim() > 3 else rows.unsqueeze(3)
    mean = positions.mean(3, dtype=torch.promote_types(rows.dtype, torch.float32)).mean(1)  # under autocast, too
    # Several times faster on a CPU than torch.var_mean over dimensions that do not lie beside each other.
    deviations = positions - mean[:, None, :, None]
    return mean, torch.linalg.vector_norm(deviations, dim=3).square().mean(1) / positions.shape[3]


def _beside(statistic: Tensor, x: Tensor) -> Tensor:
    """With the dimensions of x, the positions of which it does not have."""
    return statistic.view(*statistic.shape, *[1] * (x.dim() - statistic.dim()))
