"""What the last digits of a noised sum tell of an example: attacks on noise that is added in float32 (Mironov 2012;
Haney et al. 2022, 2207.13793, who call them precision-based).

The attacker knows what a batch's clipped gradients sum to, with the example and without it, and sees the sum noised.  A
float32 noise n is a whole multiple of its last digit.  Where adding it to the sum takes most of it away, few results
can come of it: no n at all has fl(n + Σ) = y for many a y that another sum makes.  A single coordinate of that kind
settles who it was not, whatever ε the account has, so it is an event that adds to δ.  However many draws make n, it is
a float32 before it meets the sum; :mod:`lib.gaussian` adds both on one grid, on which every result comes of every sum.

To draw the batch in secret does not help, for data that are made for it: where all other examples are one image, a
batch without the example is its size, and the attacker tries every size.  Nor does Opacus' secure mode, in which it is
the draws that are hard to guess (its issue 616); its noise is looked at where it is installed.

    python -m lib.audit last_digits
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lib import gaussian, models
from lib.generators import generator
from lib.grads import clipped_sum

COORDINATES, EXAMPLES, STEPS = 61_706, 64, 20  # LeNet-5's parameters; gradients in a sum, in secret on average; sums
NOISE_MULTIPLIERS = (1.0, 8.0, 46.0)
FEWEST, MOST = 16, 128  # what a Poisson number of mean 64 is not beyond, but with probability 1e-12
LOOKED_AT = 4096  # coordinates, of which the noise took most away

Hide = Callable[[Tensor, float, torch.Generator], Tensor]  # total, std → total + N(0, std²)
Sums = Callable[[int, bool], Tensor]  # how many of the others, with the example or not → their sum


def measure() -> dict[str, dict[str, dict[str, Any]]]:
    """{attack: {how noise is added and z: what is found of :data:`STEPS` sums of LeNet-5's size}}."""
    how: dict[str, Hide] = {"added in float32": in_float32, **of_opacus(), "lib.gaussian": gaussian.hide}
    attacks = {
        "known batch": partial(attack, coordinates=COORDINATES, examples=EXAMPLES),
        "secret batch": partial(attack_in_secret, sums=sums_of_lenet5()),
    }
    return {
        what: {
            f"{name}, z = {z:g}": against(hide, noise_multiplier=z, steps=STEPS) | {"noise_multiplier": z}
            for name, hide in how.items()
            for z in NOISE_MULTIPLIERS
        }
        for what, against in attacks.items()
    }


def in_float32(total: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """The sum of two float32 draws, of half the variance each, and then of the total: as it was done here."""
    draws = [torch.empty_like(total).normal_(0.0, std / 2**0.5, generator=generator) for _ in range(2)]
    return (draws[0] + draws[1]).add_(total)


def of_opacus() -> dict[str, Hide]:
    """What Opacus' optimiser adds, and what it adds in its secure mode, four draws for each noise; none without it."""
    try:
        import opacus
        from opacus.optimizers import DPOptimizer
    except ImportError:
        return {}

    def hide(total: Tensor, std: float, generator: torch.Generator, *, secure_mode: bool) -> Tensor:
        weights = torch.nn.Parameter(torch.zeros_like(total))
        how = {"noise_multiplier": std, "max_grad_norm": 1.0, "expected_batch_size": 1, "secure_mode": secure_mode}
        optimizer = DPOptimizer(torch.optim.SGD([weights], lr=1.0), generator=generator, **how)
        weights.summed_grad = total.clone()
        optimizer.add_noise()
        return weights.grad

    name = f"Opacus {opacus.__version__}"
    return {name: partial(hide, secure_mode=False), f"{name}, secure mode": partial(hide, secure_mode=True)}


def attack(hide: Hide, *, noise_multiplier: float, coordinates: int, examples: int, steps: int) -> dict[str, float]:
    """How many coordinates cannot come of the sum without the example, and of that with it, of which they are: means
    of ``steps`` sums of gradients of length C = 1 in random directions, the first of which is the example's."""
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


def attack_in_secret(hide: Hide, *, noise_multiplier: float, steps: int, sums: Sums) -> dict[str, int]:
    """In how many of ``steps`` no batch without the example can have made the result: of those from which it was left
    out, none if noise is float32 (but with the probability beside :data:`FEWEST`), and of those that included it."""
    draws, noise = generator(0, "audit"), generator(0, "gradient noise")

    def told(included: bool) -> bool:
        others = int(torch.poisson(torch.tensor(float(EXAMPLES)), generator=draws))
        y = hide(sums(others, included), noise_multiplier, noise)
        near = y.abs().topk(min(LOOKED_AT, len(y)), largest=False).indices
        return all(bool(impossible(y[near], sums(n, False)[near]).any()) for n in range(FEWEST, MOST + 1))

    return {name: sum(told(name == "included") for _ in range(steps)) for name in ("left_out", "included")}


def sums_of_lenet5() -> Sums:
    """What training sums up of n times one image, and of another one with them; C = 1."""
    draws = generator(0, "audit")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = models.build("lenet5")
    x, y = torch.rand(2, 1, 28, 28, generator=draws), torch.tensor([0, 1])
    loss = partial(cross_entropy, reduction="none")

    @cache
    def sums(others: int, included: bool) -> Tensor:
        batch = torch.tensor([0] * others + [1] * included)
        total, _ = clipped_sum(model, loss, x[batch], y[batch], clip_norm=1.0)
        return torch.cat([value.flatten() for value in total.values()])

    return sums


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
