"""Gaussian noise that is as good as continuous, for what has to hide an example.

torch makes a float32 normal from two uniform numbers of 24 bits on a CPU and of 32 on a GPU (Box and Muller): a radius
√(−2 ln u) times a cosine.  There are 2²⁴ radii, the largest √(48 ln 2) = 5.77 (on a GPU √(66 ln 2) = 6.76) standard
deviations.  That betrays an example twice.  What is beyond the largest can only have been moved there: an event that
adds to δ, whatever ε is.  And the density has a spike at every radius, which float32 resolves from 3 standard
deviations on; a gradient that is spread over d coordinates moves every one of them off its spikes, which tells the more
the larger d is, however large z.  :mod:`lib.audit.float32_noise` has what either costs.

So a draw is the sum of two, over √2 (Holohan and Braghin 2021, 2107.10138): of 2⁹⁶ values, up to 8.16 standard
deviations, beyond which a normal has 3e-16.
"""

import math

import torch
from torch import Tensor

FINEST = 1e-30  # far above the smallest numbers of float32, of which noise would be whole multiples


def fill(out: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """``out``, filled with N(0, std²) in place; ``ValueError`` for noise that float32 cannot hold."""
    check_std(std)
    of_each = std / math.sqrt(2)
    other = torch.empty_like(out).normal_(0.0, of_each, generator=generator)
    return out.normal_(0.0, of_each, generator=generator).add_(other)


def check_std(std: float) -> None:
    """``ValueError`` for noise so fine that float32 rounds it, and what it hides, to a few numbers."""
    if 0 < std < FINEST:
        raise ValueError(f"noise: expected clip norm × noise multiplier of 0 or at least {FINEST:g}; got {std:g}")
