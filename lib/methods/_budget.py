"""How much noise and how many steps a run has, and what an accountant makes of it."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from lib import accounting
from lib.accounting import Event
from lib.run import Run
from lib.sampling import Sampler


@dataclass(frozen=True)
class Budget:
    """Noise multiplier of the first epoch and number of steps of ``run``, and the events that they make.

    ``discount`` is what the noise multiplier is divided by in the account: how many times further than one clipped
    vector can one example move what is released, in units of its noise (√L where L layers are clipped and noised each
    by itself).  The private PCA, if there is one, is the first event: one query on all examples.
    """

    run: Run
    sampler: Sampler
    discount: float
    noise_multiplier: float
    steps: int

    @property
    def events(self) -> list[Event]:
        z = self.noise_multiplier / self.discount
        return _before(self.run, self.sampler) + _training(self.run, self.sampler, z, self.steps)

    def epsilon(self, accountant: str) -> float:
        """ε at the run's δ; infinite without noise."""
        if not self.noise_multiplier:
            return math.inf
        return accounting.composed_epsilon(self.events, delta=self.run.delta, accountant=accountant)


def budget(run: Run, sampler: Sampler, discount: float = 1.0) -> Budget:
    """The budget of ``run``: its noise from its ε, or its steps from both, or just what it says.

    Raises ``ValueError`` if it has neither a noise multiplier nor an ε, if noise has no clip norm to be relative to,
    if no noise keeps to ε, or if ε is spent before the first step.
    """
    z, steps = run.noise_multiplier, run.epochs * sampler.steps_per_epoch
    if z is None and run.epsilon is None:
        raise ValueError(f"noise_multiplier: expected one, or an epsilon, for method {run.method!r}; got None")
    if run.clip_norm is None and z != 0:
        raise ValueError(f"clip_norm: expected one for method {run.method!r}, unless noise_multiplier is 0; got None")
    before, counted = _before(run, sampler), {"delta": run.delta, "accountant": run.accountant}
    if z is None:
        least = _smallest_noise(tuple(before), tuple(_training(run, sampler, 1.0, steps)), run.epsilon, **counted)
        z = least * discount
        if z / discount < least:  # by rounding, and ε would be beyond its budget by as much
            z = math.nextafter(z, math.inf)
    elif z or run.epsilon is not None:

        def events(steps: int) -> list[Event]:
            return before + _training(run, sampler, z / discount, steps)

        spent = accounting.composed_epsilon(events(steps), **counted)  # what it refuses is refused before training
        if run.epsilon is not None and spent > run.epsilon:
            steps = accounting.most_steps(events, epsilon=run.epsilon, **counted)
            if steps == 0:
                raise ValueError(
                    f"epsilon: expected enough for one step at noise multiplier {z:g}; got {run.epsilon!r}"
                )
    return Budget(run, sampler, discount, z, steps)


@lru_cache(maxsize=64)
def _smallest_noise(
    before: tuple[Event, ...], training: tuple[Event, ...], epsilon: float, delta: float, accountant: str
) -> float:
    """The smallest factor on the noise of ``training`` that, after ``before``, keeps to ε.

    Of events alone, which all runs of a search share, and those that differ in clip norm and discount.
    """

    def events(z: float) -> list[Event]:
        return [*before, *(replace(event, noise_multiplier=z * event.noise_multiplier) for event in training)]

    return accounting.smallest_noise(events, epsilon=epsilon, delta=delta, accountant=accountant)


def _before(run: Run, sampler: Sampler) -> list[Event]:
    """The private PCA, if there is one."""
    if run.pca_noise_multiplier is None:
        return []
    relation = run.neighbouring_relation
    name = "poisson" if (sampler.name, relation) != ("without_replacement", "replace_one") else sampler.name
    return [Event(run.pca_noise_multiplier, 1.0, 1, name, relation)]


def _training(run: Run, sampler: Sampler, z: float, steps: int) -> list[Event]:
    """One event, or one for each epoch where the noise multiplier, z in the first, changes with them."""
    relation, per_epoch = run.neighbouring_relation, sampler.steps_per_epoch
    if run.noise_multiplier_decay == 1.0:
        return [sampler.event(noise_multiplier=z, steps=steps, neighbouring_relation=relation)]
    return [
        sampler.event(
            noise_multiplier=z * run.noise_multiplier_decay**epoch,
            steps=min(per_epoch, steps - epoch * per_epoch),
            neighbouring_relation=relation,
        )
        for epoch in range(math.ceil(steps / per_epoch))
    ]
