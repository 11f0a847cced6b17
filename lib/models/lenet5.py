"""LeNet-5 (v1 appendix A, v2 Table 1): conv 6, pool, conv 16, pool, 120, 84, K, with max-pooling, ReLU by default.

5×5 kernels on 28×28 inputs, the first padded to 32×32: 61,706 parameters at K = 10.  A norm layer
follows every trainable layer, the last one included, on the pre-activations as in v2 eq. 1.
"""

from torch import nn

from lib.layers import MaxPool2d, NoisyConv2d, NoisyLinear
from lib.models import norm_layer


def build(*, norm: str, activation: type[nn.Module], classes: int) -> nn.Module:
    """Images (B, 1, 28, 28) → logits (B, K)."""
    return nn.Sequential(
        NoisyConv2d(1, 6, 5, padding=2),  # (B, 6, 28, 28)
        *norm_layer(norm, 6, 28, 28, pool=MaxPool2d(2)),
        activation(),  # max and a rising activation commute; pooling first saves three quarters of the work
        NoisyConv2d(6, 16, 5),  # (B, 16, 10, 10)
        *norm_layer(norm, 16, 10, 10, pool=MaxPool2d(2)),
        activation(),
        nn.Flatten(),  # (B, 400)
        NoisyLinear(400, 120),
        *norm_layer(norm, 120),
        activation(),
        NoisyLinear(120, 84),
        *norm_layer(norm, 84),
        activation(),
        NoisyLinear(84, classes),
        *norm_layer(norm, classes, last=True),
    )
