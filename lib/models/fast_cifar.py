"""Fast-CIFAR-ResNet (v1 appendix A): 64, 128, pool, 2×128, 256, pool, 512, pool, 2×512, pool, K.

As in davidcpage/cifar10-fast the pairs of equal width are residual, convolutions are 3×3 without biases, each followed
by a norm layer and an activation, the linear layer has no bias, and its logits are divided by 8.  6,573,120 parameters
at K = 10 with batch norm.
"""

from torch import Tensor, nn

from lib.layers import MaxPool2d, NoisyConv2d, NoisyLinear
from lib.models import norm_layer


class Residual(nn.Module):
    """x → x + f(x), of one shape."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.residual = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.residual(x)


class Scale(nn.Module):
    """x → x · ``factor``."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def build(*, norm: str, activation: type[nn.Module], classes: int, width: int = 64) -> nn.Module:
    """Images (B, 3, 32, 32) → logits (B, K); ``width`` is the number of channels of the first convolution."""

    def convolution(before: int, after: int, size: int) -> list[nn.Module]:
        return [
            NoisyConv2d(before, after, 3, padding=1, bias=False),
            *norm_layer(norm, after, size, size),
            activation(),
        ]

    return nn.Sequential(
        *convolution(3, width, 32),
        *convolution(width, 2 * width, 32),
        MaxPool2d(2),
        Residual(*convolution(2 * width, 2 * width, 16), *convolution(2 * width, 2 * width, 16)),
        *convolution(2 * width, 4 * width, 16),
        MaxPool2d(2),
        *convolution(4 * width, 8 * width, 8),
        MaxPool2d(2),
        Residual(*convolution(8 * width, 8 * width, 4), *convolution(8 * width, 8 * width, 4)),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),  # (B, 8·width)
        NoisyLinear(8 * width, classes, bias=False),
        Scale(1 / 8),
    )
