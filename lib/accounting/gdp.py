"""Exact composition of Gaussian queries where sampling hides nothing: √K·s/z-GDP for K participations.

    >>> from lib.accounting import epsilon
    >>> one_pass = {"sampling_prob": 0.01, "steps": 100, "sampler": "shuffled", "accountant": "gdp"}
    >>> round(epsilon(noise_multiplier=4.0, **one_pass), 3)  # one participation, no amplification claimed
    0.926

Shuffled epochs, or one fixed order: an example is in at most one batch of each epoch, so K is the number of epochs
begun, and of events that share an epoch, as where the noise changes in its middle, each counts it: an example may be
in the last batch of one epoch and the first of the next.  A fixed order begins anew with every event.  The epoch is
taken to have ⌊1/q⌋ steps, leftover examples sitting it out; with a ragged last batch K is only smaller.  Full batches
(q = 1): K = T, exact.  Source: Dong, Roth and Su 2019 (1905.02383), corollary 3.3.
"""

import math

from lib.accounting._event import Event, Events
from lib.accounting._gaussian import gdp_delta, gdp_epsilon

MATCHES = {
    (sampler, relation)
    for sampler in ("shuffled", "fixed_order", "poisson")
    for relation in ("add_or_remove_one", "replace_one")
}
UPPER_BOUND = True


def epsilon(events: Events, delta: float) -> float:
    return gdp_epsilon(_mu(events), delta)


def delta(events: Events, epsilon: float) -> float:
    return gdp_delta(_mu(events), epsilon)


def _mu(events: Events) -> float:
    done: dict[int, int] = {}  # steps of the epoch that is under way, by the length of epochs
    each = []
    for event in events:
        epoch = event.steps_per_epoch
        before = done.get(epoch, 0) if event.sampler == "shuffled" else 0
        each.append(mu(event, math.ceil((before + event.steps) / epoch)))
        if event.sampler == "shuffled":
            done[epoch] = (before + event.steps) % epoch
    return math.hypot(*each)


def mu(event: Event, participations: int) -> float:
    """µ = √K·s/z; ``ValueError`` for Poisson sampling with q < 1, which this accountant would not amplify."""
    if event.sampler == "poisson" and event.sampling_prob < 1:
        expected = "expected 1 for accountant 'gdp' and sampler 'poisson', or accountant 'pld'"
        raise ValueError(f"sampling_prob: {expected}; got {event.sampling_prob!r}")
    return math.sqrt(participations) * event.sensitivity / event.noise_multiplier
