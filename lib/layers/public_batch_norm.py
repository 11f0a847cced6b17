"""Batch norm whose statistics come from public examples (v2 algorithm 1, and the variants of it that are private).

A layer by itself cannot tell public rows from private ones: :class:`~lib.layers.with_public.WithPublic` lays the rows
out and tells it.  There are no running averages, so nothing is released that is not accounted for.
"""

from dataclasses import dataclass

import torch
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
        """(G·(P + M), …) → (G, P + M, …).

        (G·P + M, …) is allowed too: until the first statistics are taken, the public rows of all groups are the same,
        and need be there only once.
        """
        if len(x) == self.groups * (self.private + self.public):
            return x.unflatten(0, (self.groups, -1))
        private, public = x.split([self.groups * self.private, self.public])
        return torch.cat(
            [private.unflatten(0, (self.groups, self.private)), public.expand(self.groups, *public.shape)], 1
        )

    def seen(self, rows: Tensor) -> Tensor:
        """The part of (G, P + M, …) whose statistics are taken."""
        return rows[:, self.private :] if self.public_alone else rows


class PublicBatchNorm(nn.Module):
    """x̂ = (x − µ)/√(σ² + eps), γ x̂ + β, for x (B, C) or (B, C, H, W); µ and σ² per channel, σ² biased (v2 eq. 1, 2).

    ``rows`` says whose statistics µ and σ² are, and ``found`` then holds them, (G, C) each; or ``given`` has them,
    (B, C) or (1, C), and they are constants.  Without either a pass raises ``RuntimeError``.
    """

    def __init__(self, channels: int, *, affine: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.affine = ChannelAffine(channels) if affine else nn.Identity()
        self.rows: Rows | None = None
        self.given: tuple[Tensor, Tensor] | None = None
        self.found: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.given is not None:
            mean, variance = self.given
            return self.affine(self._scaled(x - _beside(mean, x), variance))
        if self.rows is None:
            raise RuntimeError(
                "PublicBatchNorm: expected to be in a model inside WithPublic, which has the public rows"
            )
        rows = self.rows.grouped(x)  # (G, P + M, C, …)
        mean = _positions(self.rows.seen(rows)).mean(3).mean(1)
        centred = rows - _beside(mean.unsqueeze(1), rows)
        # Several times faster on a CPU than torch.var_mean over dimensions that do not lie beside each other.
        deviations = _positions(self.rows.seen(centred))
        variance = torch.linalg.vector_norm(deviations, dim=3).square().mean(1) / deviations.shape[3]
        self.found = mean, variance
        return self.affine(self._scaled(centred, variance.unsqueeze(1)).flatten(0, 1))

    def _scaled(self, centred: Tensor, variance: Tensor) -> Tensor:
        return centred * _beside(torch.rsqrt(variance + self.eps), centred)


def _positions(rows: Tensor) -> Tensor:
    """(G, R, C, …) → (G, R, C, positions)."""
    return rows.flatten(3) if rows.dim() > 3 else rows.unsqueeze(3)


def _beside(statistic: Tensor, x: Tensor) -> Tensor:
    """With the dimensions of x, the positions of which it does not have."""
    return statistic.view(*statistic.shape, *[1] * (x.dim() - statistic.dim()))
