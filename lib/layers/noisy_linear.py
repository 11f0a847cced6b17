"""Linear layer with Gaussian noise on its weights; twin of :class:`torch.nn.Linear`."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.layers.weight_noise import WeightNoise


class NoisyLinear(WeightNoise, nn.Linear):
    """``y = x (W + σ ξ_W)ᵀ + b + σ ξ_b`` with ``ξ ~ N(0, 1)`` drawn afresh in every forward pass, training or not.

    **Arguments** those of :class:`torch.nn.Linear`, and
    ``noise_std`` σ, in the unit of the weights; ``noise_on_bias``; ``generator`` (None: torch's default one).

    **Shapes** x ``(..., D_in)`` → y ``(..., D_out)``.

    **Raises** ``ValueError`` if σ is negative or not finite.

    **Source** v2 section 2; the authors' code calls it ``SILinear``.

        >>> layer = NoisyLinear(3, 2, noise_std=0.1)
        >>> layer(torch.ones(4, 3)).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        *,
        noise_std: float = 0.0,
        noise_on_bias: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self._set_noise(noise_std, noise_on_bias, generator)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, *self._noisy_parameters())
