"""ResNet-18 for 32×32 images: conv 64, four stages of two residual blocks with 64, 128, 256, 512 channels, K.

3×3 first convolution without pooling, projections where the shape changes: 20 convolutions, 20 norm layers and one
linear layer, the 62 parameter tensors that bc counts as layers.  11,173,962 parameters at K = 10 with batch norm.
v2 Table 3 has it without the last of its norm layers, that of the last block, and with a 21st after the linear layer.
"""

from torch import Tensor, nn

from lib.layers import NoisyConv2d, NoisyLinear
from lib.models import norm_layer

STAGES = ((1, 1), (2, 2), (4, 2), (8, 2))  # channels as multiples of the first stage's, stride of the first block


class Block(nn.Module):
    """x → act(norm(conv(act(norm(conv(x))))) + shortcut(x)); (B, C_in, H, W) → (B, C_out, H/stride, W/stride)."""

    def __init__(
        self,
        channels: tuple[int, int],
        size: int,
        stride: int,
        norm: str,
        activation: type[nn.Module],
        *,
        last_norm: bool = True,
    ) -> None:
        super().__init__()
        before, after = channels
        self.residual = nn.Sequential(
            NoisyConv2d(before, after, 3, stride=stride, padding=1, bias=False),
            *norm_layer(norm, after, size, size),
            activation(),
            NoisyConv2d(after, after, 3, padding=1, bias=False),
            *(norm_layer(norm, after, size, size) if last_norm else []),
        )
        self.shortcut = nn.Sequential()
        if channels[0] != channels[1]:
            project = NoisyConv2d(before, after, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(project, *norm_layer(norm, after, size, size))
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.residual(x) + self.shortcut(x))


def build(
    *, norm: str, activation: type[nn.Module], classes: int, width: int = 64, last_norm: str = "as_designed"
) -> nn.Module:
    """Images (B, 3, 32, 32) → logits (B, K); ``width`` is the number of channels of the first stage."""
    layers = [NoisyConv2d(3, width, 3, padding=1, bias=False), *norm_layer(norm, width, 32, 32), activation()]
    before, size = width, 32
    for multiple, stride in STAGES:
        size //= stride
        normed = multiple < STAGES[-1][0] or last_norm != "removed"
        layers += [
            Block((before, multiple * width), size, stride, norm, activation),
            Block((multiple * width, multiple * width), size, 1, norm, activation, last_norm=normed),
        ]
        before = multiple * width
    after = norm_layer(norm, classes) if last_norm == "added" else []
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), NoisyLinear(before, classes), *after)
