"""bc's BN-LeNet-5 (its Table 2): conv 6, 16, 120 with a norm layer after each, average pooling; 84, K.

LeCun's LeNet-5 on 32×32 images: 5×5 kernels without padding, the third convolution 1×1 in the end, tanh in bc.  61,706
parameters at K = 10, 61,990 with batch norm.
"""

from torch import nn

from lib.layers import NoisyConv2d, NoisyLinear
from lib.models import norm_layer


def build(*, norm: str, activation: type[nn.Module], classes: int) -> nn.Module:
    """Images (B, 1, 32, 32) → logits (B, K).  The norm layer follows the activation, as bc prints it."""
    return nn.Sequential(
        NoisyConv2d(1, 6, 5),  # (B, 6, 28, 28)
        activation(),
        *norm_layer(norm, 6, 28, 28),
        nn.AvgPool2d(2),
        NoisyConv2d(6, 16, 5),  # (B, 16, 10, 10)
        activation(),
        *norm_layer(norm, 16, 10, 10),
        nn.AvgPool2d(2),
        NoisyConv2d(16, 120, 5),  # (B, 120, 1, 1)
        activation(),
        *norm_layer(norm, 120, 1, 1),
        nn.Flatten(),
        NoisyLinear(120, 84),
        activation(),
        NoisyLinear(84, classes),
    )
