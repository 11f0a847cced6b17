"""What SI-DPSGD (v1) really guarantees, beside the guarantee that v1 claims for it.

    >>> v1_mnist = {"noise_multiplier": 7.1, "sampling_prob": 32 / 60_000, "steps": 18_750}
    >>> round(si_dpsgd_epsilon(**v1_mnist), 2)  # claimed: 0.05
    9.1
    >>> round(si_dpsgd_delta(epsilon=0.05, **v1_mnist), 3)  # claimed: 0.00001
    0.487

v1 adds noise to the weights, θ_t = µ_t + (η/L) N(0, C²z²), but goes on from µ_t, which is never released.  Lemma 4.1
bounds a step given µ_t; composition may only condition on the outputs θ_1 … θ_t, and given those the means of two
neighbours differ by the **sum of all participations so far**, not by the last one.  So that equal noise in every step
leads "to the same (ε, δ)-DP mechanism" (v1 section 4) does not follow.  Constant step size, no momentum; neighbours add
or remove one example.
"""

import math
from functools import lru_cache, partial

import numpy as np
from scipy.stats import binom

from lib.accounting._calibration import smallest_epsilon
from lib.accounting._event import Event, check_name, checked_delta, checked_epsilon
from lib.accounting._gaussian import gdp_delta, gdp_epsilon
from lib.accounting._mixture import hockey_stick

RELEASED = ("last", "transcript")
DIRECTIONS = ("remove", "add")
NEGLIGIBLE = 1e-30  # of the binomial's mass, beside any δ of interest


def si_dpsgd_epsilon(
    *, noise_multiplier: float, sampling_prob: float, steps: int, delta: float = 1e-5, released: str = "last"
) -> float:
    """ε at ``delta`` of SI-DPSGD's output.

    ``released="last"``: only θ_T, Poisson sampling, a loss linear in the weights.  Then θ_T is exactly the pair
    Σ_k Bin(T, q)(k) N(k, z²) against N(0, z²), the worse of both directions.  For other losses a **lower** bound on
    any valid ε.  ``released="transcript"``: all θ_t, and the example in the first batch of every ⌊1/q⌋, a fixed
    pattern: µ-GDP with µ² = Σ_t k_t²/z², k_t its participations up to step t.

    ``math.inf`` without noise (v1's code evaluates µ_T itself), 0 without steps.  Raises ``ValueError`` for values out
    of range.
    """
    event, delta = Event(noise_multiplier, sampling_prob, steps), checked_delta(delta)
    check_name("released", released, RELEASED)
    if event.steps == 0:
        return 0.0
    if event.noise_multiplier == 0.0:
        return math.inf
    if released == "transcript":
        return gdp_epsilon(_transcript_mu(event), delta)
    return smallest_epsilon(partial(_last_delta, event), delta)


def si_dpsgd_delta(
    *, epsilon: float, noise_multiplier: float, sampling_prob: float, steps: int, released: str = "last"
) -> float:
    """The true δ at ``epsilon``, say the one that v1 claims; the inverse of :func:`si_dpsgd_epsilon`.

    1 without noise, 0 without steps.  Raises ``ValueError`` for values out of range.
    """
    event, epsilon = Event(noise_multiplier, sampling_prob, steps), checked_epsilon(epsilon)
    check_name("released", released, RELEASED)
    if event.steps == 0:
        return 0.0
    if event.noise_multiplier == 0.0:
        return 1.0
    return gdp_delta(_transcript_mu(event), epsilon) if released == "transcript" else _last_delta(event, epsilon)


@lru_cache(maxsize=1024)
def _last_delta(event: Event, epsilon: float) -> float:
    counts = np.arange(event.steps + 1)
    mass = binom.pmf(counts, event.steps, event.sampling_prob)
    kept = (mass > NEGLIGIBLE) | (counts == 0)
    shifts, weights = counts[kept].astype(float), np.maximum(mass[kept], NEGLIGIBLE)  # the pair begins with c_0 = 0
    epsilons = np.array([epsilon])
    return max(float(hockey_stick(epsilons, shifts, weights, event.noise_multiplier, way)[0]) for way in DIRECTIONS)


def _transcript_mu(event: Event) -> float:
    participations = 1 + np.arange(event.steps) // event.steps_per_epoch
    return math.sqrt(float(np.sum(participations.astype(float) ** 2))) / event.noise_multiplier
