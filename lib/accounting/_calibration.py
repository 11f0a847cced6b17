"""Turning an accountant around: from a budget to the noise it needs, or to the steps it allows; and δ(ε) to ε(δ).

>>> round(smallest_noise(lambda z: 1 / z, 0.25, "example"), 3)
4.0
>>> most_steps(lambda count: 0.3 * count, 1.0)
3
>>> round(smallest_epsilon(lambda epsilon: math.exp(-epsilon), 0.1), 3), smallest_epsilon(lambda epsilon: 0.01, 0.1)
(2.303, 0.0)
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq

NOISE_RANGE = (0.01, 1e6)
NOISE_TOLERANCE = 1e-4  # relative; the returned z is at most this much above the smallest
MOST_STEPS = 10**7


def smallest_noise(
    spent: Callable[[float], float], budget: float, accountant: str = "the limit", *, about: float = 1.0
) -> float:
    """The smallest z in ``NOISE_RANGE`` with ``spent(z) <= budget``, found from above, so the budget always holds.

    ``spent`` must not increase.  ``about``: where to begin; an account of many steps can take seconds.  Raises
    ``ValueError`` if even the largest z spends more, or the smallest z less.
    """
    low, high = NOISE_RANGE
    upper = min(about, high)
    while spent(upper) > budget:
        if upper >= high:
            least = f"at least {spent(high):.3g}, what {accountant!r} gives at noise multiplier {high:g}"
            raise ValueError(f"epsilon: expected {least}; got {budget!r}")
        upper = min(2 * upper, high)
    lower = upper / 2
    while spent(lower) <= budget:
        if lower <= low:
            gives = f"{accountant!r} gives at noise multiplier {low:g}"
            if not spent(low):
                raise ValueError(f"delta: expected less, as it alone covers every example: ε is 0, what {gives}")
            raise ValueError(f"epsilon: expected less than {spent(low):.3g}, what {gives}; got {budget!r}")
        upper, lower = lower, max(lower / 2, low)

    ends = {math.log(z): z for z in (lower, upper)}  # as they were tried: e^(log z) may be on the other side

    def excess(log_z: float) -> float:  # the logarithm makes 1e-3 and 1e3 equally easy; clipped because ε may be 0 or ∞
        value = spent(ends.get(log_z, math.exp(log_z)))
        return min(max(math.log(value / budget), -50.0), 50.0) if 0 < value < math.inf else math.copysign(50, value - 1)

    root = brentq(excess, *sorted(ends), xtol=NOISE_TOLERANCE / 4)
    z = ends.get(root, math.exp(root))
    while spent(z) > budget:
        z = min(z * (1 + NOISE_TOLERANCE / 4), upper)
    return z


def most_steps(spent: Callable[[int], float], budget: float, *, about: int = 1) -> int:
    """The largest count with ``spent(count) <= budget``, or 0 if there is none; ``spent`` must not decrease.

    ``about``: where to begin.  Raises ``ValueError`` if ``MOST_STEPS`` stay within the budget.
    """
    within, beyond = 0, max(1, about)
    while spent(beyond) <= budget:
        if beyond >= MOST_STEPS:
            raise ValueError(
                f"epsilon: expected less than {spent(MOST_STEPS):.3g}, which {MOST_STEPS:,} steps spend; got {budget!r}"
            )
        within, beyond = beyond, min(2 * beyond, MOST_STEPS)
    if beyond - within > 1 and spent(within) <= budget:  # where it crosses the budget, to a step or so
        crossing = brentq(lambda count: min(spent(round(count)), 2 * budget) - budget, within, beyond, xtol=0.5)
        within = min(max(round(crossing), within), beyond - 1)
    while within and spent(within) > budget:  # what is spent before the first step may be more than all
        within -= 1
    while spent(within + 1) <= budget:
        within += 1
    return within


def smallest_epsilon(delta_at: Callable[[float], float], delta: float) -> float:
    """The ε of at least 0 with ``delta_at(ε)`` = ``delta``, or 0 if it is less there; ``delta_at`` falls to 0."""
    if delta_at(0.0) <= delta:
        return 0.0
    upper = 1.0
    while delta_at(upper) > delta:
        upper *= 2
    return brentq(lambda epsilon: delta_at(epsilon) - delta, 0.0, upper, rtol=1e-12)
