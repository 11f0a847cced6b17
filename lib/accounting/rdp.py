"""Rényi DP with today's conversion to (ε, δ): dp-accounting's RdpAccountant.

    >>> from lib.accounting import epsilon
    >>> round(epsilon(noise_multiplier=4.0, sampling_prob=0.01, steps=10_000, accountant="rdp"), 3)
    1.035

Poisson sampling: Mironov, Talwar and Zhang 2019 (1908.10530), exact moments.  Without replacement, under replace-one
only: Wang, Balle and Kasiviswanathan 2019 (1808.00087), theorem 27, with noise ÷ sensitivity z/2.  A sampled step
costs no more than one on all examples (quasi-convexity, van Erven and Harremoës 2014, theorem 13), which theorem 27
exceeds by rounding where the noise is large.  Conversion: Canonne, Kamath and Steinke 2020 (2004.00010), prop. 12.
"""

from functools import lru_cache

import numpy as np
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant, compute_delta, compute_epsilon

from lib.accounting._event import Events
from lib.accounting._quiet import quiet

MATCHES = {("poisson", "add_or_remove_one"), ("without_replacement", "replace_one")}
UPPER_BOUND = True
LEAST = 2.0**-52


def epsilon(events: Events, delta: float) -> float:
    return float(compute_epsilon(*composed(events), delta)[0])


def delta(events: Events, epsilon: float) -> float:
    return float(compute_delta(*composed(events), epsilon)[0])


def composed(events: Events, orders: tuple[float, ...] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Orders, or today's, and the Rényi divergences of all ``events`` together."""
    steps = [one_step(e.noise_multiplier, e.sampling_prob, e.sampler, orders) for e in events]
    return steps[0][0], sum(e.steps * divergences for e, (_, divergences) in zip(events, steps, strict=True))


@lru_cache(maxsize=256)
def one_step(z: float, q: float, sampler: str, orders: tuple[float, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Orders and Rényi divergences of one step; they add up over steps."""
    if sampler == "poisson":
        relation, event = NeighboringRelation.ADD_OR_REMOVE_ONE, PoissonSampledDpEvent(q, GaussianDpEvent(z))
    else:  # of the two sizes only the ratio counts, and this accountant does not double the sensitivity itself
        relation = NeighboringRelation.REPLACE_ONE
        event = SampledWithoutReplacementDpEvent(1, q, GaussianDpEvent(z / 2))
    accountant = RdpAccountant(orders, relation)
    orders = accountant.orders
    try:
        with quiet():
            accountant.compose(event)
        divergences = accountant.rdp
    except ValueError:  # of so much noise, the logarithm of what rounding has made negative
        divergences = np.full(len(orders), np.inf)
    divergences = np.where(divergences >= 0, divergences, np.inf)  # rounding below 0 would count as ε = 0
    of_all = orders * (1.0 if sampler == "poisson" else 2.0) ** 2 / (2 * z**2)
    # A conversion takes the logarithm of one less e^−divergence, which of a smaller one than this is 0.
    return orders, np.maximum(np.minimum(divergences, of_all), LEAST)
