"""A fixed linear projection, set once before training."""

import torch
from torch import Tensor, nn


class Projection(nn.Module):
    """``y = x Pᵀ`` with fixed, not trained, P: (D_out, D_in), zero until it is set; x (B, D_in) → y (B, D_out).

    **Source** abadi, the PCA layer in front of its MNIST network; :mod:`lib.pca` computes P.

        >>> layer = Projection(784, 60)
        >>> layer(torch.ones(4, 784)).shape, len(list(layer.parameters()))
        (torch.Size([4, 60]), 0)
    """

    components: Tensor

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.register_buffer("components", torch.zeros(out_features, in_features))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.components.T

    def extra_repr(self) -> str:
        return f"{self.components.shape[1]}, {self.components.shape[0]}"
