"""TensorFlow Privacy's MNIST tutorial network: two strided convolutions, 32 units, K; 26,010 parameters at K = 10.

Conv 16 8×8 stride 2 'same', max-pool 2 stride 1, conv 32 4×4 stride 2, max-pool 2 stride 1, 32, K, with ReLU.
"""

from torch import nn

from lib.layers import MaxPool2d, NoisyConv2d, NoisyLinear
from lib.models import norm_layer


def build(*, norm: str, activation: type[nn.Module], classes: int) -> nn.Module:
    """Images (B, 1, 28, 28) → logits (B, K)."""
    return nn.Sequential(
        NoisyConv2d(1, 16, 8, stride=2, padding=3),  # (B, 16, 14, 14)
        *norm_layer(norm, 16, 14, 14),
        activation(),
        MaxPool2d(2, stride=1),  # (B, 16, 13, 13)
        NoisyConv2d(16, 32, 4, stride=2),  # (B, 32, 5, 5)
        *norm_layer(norm, 32, 5, 5),
        activation(),
        MaxPool2d(2, stride=1),
        nn.Flatten(),  # (B, 512)
        NoisyLinear(512, 32),
        *norm_layer(norm, 32),
        activation(),
        NoisyLinear(32, classes),
        *norm_layer(norm, classes, last=True),
    )
