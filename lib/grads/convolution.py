"""Per-example gradients of a convolution's weight.

A convolution is a linear map of patches: at T = H' W' positions, from D_in = C_in/G · k² to D_out = C_out/G numbers,
for each of G groups.  Patches are k² times as large as the image, so they are laid out for a few examples at a time,
and not at all for their inner products, which are sums of k² inner products of pixels.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.grads.chunks import chunks
from lib.grads.contractions import Materialised, gram_is_smaller, rounding, squares_of, squares_of_vectors


class Convolution:
    """g_i = Σ_t b_it a_itᵀ with a the patches of ``inputs``, b the output ``gradients``, of every call of ``layer``."""

    def __init__(self, layer: nn.Conv2d, inputs: list[Tensor], gradients: list[Tensor]) -> None:
        self.layer, self.inputs, self.gradients = layer, inputs, gradients
        positions = sum(g[0, 0].numel() for g in gradients)
        pixels = padded(layer, inputs[0][:1])[0, 0].numel()
        d_out, (c_in, *kernel) = layer.out_channels // layer.groups, layer.weight[0].shape
        d_in = c_in * kernel[0] * kernel[1]
        self._shape, self._terms = (layer.groups, d_in, d_out), d_in + d_out
        self.gram = gram_is_smaller(positions, d_in, d_out)
        # By arithmetic, of which a gradient's counts twice, for its memory.
        less = pixels**2 * c_in + positions**2 * d_out < 2 * positions * d_in * d_out
        self.gram_is_faster = less and len(inputs) == 1
        number = layer.groups * gradients[0].element_size()
        self._bytes_of_patches, self._bytes_of_gram = positions * d_in * number, (pixels**2 + positions**2) * number
        self.materialised = None if self.gram else Materialised(self._each())

    def squares(self) -> Tensor:
        if self.materialised is not None:
            return self.materialised.squares()
        if self.gram_is_faster:
            return torch.cat([self._by_products(part) for part in self._chunks(self._bytes_of_gram)])
        return torch.cat([self._by_gradients(part) for part in self._chunks(self._bytes_of_patches)])

    def weighted_sum(self, weights: Tensor) -> Tensor:
        if self.materialised is not None:
            return self.materialised.weighted_sum(weights).mT.reshape(self.layer.weight.shape).contiguous()
        scale = weights.view(-1, 1, 1, 1)
        calls = zip(self.inputs, self.gradients, strict=True)
        total, *others = [weight_gradient(self.layer, x, g * scale) for x, g in calls]
        return sum(others, total)

    def _by_products(self, part: slice) -> Tensor:
        """‖g_i‖² from the inner products of the patches and those of the outputs; of one call."""
        b = self._outputs(part)
        return squares_of(self._products_of_patches(part).mul_(b.mT @ b), self._terms).sum(1)

    def _products_of_patches(self, part: slice) -> Tensor:
        """a_t · a_t', (b, G, T, T): the inner products of the pixels t + o and t' + o, summed over k² offsets o."""
        layer, (height, width) = self.layer, self.gradients[0].shape[2:]
        x = padded(layer, self.inputs[0][part])
        pixels = x.unflatten(1, (layer.groups, -1)).flatten(3)  # (b, G, C_in/G, n)
        products = pixels.mT @ pixels  # (b, G, n, n)
        (down, right), (below, beside), w, n = layer.stride, layer.dilation, x.shape[3], pixels.shape[3]
        # Offsets down, for all columns, and then offsets to the side: 2k shifted copies to add up, not k².
        sizes, strides = (height, w, height, w), (below * w * (n + 1), down * w * n, n, down * w, 1)
        products = _sum_of_shifted(products, (layer.kernel_size[0], *sizes), strides)
        n = height * w
        sizes, strides = (height, width, height, width), (beside * (n + 1), w * n, right * n, w, right)
        return _sum_of_shifted(products, (layer.kernel_size[1], *sizes), strides).flatten(4, 5).flatten(2, 3)

    def _by_gradients(self, part: slice) -> Tensor:
        """‖g_i‖² from the gradients, given up at once; rounded up, as what is added up is made once more."""
        a, b = self._patches(part), self._outputs(part)
        norms, *lengths = (squares_of_vectors(values.flatten(2)).sqrt() for values in (a @ b.mT, a, b))
        return (norms + rounding(a.shape[3], a.dtype) * lengths[0] * lengths[1]).square().sum(1)

    def _each(self) -> Tensor:
        """The gradients, (B, G, D_in, D_out); each chunk's are written where they stay, and not put together after."""
        gradients = self.gradients[0].new_empty(len(self.inputs[0]), *self._shape)
        for part in self._chunks(self._bytes_of_patches):
            a, b = self._patches(part).flatten(0, 1), self._outputs(part).mT.flatten(0, 1)
            torch.bmm(a, b, out=gradients[part].flatten(0, 1))
        return gradients

    def _chunks(self, bytes_each: int) -> Iterator[slice]:
        return chunks(len(self.inputs[0]), bytes_each, self.inputs[0].device)

    def _patches(self, part: slice) -> Tensor:
        """(b, G, D_in, T) for b examples."""
        laid_out = [patches(self.layer, x[part], g.shape[2:]) for x, g in zip(self.inputs, self.gradients, strict=True)]
        return torch.cat(laid_out, dim=3) if len(laid_out) > 1 else laid_out[0]

    def _outputs(self, part: slice) -> Tensor:
        """(b, G, D_out, T) for b examples."""
        outputs = [g[part].flatten(2).unflatten(1, (self.layer.groups, -1)) for g in self.gradients]
        return torch.cat(outputs, dim=3) if len(outputs) > 1 else outputs[0]


def weight_gradient(layer: nn.Conv2d, x: Tensor, gradient: Tensor) -> Tensor:
    """∂/∂w of all examples together; contiguous as w is, which that of images with channels last is not."""
    how = {"stride": layer.stride, "dilation": layer.dilation, "groups": layer.groups}
    if layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
        how["padding"] = layer.padding
    else:
        x = padded(layer, x)
    return nn.grad.conv2d_weight(x, layer.weight.shape, gradient, **how).contiguous()


def padded(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """What the kernel of ``layer`` moves over; as torch, by what ``padding`` is now where it is zeros of that many."""
    if layer.padding_mode != "zeros":
        return F.pad(x, layer._reversed_padding_repeated_twice, mode=layer.padding_mode)
    if isinstance(layer.padding, str):
        return F.pad(x, layer._reversed_padding_repeated_twice)
    down, right = layer.padding
    return F.pad(x, (right, right, down, down))


def patches(layer: nn.Conv2d, x: Tensor, size: torch.Size) -> Tensor:
    """The patches of x (b, C_in, H, W) under outputs of ``size`` (H', W'), (b, G, D_in, T)."""
    x = padded(layer, x)
    (b, c, h, w), (down, right), (below, beside) = x.stride(), layer.stride, layer.dilation
    # A view in which every patch exists, then one copy along rows: several times faster than F.unfold.
    view = x.as_strided(
        (len(x), x.shape[1], *layer.kernel_size, *size),
        (b, c, h * below, w * beside, h * down, w * right),
        x.storage_offset(),
    )
    return view.reshape(len(x), layer.groups, -1, size.numel())


def _sum_of_shifted(values: Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    """``values`` (b, G, …), the rest seen with ``sizes`` and ``strides`` and summed over the first of them."""
    view = values.as_strided((*values.shape[:2], *sizes), (*values.stride()[:2], *strides))
    first, *others = view.unbind(2)
    total = first.clone(memory_format=torch.contiguous_format)
    for other in others:
        total += other
    return total
