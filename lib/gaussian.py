"""Gaussian noise with its whole tail, for what has to hide an example.

torch makes a float32 normal from uniform numbers of 24 bits on a CPU and of 32 on a GPU (Box and Muller), so that none
lies beyond √(48 ln 2) = 5.77, or √(66 ln 2) = 6.76, standard deviations.  What is found out there can only have been
moved there by an example: an event that adds to δ, whatever ε is.  At z = .5538, q = 256 / 60,000 and 2,808 steps, an ε
of 7 at δ = 1e-5, it would add 4e-4.  So a GPU draws in float64, of 53 bits, and a CPU, where that takes five times as
long, what is far out alone.
"""

import math

import numpy as np
import torch
from torch import Tensor

FLOAT32_BOUND = math.sqrt(48 * math.log(2))  # standard deviations, on a CPU
FAR = 4.0  # standard deviations: one draw in 16,000, which float32 still has finely


def fill(out: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """``out``, filled with N(0, std²) in place."""
    if out.is_cuda:
        return out.copy_(torch.empty_like(out, dtype=torch.float64).normal_(0.0, std, generator=generator))
    out.normal_(0.0, std, generator=generator)
    far = np.nonzero(np.abs(out.numpy()) > FAR * std)  # torch's takes five times as long
    if len(far[0]):
        far = tuple(map(torch.from_numpy, far))
        out[far] = torch.copysign(std * beyond(FAR, len(far[0]), generator), out[far]).to(out.dtype)
    return out


def beyond(least: float, count: int, generator: torch.Generator) -> Tensor:
    """``count`` draws of |N(0, 1)| where it is more than ``least``, (count,), float64 on a CPU."""
    probability = math.erfc(least / math.sqrt(2)) / 2
    uniform = torch.rand(count, dtype=torch.float64, generator=generator)  # from 0, and less than 1
    return -torch.special.ndtri(probability * (1.0 - uniform))
