"""v2's light VGG, taken to be that of its Table 1: 2×64, pool, 2×128, pool, 4×256, pool, average pool, 512, K.

A norm layer after every trainable layer but the last.  2,462,282 parameters at K = 10, 2,466,122 with batch norm.
"""

from torch import nn

from lib.layers import MaxPool2d, NoisyLinear
from lib.models import norm_layer
from lib.models.vgg16 import BLOCKS, convolutions


def build(*, norm: str, activation: type[nn.Module], classes: int, width: int = 64) -> nn.Module:
    """Images (B, 3, 32, 32) → logits (B, K); ``width`` is the number of channels of the first block.

    A max-pooling of the 8×8 map comes before the average.
    """
    return nn.Sequential(
        *convolutions(BLOCKS[:3], width, norm, activation),
        MaxPool2d(2),  # (B, 4·width, 4, 4)
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),  # (B, 4·width)
        NoisyLinear(4 * width, 512),
        *norm_layer(norm, 512),
        activation(),
        NoisyLinear(512, classes),
    )
