"""VGG-16 as v1 appendix A prints it: 2×64, pool, 2×128, pool, 4×256, pool, 4×512, pool, 4×512, average pool, K.

16 convolutions of 3×3, padding 1, a norm layer and an activation after each; v1's code has three in the 256 block, and
Simonyan and Zisserman three in each of the last.  20,040,522 parameters at K = 10 with batch norm.  v2 Table 3 has it
without the last of its 16 norm layers, and with a 17th after the linear layer.
"""

from torch import nn

from lib.layers import MaxPool2d, NoisyConv2d, NoisyLinear
from lib.models import norm_layer

BLOCKS = ((1, 2), (2, 2), (4, 4), (8, 4), (8, 4))  # channels as multiples of the first block's, convolutions


def convolutions(
    blocks: tuple[tuple[int, int], ...],
    width: int,
    norm: str,
    activation: type[nn.Module],
    *,
    last_norm: bool = True,
) -> list[nn.Module]:
    """The layers of ``blocks`` on images (B, 3, 32, 32), with max-pooling between blocks."""
    layers: list[nn.Module] = []
    before, size = 3, 32
    for place, (multiple, count) in enumerate(blocks, start=1):
        for convolution in range(1, count + 1):
            normed = last_norm or (place, convolution) < (len(blocks), count)
            after = multiple * width
            layers += [
                NoisyConv2d(before, after, 3, padding=1),
                *(norm_layer(norm, after, size, size) if normed else []),
                activation(),
            ]
            before = after
        if place < len(blocks):
            # Rounded up, which 32×32 images do not need: the 8×8 ones of tier smoke shrink to 1×1 and stay there.
            layers.append(MaxPool2d(2, ceil_mode=True))
            size //= 2
    return layers


def build(
    *, norm: str, activation: type[nn.Module], classes: int, width: int = 64, last_norm: str = "as_designed"
) -> nn.Module:
    """Images (B, 3, 32, 32) → logits (B, K); ``width`` is the number of channels of the first block."""
    return nn.Sequential(
        *convolutions(BLOCKS, width, norm, activation, last_norm=last_norm != "removed"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),  # (B, 8·width)
        NoisyLinear(BLOCKS[-1][0] * width, classes),
        *(norm_layer(norm, classes) if last_norm == "added" else []),
    )
