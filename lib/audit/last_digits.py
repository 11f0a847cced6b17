"""What the last digits of a noised sum tell of an example: an attack on noise that is added in float32 (Mironov 2012).

The attacker knows the sum of the clipped gradients, with the example and without it, and sees one of them noised.  A
float32 noise n is a whole multiple of its last digit.  Where adding it to the sum takes most of it away, few results
can come of it: no n at all has fl(n + Σ) = y for many a y that another sum makes.  A single coordinate of that kind
settles who it was not, whatever ε the account has, so it is an event that adds to δ.  However many draws make n, it is
a float32 before it meets the sum; :mod:`lib.gaussian` adds both on one grid, on which every result comes of every sum.

    python -m lib.audit last_digits
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lib import gaussian
from lib.generators import generator

COORDINATES, EXAMPLES, STEPS = 61_706, 64, 20  # LeNet-5's parameters; gradients in a sum; sums that are attacked
NOISE_MULTIPLIERS = (1.0, 8.0, 46.0)

Hide = Callable[[Tensor, float, torch.Generator], Tensor]  # total, std → total + N(0, std²)


def measure() -> dict[str, dict[str, Any]]:
    """{how noise is added and z: {"without", "with_it", …}}: coordinates of a noised sum that cannot come of the sum
    without the example, and of the sum with it, from which they came; means of so many steps."""
    how: dict[str, Hide] = {"added in float32": in_float32, "lib.gaussian": gaussian.hide}
    setting = {"coordinates": COORDINATES, "examples": EXAMPLES, "steps": STEPS}
    return {
        f"{name}, z = {z:g}": attack(hide, noise_multiplier=z, **setting) | {"noise_multiplier": z} | setting
        for name, hide in how.items()
        for z in NOISE_MULTIPLIERS
    }


def in_float32(total: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """The sum of two float32 draws, of half the variance each, and then of the total: as it was done here."""
    draws = [torch.empty_like(total).normal_(0.0, std / 2**0.5, generator=generator) for _ in range(2)]
    return (draws[0] + draws[1]).add_(total)


def attack(hide: Hide, *, noise_multiplier: float, coordinates: int, examples: int, steps: int) -> dict[str, float]:
    """On ``steps`` sums of gradients of length C = 1 in random directions, the first of which is left out or not."""
    gradients, noise = generator(0, "audit"), generator(0, "gradient noise")
    told = []
    for _ in range(steps):
        first, *others = (_unit(coordinates, gradients) for _ in range(examples))
        without = sum(others, start=torch.zeros(coordinates))
        included = without + first
        y = hide(included, noise_multiplier, noise)
        told.append([int(impossible(y, total).sum()) for total in (without, included)])
    counts = torch.tensor(told, dtype=torch.float64).mean(0)
    return {"without": float(counts[0]), "with_it": float(counts[1])}


def impossible(y: Tensor, total: Tensor) -> Tensor:
    """Which of y (d,) are no float32 sum of ``total`` and any float32.

    The one that would make y, if there is one, is y − total rounded to float32, or next to that.
    """
    nearest = (y.double() - total.double()).float()
    around = (nearest, *(torch.nextafter(nearest, torch.full_like(y, end)) for end in (torch.inf, -torch.inf)))
    return ~torch.stack([noise + total == y for noise in around]).any(0)


def _unit(coordinates: int, draws: torch.Generator) -> Tensor:
    direction = torch.randn(coordinates, generator=draws)
    return direction / torch.linalg.vector_norm(direction)
