"""Privacy accounting: noise multiplier ⇄ (ε, δ) ⇄ steps, by every accountant that the papers use or deserve.

    >>> from lib import accounting
    >>> round(accounting.epsilon(noise_multiplier=4.0, sampling_prob=0.01, steps=10_000), 3)
    0.947
    >>> round(accounting.epsilon(noise_multiplier=4.0, sampling_prob=0.01, steps=10_000, accountant="moments"), 2)
    1.26
    >>> accounting.epsilon(noise_multiplier=4.0, sampling_prob=0.01, steps=10, sampler="shuffled")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: accountant: expected one of gdp for sampler 'shuffled' under 'add_or_remove_one'; got 'pld', ...

What happened (:class:`Event`) is separate from how it is counted (the accountants, one file each).  An accountant
names the samplers and neighbouring relations that its theorem covers and refuses every other one, so a shuffled run
cannot be counted as a Poisson run.

**One unit everywhere**: ``noise_multiplier`` z is the noise's standard deviation ÷ the clip norm C, whatever the
neighbouring relation.  Under ``replace_one`` two examples differ by up to 2C; the accountants double, the caller
never does.  A paper that scales its noise to 2C, as batch clipping's N(0, (2Cσ)²), has z = 2σ.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from lib.accounting import _calibration, _registry
from lib.accounting._event import NEIGHBOURING_RELATIONS, SAMPLERS, Event, checked_delta, checked_epsilon
from lib.accounting._gaussian import analytic_gaussian, classical_gaussian, gdp_epsilon
from lib.accounting._registry import accountants, check_match, is_upper_bound
from lib.accounting._shuffled import shuffled_epsilon_at_least
from lib.accounting._si_dpsgd import si_dpsgd_delta, si_dpsgd_epsilon
from lib.accounting._spectrum import Spectrum
from lib.accounting._tail import delta_of_one_step, gdp_exceeded
from lib.accounting._transcript import si_dpsgd_moved, si_dpsgd_proven_epsilon
from lib.accounting.clt import mu as limit_mu

__all__ = [
    "NEIGHBOURING_RELATIONS",
    "SAMPLERS",
    "Event",
    "Spectrum",
    "accountants",
    "analytic_gaussian",
    "check_match",
    "classical_gaussian",
    "composed_epsilon",
    "delta",
    "delta_of_one_step",
    "epsilon",
    "gdp_exceeded",
    "is_upper_bound",
    "limit_mu",
    "most_steps",
    "noise_multiplier",
    "shuffled_epsilon_at_least",
    "si_dpsgd_delta",
    "si_dpsgd_epsilon",
    "si_dpsgd_moved",
    "si_dpsgd_proven_epsilon",
    "smallest_noise",
    "steps",
]


NO_NOISE = 1e-50  # of a noise multiplier below it the square has no place beside others: it counts as none


def epsilon(
    *,
    noise_multiplier: float,
    sampling_prob: float,
    steps: int,
    delta: float = 1e-5,
    sampler: str = "poisson",
    accountant: str = "pld",
    neighbouring_relation: str = "add_or_remove_one",
) -> float:
    """ε at ``delta`` of ``steps`` Gaussian queries, each on a sample of the data.

    noise_multiplier z is noise std ÷ C; sampling_prob q is batch size ÷ data set size (the expected one under
    Poisson sampling).  ``math.inf`` without noise, 0 without steps.  Raises ``ValueError`` for values out of range and
    for an accountant that does not cover the sampler and the neighbouring relation, naming those that do.
    """
    event = Event(noise_multiplier, sampling_prob, steps, sampler, neighbouring_relation)
    return composed_epsilon([event], delta=delta, accountant=accountant)


def delta(
    *,
    epsilon: float,
    noise_multiplier: float,
    sampling_prob: float,
    steps: int,
    sampler: str = "poisson",
    accountant: str = "pld",
    neighbouring_relation: str = "add_or_remove_one",
) -> float:
    """δ at ``epsilon``: the inverse of :func:`epsilon`; 1 without noise, 0 without steps.

    Raises ``ValueError`` as :func:`epsilon` does, and for an accountant that has no answer (strong composition).
    """
    event = Event(noise_multiplier, sampling_prob, steps, sampler, neighbouring_relation)
    check_match(accountant, sampler, neighbouring_relation)
    module, budget = _registry.load(accountant), checked_epsilon(epsilon)
    if not hasattr(module, "delta"):
        able = ", ".join(name for name in accountants() if hasattr(_registry.load(name), "delta"))
        raise ValueError(f"accountant: expected one of {able} to find delta; got {accountant!r}")
    if event.steps == 0:
        return 0.0
    if event.noise_multiplier < NO_NOISE:
        return 1.0
    with _countable(accountant, (event,)):
        return _number(module.delta((event,), budget))


def noise_multiplier(
    *,
    epsilon: float,
    sampling_prob: float,
    steps: int,
    delta: float = 1e-5,
    sampler: str = "poisson",
    accountant: str = "pld",
    neighbouring_relation: str = "add_or_remove_one",
) -> float:
    """The smallest z whose ε is at most ``epsilon``: never more, and z at most 0.01 % above the smallest, where ε falls
    with z, as it does but for rounding.

    0 if there are no steps.  Raises ``ValueError`` as :func:`epsilon` does, and if of the range searched, 0.01 to 1e6,
    no z meets ``epsilon``, or every one does.
    """
    check_match(accountant, sampler, neighbouring_relation)
    checked_epsilon(epsilon)
    checked_delta(delta)
    if Event(1.0, sampling_prob, steps, sampler, neighbouring_relation).steps == 0:
        return 0.0

    def events(z: float) -> list[Event]:
        return [Event(z, sampling_prob, steps, sampler, neighbouring_relation)]

    return smallest_noise(events, epsilon=epsilon, delta=delta, accountant=accountant)


def steps(
    *,
    epsilon: float,
    noise_multiplier: float,
    sampling_prob: float,
    delta: float = 1e-5,
    sampler: str = "poisson",
    accountant: str = "pld",
    neighbouring_relation: str = "add_or_remove_one",
) -> int:
    """The largest number of steps whose ε is at most ``epsilon``; 0 if one step is too much.

    abadi trains "as long as the privacy is within the pre-set limit".  Raises ``ValueError`` as :func:`epsilon` does,
    and if 1e7 steps do not spend the budget.
    """

    def events(count: int) -> list[Event]:
        return [Event(noise_multiplier, sampling_prob, count, sampler, neighbouring_relation)]

    return most_steps(events, epsilon=epsilon, delta=delta, accountant=accountant)


def composed_epsilon(events: Iterable[Event], *, delta: float = 1e-5, accountant: str = "pld") -> float:
    """ε at ``delta`` of several events one after the other on the same data, as when the noise changes with time.

    >>> training = [Event(z, 0.01, 500) for z in (2.0, 1.5)]
    >>> covariance = Event(noise_multiplier=16.0, sampling_prob=1.0, steps=1)
    >>> round(composed_epsilon([covariance, *training]), 2)
    0.82

    Events without steps cost nothing.  Raises ``ValueError`` as :func:`epsilon` does, and for events of different
    neighbouring relations: an ε of both would hold under neither.
    """
    delta, events = checked_delta(delta), tuple(events)
    _registry.load(accountant)  # an unknown one is refused, whatever the events
    if len(relations := sorted({event.neighbouring_relation for event in events})) > 1:
        raise ValueError(f"neighbouring_relation: expected one for all events; got {' and '.join(relations)}")
    for event in events:
        check_match(accountant, event.sampler, event.neighbouring_relation)
    happened = tuple(event for event in events if event.steps)
    if any(event.noise_multiplier < NO_NOISE for event in happened):
        return math.inf
    return _epsilon(accountant, happened, delta) if happened else 0.0


@lru_cache(maxsize=4096)
def _epsilon(accountant: str, events: tuple[Event, ...], delta: float) -> float:
    """A report asks for the same ε over and over."""
    with _countable(accountant, events):
        return _number(_registry.load(accountant).epsilon(events, delta))


def _number(found: float) -> float:
    """No accountant's NaN is smaller than a budget, or larger."""
    if math.isnan(found):
        raise ArithmeticError("what it finds is not a number")
    return found


@contextmanager
def _countable(accountant: str, events: tuple[Event, ...]) -> Iterator[None]:
    """``ValueError`` for what is too much for an accountant, in one way or another."""
    try:
        yield
    except (ArithmeticError, MemoryError, RuntimeError) as error:
        z = sorted(event.noise_multiplier for event in events)
        raise ValueError(
            f"noise_multiplier: expected what accountant {accountant!r} can count; got {z[0]:g} to {z[-1]:g}: {error}"
        ) from error


def smallest_noise(
    events: Callable[[float], Iterable[Event]], *, epsilon: float, delta: float = 1e-5, accountant: str = "pld"
) -> float:
    """:func:`noise_multiplier` for any course of events: the smallest z for which ``events(z)`` keep to the budget."""
    budget, delta = checked_epsilon(epsilon), checked_delta(delta)
    begin = _limit(_calibration.smallest_noise, events, budget, delta)
    spent = lambda z: composed_epsilon(events(z), delta=delta, accountant=accountant)  # noqa: E731
    return _calibration.smallest_noise(spent, budget, accountant, about=2.0 ** math.ceil(math.log2(begin)))


def most_steps(
    events: Callable[[int], Iterable[Event]], *, epsilon: float, delta: float = 1e-5, accountant: str = "pld"
) -> int:
    """:func:`steps` for any course of events: the largest count for which ``events(count)`` keep to the budget."""
    budget, delta = checked_epsilon(epsilon), checked_delta(delta)
    begin = _limit(_calibration.most_steps, events, budget, delta)
    spent = lambda count: composed_epsilon(events(count), delta=delta, accountant=accountant)  # noqa: E731
    return _calibration.most_steps(spent, budget, about=int(begin))


def _limit(search: Callable[..., float], events: Callable[..., Iterable[Event]], budget: float, delta: float) -> float:
    """What ``search`` finds in the limit of many steps, for an accountant to begin with; 1 where it finds nothing.

    There T steps are √T·spread-GDP (Bu et al. 2019, 1911.11607), an approximation that takes no time.
    """

    def spent(value: float) -> float:
        return gdp_epsilon(math.hypot(*(math.sqrt(event.rounds) * event.spread for event in events(value))), delta)

    try:
        return max(1.0, search(spent, budget))
    except (ValueError, ArithmeticError):  # beyond its range, or not an event: then the accountant says so
        return 1.0
