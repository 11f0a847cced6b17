"""Gaussian noise, and how it is added to what it has to hide: in floating point either can give an example away.

**The draw.**  torch makes a float32 normal from two uniform numbers of 24 bits on a CPU and of 32 on a GPU (Box and
Muller): a radius √(−2 ln u) times a cosine.  There are 2²⁴ radii, the largest √(48 ln 2) = 5.77 (on a GPU
√(66 ln 2) = 6.76) standard deviations.  What is beyond can only have been moved there, an event that adds to δ,
whatever ε is; and the density has a spike at every radius, off which a gradient that is spread over d coordinates moves
each of them (:mod:`lib.audit.float32_noise`).  So a draw is Box and Muller's in float64, of numbers of 53 bits: up to
8.57 standard deviations, beyond which a normal has 1e-17.

**The sum.**  A float32 noise is a whole multiple of its last digit, which is coarse where the noise is large; where the
sum takes most of it away, the last digits of the result are the sum's own, and many a result cannot come from a sum
without the example (Mironov 2012; :mod:`lib.audit.last_digits`).  No continuous noise helps once it is rounded.  So the
sum is rounded to a grid of 2⁻³¹ standard deviations or less, and so is the noise: what they add up to, exactly in
float64, is the rounded sum plus a continuous noise, rounded.  So it is post-processing of the Gaussian mechanism, and
so is its rounding to float32.  Rounding moves two sums apart by no more than the grid times √d: by some 10⁻⁵ of C at a
noise multiplier of 10 and ten million coordinates.  Float64 is exact here for sums of up to 2²⁰ standard deviations: of
a million examples at a noise multiplier of 1.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

FINEST = 1e-30  # far above the smallest numbers of float32, to which the sum is rounded in the end
GRID = 32  # bits below the power of two next above a standard deviation
CHUNK = 1 << 16  # coordinates that a CPU hides at once, within its cache


def hide(total: Tensor, std: float | Sequence[tuple[int, float]], generator: torch.Generator) -> Tensor:
    """``total`` + N(0, std²), a tensor of its own; where ``std`` is 0 a copy.

    Stretches of ``total`` may have an ``std`` each, (entries, std) in order.  ``ValueError`` for noise that float32
    cannot hold.
    """
    stretches = [(total.numel(), std)] if isinstance(std, int | float) else list(std)
    hidden = torch.empty_like(total, memory_format=torch.contiguous_format)
    left, std = stretches.pop(0) if stretches else (0, 0.0)
    for part, into in zip(_chunks(total), _chunks(hidden), strict=True):
        noise, done = _normal(part, generator), 0
        while done < len(part):
            while not left:
                left, std = stretches.pop(0)
            piece = slice(done, done + min(left, len(part) - done))
            into[piece] = hide_behind(part[piece], noise[piece].mul_(std), std)
            done, left = piece.stop, left - (piece.stop - done)
    return hidden


def hide_behind(total: Tensor, noise: Tensor, std: float) -> Tensor:
    """The same with ``noise`` that is at hand, made of what :func:`draw` drew, of that ``std``; it is used up."""
    check_std(std)
    if not std:
        return total.clone()
    spacing = 2.0 ** (math.frexp(std)[1] - GRID)  # a power of two: only roundings round
    rounded = total.to(torch.float64, copy=True).div_(spacing).round_()
    return noise.div_(spacing).round_().add_(rounded).mul_(spacing).to(total.dtype)


def draw(like: Tensor, generator: torch.Generator) -> Tensor:
    """N(0, 1) in float64, of ``like``'s shape and on its device: what :func:`hide` adds to it where std is 1."""
    return torch.cat([_normal(part, generator) for part in _chunks(like)]).view(like.shape)


def check_std(std: float) -> None:
    """``ValueError`` for noise so fine that float32 rounds it, and what it hides, to a few numbers."""
    if 0 < std < FINEST:
        raise ValueError(f"noise: expected clip norm × noise multiplier of 0 or at least {FINEST:g}; got {std:g}")


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Box and Muller's, as many as ``like`` (n,) has; torch's own of float64 take twice as long on a CPU."""
    uniform = torch.rand(2, (len(like) + 1) // 2, dtype=torch.float64, device=like.device, generator=generator)
    radius = uniform[0].neg_().log1p_().mul_(-2.0).sqrt_()  # of 1 − u, which is not 0
    angle = uniform[1].mul_(2 * math.pi)
    return torch.stack([angle.cos(), angle.sin_()]).mul_(radius).view(-1)[: len(like)]


def _chunks(x: Tensor) -> Iterator[Tensor]:
    flat = x.reshape(-1)
    yield from flat.split(CHUNK if x.device.type == "cpu" else max(1, len(flat)))
