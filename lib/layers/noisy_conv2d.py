"""2d convolution with Gaussian noise on its weights; twin of :class:`torch.nn.Conv2d`."""

from typing import Any

import torch
from torch import Tensor, nn

from lib.layers.weight_noise import WeightNoise


class NoisyConv2d(WeightNoise, nn.Conv2d):
    """``y = x ∗ (W + σ ξ_W) + b + σ ξ_b`` with ``ξ ~ N(0, 1)`` drawn afresh in every forward pass, training or not.

    **Arguments** those of :class:`torch.nn.Conv2d` (stride, padding, padding_mode, dilation, groups, …), and
    ``noise_std`` σ, in the unit of the weights; ``noise_on_bias``; ``generator`` (None: torch's default one).

    **Shapes** x ``(B, C_in, H, W)`` → y ``(B, C_out, H', W')``, H' and W' as for :class:`torch.nn.Conv2d`.

    **Raises** ``ValueError`` if σ is negative or not finite.

    **Source** v2 section 2; the authors' code calls it ``SIConv2d``.

        >>> layer = NoisyConv2d(1, 6, 5, padding=2, noise_std=0.1)
        >>> layer(torch.ones(4, 1, 28, 28)).shape
        torch.Size([4, 6, 28, 28])
    """

    def __init__(
        self,
        *args: Any,
        noise_std: float = 0.0,
        noise_on_bias: bool = True,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._set_noise(noise_std, noise_on_bias, generator)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, *self._noisy_parameters())
