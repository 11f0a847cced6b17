"""What can be *proven* of SI-DPSGD: the whole transcript θ_1 … θ_T, for any loss, schedule and momentum.

    >>> moved = si_dpsgd_moved(step_sizes=[0.1] * 100, clip_norms=[3.1] * 100, noise_stds=[3.1 * 7.1] * 100)
    >>> round(moved, 4)  # √T/z: one participation, constant step size
    1.4085
    >>> round(si_dpsgd_proven_epsilon(moved=moved, sampling_prob=0.01, steps=100), 2)
    61.61

Given what was released, µ_{t+1} − µ_0 is the sum of all steps so far, so a participation at step s, with a gradient of
norm C_s and momentum m, has moved µ_{t+1} by up to w_{t,s} = C_s Σ_{r=s}^t η_r m^{r−s}, which the noise η_t z_t C_t
hides.  For given participations S the transcript is µ-GDP with µ² = Σ_t (Σ_{s∈S, s≤t} w_{t,s} ÷ η_t z_t C_t)², whatever
the gradients were chosen to be from what was released before (Denisov et al. 2022, 2202.08312, theorem 2.1).  With a
constant step size that is Σ_t k_t²/z², k_t the participations so far: k√T/z at the most.

Sampling decides which S it is.  δ(ε) is jointly convex, so δ(ε) ≤ Σ_k P(k participations) δ(ε | k, the worst S): an
upper bound, and no amplification beyond that count is claimed.  It holds for θ_T alone too, which is a part of what is
bounded, but says little of it; for a lower bound on its ε see :func:`~lib.accounting.si_dpsgd_epsilon`.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import binom, poisson

from lib.accounting._calibration import smallest_epsilon
from lib.accounting._event import Event, checked_delta
from lib.accounting._gaussian import MOST_MU, gdp_deltas

NEGLIGIBLE = 1e-7  # part of δ that numbers of participations may have which are not counted


def si_dpsgd_moved(
    *, step_sizes: Sequence[float], clip_norms: Sequence[float], noise_stds: Sequence[float], momentum: float = 0.0
) -> float:
    """√Σ_t max_s (w_{t,s} ÷ η_t z_t C_t)²: how far one participation can move the transcript, in units of its noise.

    η_t, C_t and the noise z_t C_t on the sum of gradients, each of length T.  ``math.inf`` where there is no noise, or
    nothing is clipped.  Raises ``ValueError`` for values that are negative or no numbers, and unless there are as many
    of each.
    """
    eta, clip, noise = (np.asarray(values, dtype=float) for values in (step_sizes, clip_norms, noise_stds))
    if not eta.shape == clip.shape == noise.shape == (eta.size,):
        came = ", ".join(str(values.shape) for values in (eta, clip, noise))
        raise ValueError(f"step_sizes, clip_norms, noise_stds: expected T of each; got shapes {came}")
    for name, values in (("step_sizes", eta), ("clip_norms", clip), ("noise_stds", noise), ("momentum", momentum)):
        if not np.all(np.asarray(values) >= 0):
            raise ValueError(f"{name}: expected numbers of at least 0; got {values}")
    if not (np.all(eta * noise > 0) and all(np.isfinite(values).all() for values in (eta, clip, noise, momentum))):
        return math.inf
    reached, velocity = np.zeros(len(eta)), np.zeros(len(eta))  # of the participation at each s so far
    squares = 0.0
    for t in range(len(eta)):
        velocity[:t] *= momentum
        velocity[t] = clip[t]
        reached[: t + 1] += eta[t] * velocity[: t + 1]
        squares += float(reached[: t + 1].max() / (eta[t] * noise[t])) ** 2
    return math.sqrt(squares)


def si_dpsgd_proven_epsilon(
    *,
    moved: float,
    sampling_prob: float,
    steps: int,
    delta: float = 1e-5,
    sampler: str = "poisson",
    neighbouring_relation: str = "add_or_remove_one",
) -> float:
    """An upper bound on ε at ``delta`` of the whole transcript; ``moved`` as :func:`si_dpsgd_moved` has it.

    An example takes part Bin(T, q) times under Poisson sampling and sampling without replacement, once in every epoch
    begun where epochs are shuffled or in a fixed order.  With replacement it is drawn at most Poisson(−T ln(1 − q))
    times, and displaces as many others.  Raises ``ValueError`` for values out of range, and for sampling without
    replacement under "add_or_remove_one", which no theorem here covers.
    """
    event, delta = Event(1.0, sampling_prob, steps, sampler, neighbouring_relation), checked_delta(delta)
    if not moved >= 0:
        raise ValueError(f"moved: expected at least 0; got {moved!r}")
    if event.steps == 0:
        return 0.0
    if moved > MOST_MU:
        return math.inf
    negligible = NEGLIGIBLE * delta
    counts, weights = _participations(event, negligible)
    shifts = counts * moved * event.sensitivity

    def delta_at(epsilon: float) -> float:
        return float(weights @ gdp_deltas(shifts, epsilon)) + negligible

    epsilon = smallest_epsilon(delta_at, delta)
    return epsilon if delta_at(epsilon) <= delta else math.nextafter(epsilon, math.inf) * (1 + 1e-9)


def _participations(event: Event, negligible: float) -> tuple[np.ndarray, np.ndarray]:
    """How often the example can take part, with probabilities; what is left out is ``negligible`` altogether."""
    q, steps = event.sampling_prob, event.steps
    if event.sampler in ("balls_and_bins", "shuffled", "fixed_order"):
        return np.array([math.ceil(steps / event.steps_per_epoch)]), np.ones(1)
    if event.sampler == "without_replacement" and event.neighbouring_relation != "replace_one":
        raise ValueError(
            "neighbouring_relation: expected replace_one for sampler 'without_replacement'; "
            f"got {event.neighbouring_relation!r}"
        )
    if event.sampler == "with_replacement":
        if q == 1.0 or event.neighbouring_relation != "add_or_remove_one":
            raise ValueError(
                "sampling_prob, neighbouring_relation: expected less than 1 and add_or_remove_one for sampler "
                f"'with_replacement'; got {q!r} and {event.neighbouring_relation!r}"
            )
        law = poisson(-steps * math.log1p(-q))
    else:
        law = binom(steps, q)
    most = int(law.isf(max(negligible, 1e-16))) + 1  # below that 1 − p is 1 to scipy's inverse
    while law.sf(most) > negligible:
        most += 1
    counts = np.arange(most + 1)
    return counts, law.pmf(counts)
