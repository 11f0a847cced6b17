"""Max-pooling, several times as fast on a CPU where no gradient is wanted: in tests, and where statistics are found."""

import torch
from torch import Tensor, nn


class MaxPool2d(nn.MaxPool2d):
    """The largest of every window; twin of :class:`torch.nn.MaxPool2d`, with its arguments, shapes, errors and results.

    torch's kernel also finds where the largest is, which a gradient alone needs.  Without one, on a CPU, the largest of
    windows of 2 × 2 is that of four slices.
    """

    def forward(self, input: Tensor) -> Tensor:
        if torch.is_grad_enabled() or input.device.type != "cpu" or not self._is_of_slices(input):
            return super().forward(input)
        of_rows = _larger_neighbour(input, self.stride, dim=-2)
        return _larger_neighbour(of_rows, self.stride, dim=-1)

    def _is_of_slices(self, input: Tensor) -> bool:
        if input.dim() not in (3, 4) or not min(input.shape[-3:]):  # torch's words for it
            return False
        height, width = input.shape[-2:]
        plain = (self.kernel_size, self.padding, self.dilation, self.return_indices) == (2, 0, 1, False)
        strided = plain and isinstance(self.stride, int) and min(height, width) >= 2
        left_over = strided and ((height - 2) % self.stride or (width - 2) % self.stride)
        return strided and not (self.ceil_mode and left_over)


def _larger_neighbour(x: Tensor, stride: int, dim: int) -> Tensor:
    """max(x_i, x_{i+1}) along ``dim``, for every ``stride``-th i."""
    pairs = x.unfold(dim, 2, stride)
    return torch.maximum(pairs[..., 0], pairs[..., 1])
