"""What happened: so many Gaussian queries with so much noise, each on examples sampled in one particular way.

    >>> Event(noise_multiplier=4, sampling_prob=0.01, steps=10_000)
    Event(noise_multiplier=4.0, sampling_prob=0.01, steps=10000, sampler='poisson', \
neighbouring_relation='add_or_remove_one')
    >>> Event(noise_multiplier=4, sampling_prob=1.5, steps=1)
    Traceback (most recent call last):
    ValueError: sampling_prob: expected a number in (0, 1]; got 1.5
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

SAMPLERS = ("poisson", "without_replacement", "with_replacement", "balls_and_bins", "shuffled", "fixed_order")
NEIGHBOURING_RELATIONS = ("add_or_remove_one", "replace_one")


@dataclass(frozen=True)
class Event:
    """A training run as the accountants see it.

    ======================  ============================================================================================
    noise_multiplier        z = standard deviation of the noise ÷ clip norm C; 0 means no privacy
    sampling_prob           q = L/N, batch size ÷ data set size, in (0, 1]
    steps                   T, the number of noisy sums released
    sampler                 poisson: each example is in the batch with probability q, independently
                            | without_replacement: L different examples, drawn afresh in every step
                            | with_replacement: L draws of one example, repeats allowed, afresh in every step
                            | balls_and_bins: in each epoch every example draws one of the ⌊1/q⌋ batches by itself
                            | shuffled: each epoch a permutation cut into batches
                            | fixed_order: one permutation cut into batches, the same in every epoch
    neighbouring_relation   add_or_remove_one: sums differ by at most C | replace_one: by at most 2C; either by 2C
                            for each draw with replacement
    ======================  ============================================================================================

    Raises ``ValueError`` naming the field, what was expected and what came.
    """

    noise_multiplier: float
    sampling_prob: float
    steps: int
    sampler: str = "poisson"
    neighbouring_relation: str = "add_or_remove_one"

    def __post_init__(self) -> None:
        z, q, steps = self.noise_multiplier, self.sampling_prob, self.steps
        _expect("noise_multiplier", z, _finite(z) and z >= 0, "a finite number of at least 0")
        _expect("sampling_prob", q, _finite(q) and 0 < q <= 1, "a number in (0, 1]")
        check_count("steps", steps, least=0)
        check_name("sampler", self.sampler, SAMPLERS)
        check_name("neighbouring_relation", self.neighbouring_relation, NEIGHBOURING_RELATIONS)
        for name, value in {"noise_multiplier": float(z), "sampling_prob": float(q), "steps": int(steps)}.items():
            object.__setattr__(self, name, value)

    @property
    def sensitivity(self) -> float:
        """How far one participation of an example moves the sum, in multiples of the clip norm.

        2 where it takes another's place: replaced, or drawn with replacement.
        """
        return 2.0 if self.neighbouring_relation == "replace_one" or self.sampler == "with_replacement" else 1.0

    @property
    def steps_per_epoch(self) -> int:
        """⌊1/q⌋, where 1/q is N/L up to rounding."""
        return math.floor(1 / self.sampling_prob + 1e-9)

    @property
    def rounds(self) -> int:
        """How often the sampler draws: in every step; balls_and_bins in every epoch that is begun."""
        return math.ceil(self.steps / self.steps_per_epoch) if self.sampler == "balls_and_bins" else self.steps

    @property
    def spread(self) -> float:
        """The standard deviation of one round's privacy loss, about min(p·√(e^(s²/z²) − 1), s/z) with the sensitivity s
        and p = q, or, of balls_and_bins, 1/√T of T steps in an epoch."""
        if not self.noise_multiplier:
            return math.inf
        shift = self.sensitivity / self.noise_multiplier
        hidden = self.sampling_prob if self.sampler != "balls_and_bins" else self.steps_per_epoch**-0.5
        return min(hidden * math.sqrt(math.expm1(min(shift, 26.0) ** 2)), shift)


Events = tuple[Event, ...]  # one after the other on the same data, each with noise and at least one step


def checked_epsilon(epsilon: float) -> float:
    """``epsilon``, or ``ValueError`` unless it is positive and finite."""
    check_positive("epsilon", epsilon)
    return float(epsilon)


def checked_delta(delta: float) -> float:
    """``delta``, or ``ValueError`` unless it is in (0, 1)."""
    _expect("delta", delta, _finite(delta) and 0 < delta < 1, "a number in (0, 1)")
    return float(delta)


def check_positive(name: str, value: float) -> None:
    """``ValueError`` unless ``value`` is positive and finite."""
    _expect(name, value, _finite(value) and value > 0, "a finite number of more than 0")


def check_count(name: str, value: int, *, least: int) -> None:
    """``ValueError`` unless ``value`` is a whole number of at least ``least``."""
    holds = _finite(value) and value >= least and value == int(value)
    _expect(name, value, holds, f"a whole number of at least {least}")


def check_name(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """``ValueError`` unless ``value`` is one of ``allowed``."""
    _expect(name, value, value in allowed, f"one of {', '.join(allowed)}")


def _finite(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond floats
        return False


def _expect(name: str, value: Any, holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {expected}; got {value!r}")
