"""Batch norm on running averages of private statistics, noised before they are used (v2 eq. 9 and 10).

v2 names this the worst case that "drops drastically" and gives the sensitivities of a channel's mean and variance over
L activations that are clipped to C',

    ``S_µ = C'/L``,    ``S_σ² = C'² (3/L − 3/L² + 1/L³)``.

Made sound: training normalises with the averages of *earlier* steps, which are released, so that no example's gradient
depends on another; every step releases Σ_i m_i / L and Σ_i s_i / L with m_i and s_i the means of example i's clipped
activations and of their squares, in [−C', C'] and [0, C'²], L the expected batch size.  Their sensitivities are S_µ and
C'²/L; the variance is their post-processing.  All channels of all layers, D of each, go out together, so each is noised
by √(2D) times its sensitivity: S_µ, and for the squares v2's S_σ², which is up to three times what they need.
"""

import math

import torch
from torch import Tensor, nn

from lib import gaussian

MOMENTUM = 0.1  # α of v2 eq. 9 and 10, torch's default
EPS = 1e-5  # torch's default
LEAST_VARIANCE = 1e-2  # a noised variance may be negative


class NoisedBatchNorm(nn.Module):
    """(x − µ)/√(σ² + EPS) with noised running averages, for x (B, C) or (B, C, H, W).

    From :meth:`watch` to :meth:`release` every pass is counted: one batch, each example once.  There are no γ and β.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))
        self.clip_norm: float | None = None
        self.sums: Tensor | None = None  # (2, C): of m_i and of s_i

    def watch(self, clip_norm: float) -> None:
        """Sum up the statistics of the passes from here on, with activations clipped to C' = ``clip_norm``."""
        self.clip_norm, self.sums = clip_norm, self.mean.new_zeros(2, len(self.mean))

    def forward(self, x: Tensor) -> Tensor:
        if self.sums is not None:
            self.sums += self._moments(x.detach()).sum(1)
        shape = (-1, *[1] * (x.dim() - 2))
        scale = torch.rsqrt(self.variance + EPS)
        return (x - self.mean.view(shape)) * scale.view(shape)

    def _moments(self, x: Tensor) -> Tensor:
        """m_i and s_i, (2, B, C); 0 in a channel where an example is not finite."""
        x = x.flatten(2) if x.dim() > 2 else x.unsqueeze(2)
        clipped = x.clamp(-self.clip_norm, self.clip_norm)
        moments = torch.stack([clipped.mean(2), clipped.square().mean(2)])
        return torch.where(x.isfinite().all(2), moments, 0.0)

    @torch.no_grad()
    def release(
        self, *, expected_batch_size: int, noise_multiplier: float, released: int, generator: torch.Generator
    ) -> None:
        """Noise the sums of the batch and follow them with the averages; ``released`` is D, the channels of all layers.

        ``noise_multiplier`` is noise std ÷ sensitivity of everything that is released together.  Where an example is
        replaced the means move by up to 2 S_µ and the squares by no more: the 2 of the event's sensitivity covers both.
        """
        std = noise_multiplier * math.sqrt(2 * released)
        moved = sensitivities(self.clip_norm, expected_batch_size)
        mean, square = (
            gaussian.hide(row, std * sensitivity, generator)
            for row, sensitivity in zip(self.sums / expected_batch_size, moved, strict=True)
        )
        variance = (square - mean.square()).clamp(min=LEAST_VARIANCE)
        self.mean.lerp_(mean, MOMENTUM)
        self.variance.lerp_(variance, MOMENTUM)
        self.sums = None


def sensitivities(clip_norm: float, batch_size: int) -> tuple[float, float]:
    """v2's S_µ and S_σ²."""
    return (
        clip_norm / batch_size,
        clip_norm**2 * (3 / batch_size - 3 / batch_size**2 + 1 / batch_size**3),
    )
