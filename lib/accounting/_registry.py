"""The accountants: one file of this folder each, found by listing it.

An accountant is a module with

``MATCHES``               the (sampler, neighbouring relation) pairs that its theorem covers
``UPPER_BOUND``           whether its ε is proven to be enough, or only an approximation
``epsilon(events, δ)``    ε of a tuple of events that it matches, each with noise and at least one step
``delta(events, ε)``      the inverse, where it has one

    >>> accountants()
    ('clt', 'gdp', 'moments', 'pld', 'rdp', 'rdp_2020', 'strong_composition')
    >>> accountants(sampler="without_replacement", neighbouring_relation="replace_one")
    ('clt', 'pld', 'rdp')
"""

from functools import cache
from types import ModuleType

from lib import registry
from lib.accounting._event import NEIGHBOURING_RELATIONS, SAMPLERS, check_name


@cache
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


def check_match(accountant: str, sampler: str, neighbouring_relation: str) -> None:
    """``ValueError`` naming the accountants that do match if ``accountant`` does not cover this kind of sampling."""
    able = accountants(sampler=sampler, neighbouring_relation=neighbouring_relation)
    if accountant not in able:
        expected = f"one of {', '.join(able)}" if able else "none, as no accountant here covers it,"
        where = f"for sampler {sampler!r} under {neighbouring_relation!r}"
        matches = load(accountant).MATCHES
        covered = [name for name in SAMPLERS if (name, neighbouring_relation) in matches]
        that = f", which covers {' and '.join(covered)} there" if covered else ""
        raise ValueError(f"accountant: expected {expected} {where}; got {accountant!r}{that}")
