"""BiLSTM and a dense layer (v1, v2: BiLSTM-DL), with or without layer norm: 32 hidden units each way, as in v1's code.

The dense layer sees the last hidden state of either way.  With layer norm both maps of the cell and the dense layer are
normalised.
"""

import torch
from torch import Tensor, nn

from lib.layers import NoisyLinear, NoisyLSTM
from lib.models import norm_layer

HIDDEN = 32
NORMS = ("none", "layer", "layer_without_affine")


class BiLSTM(nn.Module):
    """Word vectors (B, T, D) → logits (B, K); positions whose vector is 0 at the end of a text are padding."""

    def __init__(self, features: int, classes: int, norm: str) -> None:
        super().__init__()
        self.lstm = NoisyLSTM(
            features, HIDDEN, bidirectional=True, norm=lambda size: nn.Sequential(*norm_layer(norm, size))
        )
        self.dense = nn.Sequential(NoisyLinear(2 * HIDDEN, classes), *norm_layer(norm, classes, last=True))

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(1, x.shape[1] + 1, device=x.device)
        states = self.lstm(x, lengths=(x.any(2) * positions).amax(1))
        return self.dense(torch.cat([states[:, -1, :HIDDEN], states[:, 0, HIDDEN:]], dim=1))


def build(*, norm: str, activation: type[nn.Module], classes: int, features: int) -> nn.Module:
    """Word vectors (B, T, features) → logits (B, K)."""
    if norm not in NORMS:
        raise ValueError(f"norm: expected one of {', '.join(NORMS)} for model 'bilstm'; got {norm!r}")
    if activation is not nn.ReLU:
        raise ValueError("activation: expected 'relu' for model 'bilstm', which has its own; got another")
    return BiLSTM(features, classes, norm)
