"""abadi's MNIST network: a fixed 60-dimensional (private) PCA, 1000 ReLU units, K; 71,010 trained parameters at K = 10.

The projection is set from the training data before training, see :mod:`lib.pca`.
"""

from torch import nn

from lib.layers import NoisyLinear, Projection
from lib.models import norm_layer


def build(*, norm: str, activation: type[nn.Module], classes: int) -> nn.Module:
    """Images (B, 1, 28, 28) → logits (B, K)."""
    return nn.Sequential(
        nn.Flatten(),  # (B, 784)
        Projection(784, 60),
        NoisyLinear(60, 1000),
        *norm_layer(norm, 1000),
        activation(),
        NoisyLinear(1000, classes),
        *norm_layer(norm, classes, last=True),
    )
