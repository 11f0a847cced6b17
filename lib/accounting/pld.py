"""Privacy loss distributions: the tightest accountant here, an upper bound, of training up to a fraction of a percent.

    >>> from lib.accounting import epsilon
    >>> round(epsilon(noise_multiplier=7.1, sampling_prob=32 / 60_000, steps=18_750), 4)
    0.0283

The worst pair of output distributions of one step, discretised from above ("connect the dots", 2207.04380) and
composed by dp-accounting.  With N(·) short for N(·, z²), q for the sampling probability, in units of C:

===================  =================  ==============================================================================
poisson              add_or_remove_one  (1−q) N(0) + q N(1) against N(0), the worse of both directions
poisson              replace_one        (1−q) N(0) + q N(−1) against (1−q) N(0) + q N(1)
with_replacement     add_or_remove_one  Σ_k p_k N(2k) against N(0), the worse of both directions.  An example drawn k
                                        times displaces k others: 2kC.  p is Poisson(−ln(1 − q)), which stochastically
                                        dominates the number of times it is drawn, Bin(L, 1/N), for every L = qN;
                                        with large q by far, and ε is several times too large
without_replacement  replace_one        (1−q) N(0) + q N(2) against N(0), in every step the worse of both directions
balls_and_bins       add_or_remove_one  of a whole epoch, see :mod:`lib.accounting._balls_and_bins`
===================  =================  ==============================================================================

**Poisson, replace-one: opposite gradients of length C are the worst.**  With gradients g and g' (in units of C),
advanced joint convexity (1807.01647, theorem 2) makes δ q times that of N(0) against (1−β) N(−g) + β N(g' − g): the
mean of a convex function of a sum of log-normals of mean 1, which no pair of smaller covariances exceeds (Kahane 1985).
‖g‖², ‖g' − g‖² and −g·(g' − g) are largest together, 1, 4 and 2, where ‖g‖ = 1 and g' = −g.

**Without replacement the directions are joined in every step**, not at the end.  Replace-one neighbours are symmetric:
which of the two looks unusual may change from step to step.  One step is bounded by
H_α((1−q) N(0) + q N(2) ‖ N(0)) for α ≥ 1 (Balle, Barthe and Gaboardi 2018, 1807.01647) and by symmetry by the reverse
pair for α < 1; together they are bc's C_{m/N}(G_{1/σ}), and a bound on every step composes.  The first pair composed
alone gives less, 1.57 for 2.08 at bc's main setting, and is no bound: where all other gradients are C or all are −C, as
an adversary chooses who has seen the steps before, each step is one pair or the other, and once the loss is beyond ε
the reverse one tells more.  Two steps with z = 2 and q = 1/2 then have δ(.5) = .154, for .148 of the first pair alone
and .160 of the joined.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial, reduce

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.stats import poisson

from lib.accounting._balls_and_bins import LEAST_NOISE, Epoch
from lib.accounting._event import Event, Events
from lib.accounting._mixture import hockey_stick, largest_loss

MATCHES = {
    ("poisson", "add_or_remove_one"),
    ("poisson", "replace_one"),
    ("with_replacement", "add_or_remove_one"),
    ("without_replacement", "replace_one"),
    ("balls_and_bins", "add_or_remove_one"),
}
UPPER_BOUND = True
Delta = Callable[[np.ndarray], np.ndarray]  # δ at every ε
ROUNDING = 2.0**-52  # of δ, by each step's Fourier transforms at most: measured, a quarter of it
TINY = 1e-200  # a δ that is none, of which dp-accounting would divide by numbers too small to have a reciprocal
NEGLIGIBLE = 1e-18  # a step's probability, with replacement only; beside any δ ÷ steps of interest


def epsilon(events: Events, delta: float) -> float:
    left = delta - _rounding(events)
    return float(composed(events).get_epsilon_for_delta(left)) if left > 0 else math.inf


def delta(events: Events, epsilon: float) -> float:
    return min(1.0, float(composed(events).get_delta_for_epsilon(epsilon)) + _rounding(events))


def _rounding(events: Events) -> float:
    """What rounding may have taken from δ: nothing beside 1e-5, much beside 1e-12."""
    return ROUNDING * sum(event.rounds for event in events)


@lru_cache(maxsize=16)
def composed(events: Events) -> distributions.PrivacyLossDistribution:
    """The distribution after all steps of all events.

    Of balls_and_bins the last event alone may end within an epoch, of which less is seen then: ``ValueError``.
    Each event's steps are composed on the grid that suits them; the widest of these grids is fine enough for the sum of
    each, though it may be wider than all losses of another's single step.
    """
    _check_epochs(events)
    widths = list(map(interval, events))
    parts = [
        one_round(e.noise_multiplier, e.sampling_prob, e.sampler, e.neighbouring_relation, width).self_compose(e.rounds)
        for e, width in zip(events, widths, strict=True)
    ]
    widest = max(widths)
    on_one_grid = (
        part if width == widest else _coarser(part, widest) for part, width in zip(parts, widths, strict=True)
    )
    return reduce(lambda one, other: one.compose(other), on_one_grid)


def _check_epochs(events: Events) -> None:
    """An epoch that two events share is not as if each had one of its own: the example is in one of both."""
    for event in [event for event in events if event.sampler == "balls_and_bins"][:-1]:
        if event.steps % event.steps_per_epoch:
            raise ValueError(
                f"steps: expected whole epochs of {event.steps_per_epoch} steps in all events of sampler "
                f"'balls_and_bins' but the last; got {event.steps}"
            )


def _coarser(part: distributions.PrivacyLossDistribution, width: float) -> distributions.PrivacyLossDistribution:
    """From above on a wider grid; dp-accounting has no public way to the pair's one direction and to the other."""
    directions = []
    for pmf in (part._pmf_remove, part._pmf_add):
        fine = pmf.to_dense_pmf()
        least, most = (loss * fine._discretization for loss in (fine._lower_loss, fine._lower_loss + fine.size - 1))
        grid = math.floor(least / width), math.ceil(most / width)
        directions.append(_from_above(*grid, width, lambda losses, of=fine: of.get_delta_for_epsilon(losses)))
    return distributions.PrivacyLossDistribution(*directions)


def interval(event: Event) -> float:
    """The width of the grid on which privacy losses are kept.

    dp-accounting's 1e-4 is as wide as the whole loss of one round with much noise and few examples, and then costs 15 %
    in ε at v1's MNIST setting and 65 % at its CIFAR setting.  So: a twentieth of the loss's standard deviation, which
    leaves about 0.1 %, but never above 1e-4, unless losses so large are to be kept that memory or patience runs out.
    Then, with batches of 1e-5 of the data or less, ε stays an upper bound and is no longer tight: 0.0240 for 0.0229 at
    z = 0.7, q = 1e-5 and 1e5 steps.
    """
    q, z, spread = event.sampling_prob, event.noise_multiplier, event.spread
    if event.sampler == "with_replacement":
        largest, points = largest_loss(*_displaced(q), z, NEGLIGIBLE), 20_000
    else:
        shift = event.sensitivity / z
        unsampled, points = shift**2 / 2 + 10 * shift, 200_000  # 10 standard deviations out
        largest = math.log1p(q * math.expm1(unsampled)) if unsampled < 700 else unsampled + math.log(q)
    return max(min(1e-4, spread / 20), largest / points, 16 * spread * math.sqrt(event.rounds) / 4e6)


@lru_cache(maxsize=16)
def one_round(
    z: float, q: float, sampler: str, relation: str, interval: float
) -> distributions.PrivacyLossDistribution:
    """The distribution of one step, or of one epoch of balls_and_bins, from above."""
    # Of balls_and_bins with next to no noise the batch may be told, which then hides next to nothing.
    unhidden = sampler == "balls_and_bins" and z < LEAST_NOISE
    if q == 1.0 or unhidden or (sampler, relation) == ("poisson", "replace_one"):  # full batches are plain Gaussian
        return distributions.from_gaussian_mechanism(
            z,
            sampling_prob=1.0 if unhidden else q,
            value_discretization_interval=interval,
            neighboring_relation=NeighboringRelation[relation.upper()],
        )
    if sampler == "poisson":
        return distributions.PrivacyLossDistribution(
            *(_from_above(*bounds, interval, delta) for bounds, delta in _directions(z, q, interval))
        )
    if sampler == "without_replacement":
        return _both_directions(z / 2, q, interval)
    if sampler == "balls_and_bins":
        epoch = Epoch(z, math.floor(1 / q + 1e-9))
        low, high = epoch.losses
        return distributions.PrivacyLossDistribution(
            _from_above(math.floor(low / interval), math.ceil(high / interval), interval, epoch.remove),
            _from_above(math.floor(-high / interval), math.ceil(-low / interval), interval, epoch.add),
        )
    shifts, weights = _displaced(q)
    above = math.ceil(largest_loss(shifts, weights, z, NEGLIGIBLE) / interval)
    return distributions.PrivacyLossDistribution(
        *(
            _from_above(low, high, interval, lambda losses, way=way: hockey_stick(losses, shifts, weights, z, way))
            for way, low, high in (
                ("remove", math.floor(math.log(weights[0]) / interval), above),
                ("add", -above, math.ceil(-math.log(weights[0]) / interval)),
            )
        )
    )


def _displaced(q: float) -> tuple[np.ndarray, np.ndarray]:
    """How far an example moves a batch drawn with replacement, in units of C, and with what probability."""
    if q == 1.0:
        raise ValueError("sampling_prob: expected less than 1 for sampler 'with_replacement'; got 1.0")
    times = np.arange(400)
    times = times[(times < 2) | (poisson.sf(times - 1, -math.log1p(-q)) > NEGLIGIBLE)]
    return 2.0 * times, poisson.pmf(times, -math.log1p(-q))


def _directions(z: float, q: float, interval: float) -> list[tuple[tuple[int, int], Delta]]:
    """Of (1−q) N(0, z²) + q N(1, z²) against N(0, z²) and of the reverse pair: range of losses, in intervals, and δ(ε).

    The same as dp-accounting's, which finds x for one ε after the other and takes ten times as long.
    """
    pair = {"shifts": np.array([0.0, 1.0]), "weights": np.array([1 - q, q]), "z": z}
    directions = []
    for way in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        bounds = GaussianPrivacyLoss(z, sampling_prob=q, adjacency_type=way).connect_dots_bounds()
        grid = math.floor(bounds.epsilon_lower / interval), math.ceil(bounds.epsilon_upper / interval)
        directions.append((grid, partial(hockey_stick, direction=way.name.lower(), **pair)))
    return directions


def _both_directions(sigma: float, q: float, interval: float) -> distributions.PrivacyLossDistribution:
    """The smallest distribution above (1−q) N(0, σ²) + q N(1, σ²) against N(0, σ²) and above the reverse pair."""
    bounds, deltas = zip(*_directions(sigma, q, interval), strict=True)
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    return distributions.PrivacyLossDistribution(
        _from_above(low, high, interval, lambda losses: np.maximum(*(delta(losses) for delta in deltas)))
    )


def _from_above(low: int, high: int, interval: float, delta: Delta) -> pld_pmf.PLDPmf:
    """Connect the dots of a trade-off δ(ε) on the grid from ``low`` to ``high``, in intervals."""
    deltas = np.minimum.accumulate(delta(np.arange(low, high + 1) * interval))  # rounding may make it rise by 1e-16
    deltas = np.clip(np.where(deltas > TINY, deltas, 0.0), 0.0, 1.0)  # and leave [0, 1]
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, deltas)
