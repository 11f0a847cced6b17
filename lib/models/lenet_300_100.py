"""LeNet-300-100 (v1 appendix A): 300, 100, K fully connected, with ReLU; 266,610 parameters at K = 10.

A norm layer follows every trainable layer, the last one included, on the pre-activations as in v2 eq. 1.
"""

from torch import nn

from lib.layers import NoisyLinear
from lib.models import norm_layer


def build(*, norm: str, activation: type[nn.Module], classes: int) -> nn.Module:
    """Images (B, 1, 28, 28) → logits (B, K)."""
    return nn.Sequential(
        nn.Flatten(),  # (B, 784)
        NoisyLinear(784, 300),
        *norm_layer(norm, 300),
        activation(),
        NoisyLinear(300, 100),
        *norm_layer(norm, 100),
        activation(),
        NoisyLinear(100, classes),
        *norm_layer(norm, classes, last=True),
    )
