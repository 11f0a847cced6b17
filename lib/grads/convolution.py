"""Per-example gradients of a convolution's weight.

A convolution is a linear map of patches: at T = H' W' positions, from D_in = C_in/G · k² to D_out = C_out/G numbers,
for each of G groups.  Patches are k² times as large as the image, so they are laid out for a few examples at a time.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.grads.chunks import chunks
from lib.grads.contractions import ROUNDING, Materialised, gram_is_faster, gram_is_smaller, squares_of


class Convolution:
    """g_i = Σ_t b_it a_itᵀ with a the patches of ``inputs``, b the output ``gradients``, of every call of ``layer``."""

    def __init__(self, layer: nn.Conv2d, inputs: list[Tensor], gradients: list[Tensor]) -> None:
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        self.layer, self.gradients = layer, gradients
        self.inputs = [F.pad(x, layer._reversed_padding_repeated_twice, mode=mode) for x in inputs]
        positions = sum(g[0, 0].numel() for g in gradients)
        d_out, d_in = layer.out_channels // layer.groups, layer.weight[0].numel()
        self.gram = gram_is_smaller(positions, d_in, d_out)
        self._gram_is_faster = gram_is_faster(positions, d_in, d_out)
        self._bytes = positions * d_in * layer.groups * gradients[0].element_size()
        self.materialised = None if self.gram else Materialised(self._each())

    def squares(self) -> Tensor:
        if self.materialised is not None:
            return self.materialised.squares()
        return torch.cat([self._squares(self._patches(part), self._outputs(part)) for part in self._chunks()])

    def _squares(self, a: Tensor, b: Tensor) -> Tensor:
        if self._gram_is_faster:
            return squares_of((a.mT @ a).mul_(b.mT @ b)).sum(1)
        # The gradients of a few examples, given up at once.  Rounded up, as what is added up is made once more.
        sizes = [torch.linalg.vector_norm(part, dim=(2, 3)) for part in (a @ b.mT, a, b)]
        return (sizes[0] + ROUNDING * torch.finfo(a.dtype).eps * sizes[1] * sizes[2]).square().sum(1)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        if self.materialised is not None:
            return self.materialised.weighted_sum(weights).mT.reshape(self.layer.weight.shape)
        layer, scale = self.layer, weights.view(-1, 1, 1, 1)
        how = {"stride": layer.stride, "dilation": layer.dilation, "groups": layer.groups}
        return sum(
            nn.grad.conv2d_weight(x, layer.weight.shape, g * scale, **how)
            for x, g in zip(self.inputs, self.gradients, strict=True)
        )

    def _each(self) -> Tensor:
        """The gradients, (B, G, D_in, D_out)."""
        return torch.cat([self._patches(part) @ self._outputs(part).mT for part in self._chunks()])

    def _chunks(self):
        return chunks(len(self.inputs[0]), self._bytes, self.inputs[0].device)

    def _patches(self, part: slice) -> Tensor:
        """(b, G, D_in, T) for b examples."""
        patches = [self._patches_of(x[part], g) for x, g in zip(self.inputs, self.gradients, strict=True)]
        return torch.cat(patches, dim=3) if len(patches) > 1 else patches[0]

    def _patches_of(self, x: Tensor, outputs: Tensor) -> Tensor:
        layer, (b, c, h, w) = self.layer, x.stride()
        (down, right), (below, beside) = layer.stride, layer.dilation
        # A view in which every patch exists, then one copy along rows: several times faster than F.unfold.
        view = x.as_strided(
            (len(x), x.shape[1], *layer.kernel_size, *outputs.shape[2:]),
            (b, c, h * below, w * beside, h * down, w * right),
            x.storage_offset(),
        )
        return view.reshape(len(x), layer.groups, -1, outputs[0, 0].numel())

    def _outputs(self, part: slice) -> Tensor:
        """(b, G, D_out, T) for b examples."""
        outputs = [g[part].flatten(2).unflatten(1, (self.layer.groups, -1)) for g in self.gradients]
        return torch.cat(outputs, dim=3) if len(outputs) > 1 else outputs[0]
