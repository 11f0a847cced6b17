"""bc's convnet (its Table 1): conv 32, 64, 64, 128, each with ReLU, norm layer and average pooling, and K.

3×3 kernels, padding 1; the last pooling is over the whole map.  131,466 parameters at K = 10, 132,042 with batch norm.
"""

from torch import nn

from lib.layers import NoisyConv2d, NoisyLinear
from lib.models import norm_layer


def build(*, norm: str, activation: type[nn.Module], classes: int) -> nn.Module:
    """Images (B, 3, 32, 32) → logits (B, K).  The norm layer follows the activation, as bc prints it."""
    return nn.Sequential(
        NoisyConv2d(3, 32, 3, padding=1),  # (B, 32, 32, 32)
        activation(),
        *norm_layer(norm, 32, 32, 32),
        nn.AvgPool2d(2),
        NoisyConv2d(32, 64, 3, padding=1),  # (B, 64, 16, 16)
        activation(),
        *norm_layer(norm, 64, 16, 16),
        nn.AvgPool2d(2),
        NoisyConv2d(64, 64, 3, padding=1),  # (B, 64, 8, 8)
        activation(),
        *norm_layer(norm, 64, 8, 8),
        nn.AvgPool2d(2),
        NoisyConv2d(64, 128, 3, padding=1),  # (B, 128, 4, 4)
        activation(),
        *norm_layer(norm, 128, 4, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),  # (B, 128)
        NoisyLinear(128, classes),
    )
