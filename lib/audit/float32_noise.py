"""What betrays an example where the noise on it is one draw of torch's float32: an attack, and a bound.

Box and Muller's draw is R cos θ with one of 2²⁴ radii R_k = √(−2 ln(k 2⁻²⁴)) on a CPU.  Its density

    ``f(x) = 2⁻²⁴ Σ_{k: R_k > |x|} 1 / (π √(R_k² − x²))``

has a spike below every radius, and ends at R_1 = 5.77.  An example whose gradient is spread evenly over d coordinates,
C/√d in each, moves each by s = 1/(z√d) standard deviations, far more than a spike is wide.  So log f(y − s)/f(y),
summed over the coordinates, tells whether it was there, by an effect µ that grows with √d and does not fall with z; the
account, of N(0, z²C²), allows 1/z.  What is beyond R_1 settles it.  :mod:`lib.gaussian` draws otherwise.

    python -m lib.audit float32_noise
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from lib import gaussian
from lib.accounting import Event
from lib.generators import generator

BITS = 24  # of the uniform number that makes the radius
BOUND = math.sqrt(2 * BITS * math.log(2))  # R_1, in standard deviations
SPIKED = (3.0, 3.99)  # where the attack looks: float32 resolves spikes from the first on, and many draws are there
NEAREST = 64  # radii that are summed one by one; those that are further away as if there were no gaps
RESOLUTION = 6e-7  # of what is released, in standard deviations
COORDINATES, NOISE_MULTIPLIER, CLIP_NORM, STEPS = 11_173_962, 13.0, 0.5, 200  # ResNet-18's parameters

Draw = Callable[[Tensor, float, torch.Generator], Tensor]  # fills with N(0, std²)


def measure() -> dict[str, dict[str, Any]]:
    """{draw: {"mu", "stderr", "allowed", …}}: the attack on one step, its effect size and what the account allows."""
    draws: dict[str, Draw] = {
        "one draw": lambda out, std, generator: out.normal_(0.0, std, generator=generator),
        "in float64, lib.gaussian": in_float64,
    }
    setting = {"coordinates": COORDINATES, "noise_multiplier": NOISE_MULTIPLIER, "steps": STEPS}
    return {name: attack(draw, **setting) | {"allowed": 1 / NOISE_MULTIPLIER} | setting for name, draw in draws.items()}


def in_float64(out: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """The noise of :mod:`lib.gaussian` alone, of a sum that is 0."""
    return out.copy_(gaussian.hide(torch.zeros_like(out), std, generator))


def attack(draw: Draw, *, coordinates: int, noise_multiplier: float, steps: int) -> dict[str, float]:
    """The effect size µ of the statistic, with and without an example, over so many ``steps`` each, and its error."""
    std, each = noise_multiplier * CLIP_NORM, CLIP_NORM / math.sqrt(coordinates)
    released, draws, found = torch.empty(coordinates), generator(0, "gradient noise"), []
    for _ in range(steps):
        for total in (0.0, each):
            y = draw(released, std, draws).add_(total).double().numpy() / std
            found.append(statistic(y, each / std))
    without, included = np.array(found).reshape(steps, 2).T
    spread = math.sqrt((without.var(ddof=1) + included.var(ddof=1)) / 2)
    return {"mu": (included.mean() - without.mean()) / spread, "stderr": math.sqrt(2 / steps)}


def statistic(y: np.ndarray, shift: float) -> float:
    """Σ log f(y − shift) − log f(y) over the coordinates of y (d,) where spikes are seen."""
    low, high = SPIKED
    y = y[(np.abs(y) > low) & (np.abs(y) < high)]
    return float((_log_ratio(np.abs(y - shift)) - _log_ratio(np.abs(y))).sum())


def _log_ratio(x: np.ndarray) -> np.ndarray:
    """log f(x)/φ(x) of x (n,), which are a little more than 0 at least."""
    count = int(2**BITS * math.exp(-((SPIKED[0] - 0.1) ** 2) / 2))
    radii = _radius(np.arange(count, 0.0, -1.0))
    first = np.searchsorted(radii, x - RESOLUTION)
    near = radii[np.minimum(first[:, None] + np.arange(NEAREST), count - 1)]
    away = np.maximum(near - x[:, None], 0.0) + RESOLUTION
    spikes = (2.0**-BITS / (math.pi * np.sqrt(away * (near + x[:, None])))).sum(1)
    from_here = _radius(np.maximum(count - first - NEAREST + 0.5, 0.5))
    smooth = 2 * norm.sf(np.sqrt(np.maximum(from_here**2 - x**2, 0.0)))  # of φ, what larger radii have
    return np.log(spikes / norm.pdf(x) + smooth)


def _radius(k: np.ndarray) -> np.ndarray:
    return np.sqrt(-2 * np.log(k * 2.0**-BITS))


def cut_off(events: Sequence[Event], coordinates: int) -> float:
    """What it adds to δ at every ε, at least, that a draw ends at R_1: how probable it is that an example is seen
    beyond, if its gradient moves the sum as far as it can, in one coordinate or evenly in all of them.

    1 − Π(1 − q' (1 − (1 − p(s/√m))^m))^T, with q' the probability that a batch has it, s standard deviations, m
    coordinates and p of :func:`seen`.
    """
    return max(
        -math.expm1(sum(event.steps * math.log1p(-_seen_in(event, m)) for event in events)) for m in (1, coordinates)
    )


def _seen_in(event: Event, coordinates: int) -> float:
    drawn, moved = event.sampling_prob, event.sensitivity
    if event.sampler == "with_replacement":  # (1 − 1/N)^L of the batches do not have it, e^−q at the most
        drawn = -math.expm1(-drawn)
    if event.sampler == "poisson":  # batches without it lie between those of the two that replace each other
        moved = 1.0
    moved /= event.noise_multiplier * math.sqrt(coordinates)
    return -drawn * math.expm1(coordinates * math.log1p(-seen(moved)))


def seen(moved: float) -> float:
    """The probability that a draw, moved by s standard deviations, is beyond R_1.

    2⁻²⁴ Σ_k arccos((R_1 − s)/R_k)/π over the radii that reach so far.
    """
    least = BOUND - moved
    so_far = max(1, int(2**BITS * math.exp(-(max(least, 0.0) ** 2) / 2)))
    radii = _radius(np.arange(1.0, so_far + 1.0)[: 2**BITS - 1])  # the last is 0
    return float(np.arccos(np.clip(least / radii, -1.0, 1.0)).sum()) / math.pi * 2.0**-BITS
