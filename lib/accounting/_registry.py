"""The accountants: one file of this folder each, found by listing it.

An accountant is a module with

``MATCHES``               the (sampler, neighbouring relation) pairs that its theorem covers
``UPPER_BOUND``           whether its ε is proven to be enough, or only an approximation
``epsilon(event, δ)``     ε of an event that it matches, with noise and at least one step
``delta(event, ε)``       the inverse, where it has one

    >>> accountants()
    ('clt', 'gdp', 'moments', 'pld', 'rdp', 'rdp_2020', 'strong_composition')
    >>> accountants(sampler="without_replacement", neighbouring_relation="replace_one")
    ('clt', 'pld', 'rdp')
"""

from types import ModuleType

from lib import registry
from lib.accounting._event import NEIGHBOURING_RELATIONS, SAMPLERS, Event, check_name


def accountants(*, sampler: str | None = None, neighbouring_relation: str | None = None) -> tuple[str, ...]:
    """The accountants' names, sorted; only those that cover ``sampler`` and ``neighbouring_relation`` where given."""
    if sampler is not None:
        check_name("sampler", sampler, SAMPLERS)
    if neighbouring_relation is not None:
        check_name("neighbouring_relation", neighbouring_relation, NEIGHBOURING_RELATIONS)
    return tuple(
        name
        for name in registry.names("accounting")
        if any(s == (sampler or s) and r == (neighbouring_relation or r) for s, r in load(name).MATCHES)
    )


def is_upper_bound(*, accountant: str) -> bool:
    """Whether the accountant's ε is a proven upper bound; the others are approximations and prove nothing."""
    return load(accountant).UPPER_BOUND


def load(accountant: str) -> ModuleType:
    """The accountant's module; ``ValueError`` listing the accountants if there is none of that name."""
    check_name("accountant", accountant, registry.names("accounting"))
    return registry.load("accounting", accountant)


def matching(accountant: str, event: Event) -> ModuleType:
    """The accountant's module; ``ValueError`` naming those that do match if it does not cover the event's sampling."""
    module = load(accountant)
    if (event.sampler, event.neighbouring_relation) not in module.MATCHES:
        able = accountants(sampler=event.sampler, neighbouring_relation=event.neighbouring_relation)
        expected = f"one of {', '.join(able)}" if able else "none, as no accountant here covers it,"
        where = f"for sampler {event.sampler!r} under {event.neighbouring_relation!r}"
        raise ValueError(f"accountant: expected {expected} {where}; got {accountant!r}")
    return module
