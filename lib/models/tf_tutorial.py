"""TensorFlow's CIFAR-10 tutorial network (abadi section 5.3): conv 64, pool, conv 64, pool, 384, 384, K, with ReLU.

5×5 kernels on 24×24 crops, 2×2 max-pooling: 1,144,138 parameters at K = 10.  A norm layer, on the pre-activations,
after each trainable layer but the last; the tutorial's local response normalisation is left out, as in abadi.
"""

from torch import nn

from lib.layers import MaxPool2d, NoisyConv2d, NoisyLinear
from lib.models import norm_layer


def build(*, norm: str, activation: type[nn.Module], classes: int) -> nn.Module:
    """Images (B, 3, 24, 24) → logits (B, K)."""
    return nn.Sequential(
        NoisyConv2d(3, 64, 5, padding=2),  # (B, 64, 24, 24)
        *norm_layer(norm, 64, 24, 24),
        MaxPool2d(2),  # max and a rising activation commute; pooling first saves three quarters of the work
        activation(),
        NoisyConv2d(64, 64, 5, padding=2),  # (B, 64, 12, 12)
        *norm_layer(norm, 64, 12, 12),
        MaxPool2d(2),
        activation(),
        nn.Flatten(),  # (B, 2304)
        NoisyLinear(2304, 384),
        *norm_layer(norm, 384),
        activation(),
        NoisyLinear(384, 384),
        *norm_layer(norm, 384),
        activation(),
        NoisyLinear(384, classes),
    )
