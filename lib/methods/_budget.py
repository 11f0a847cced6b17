"""How much noise and how many steps a run has, and what an accountant makes of it."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from lib import accounting
from lib.accounting import Event
from lib.run import Run
from lib.sampling import Sampler

COUNTED = (
    *("method", "epochs", "batch_size", "sampler", "clip_norm", "noise_multiplier", "noise_multiplier_decay"),
    *("epsilon", "delta", "accountant", "neighbouring_relation", "pca_noise_multiplier"),
)


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
        return _events(self.run, self.sampler, self.discount, self.noise_multiplier, self.steps)

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
    # The rest has no part in it, so the runs of a search share one calibration.
    counted = Run(dataset="", model=run.model, lr=1.0, **{name: getattr(run, name) for name in COUNTED})
    return replace(_budget(counted, sampler, discount), run=run)


@lru_cache(maxsize=64)
def _budget(run: Run, sampler: Sampler, discount: float) -> Budget:
    z, steps = run.noise_multiplier, run.epochs * sampler.steps_per_epoch
    if z is None and run.epsilon is None:
        raise ValueError(f"noise_multiplier: expected one, or an epsilon, for method {run.method!r}; got None")
    if run.clip_norm is None and z != 0:
        raise ValueError(f"clip_norm: expected one for method {run.method!r}, unless noise_multiplier is 0; got None")
    counted, events = {"delta": run.delta, "accountant": run.accountant}, partial(_events, run, sampler, discount)
    if z is None:
        z = accounting.smallest_noise(lambda z: events(z, steps), epsilon=run.epsilon, **counted)
    elif z or run.epsilon is not None:
        spent = accounting.composed_epsilon(events(z, steps), **counted)  # what it refuses is refused before training
        if run.epsilon is not None and spent > run.epsilon:
            steps = accounting.most_steps(lambda steps: events(z, steps), epsilon=run.epsilon, **counted)
            if steps == 0:
                raise ValueError(
                    f"epsilon: expected enough for one step at noise multiplier {z:g}; got {run.epsilon!r}"
                )
    return Budget(run, sampler, discount, z, steps)


def _events(run: Run, sampler: Sampler, discount: float, noise_multiplier: float, steps: int) -> list[Event]:
    """One event, or one for each epoch where the noise multiplier changes with them."""
    noise_multiplier /= discount
    relation, per_epoch = run.neighbouring_relation, sampler.steps_per_epoch
    events = []
    if run.pca_noise_multiplier is not None:
        name = "poisson" if (sampler.name, relation) != ("without_replacement", "replace_one") else sampler.name
        events.append(Event(run.pca_noise_multiplier, 1.0, 1, name, relation))
    if run.noise_multiplier_decay == 1.0:
        return [*events, sampler.event(noise_multiplier=noise_multiplier, steps=steps, neighbouring_relation=relation)]
    for epoch in range(math.ceil(steps / per_epoch)):
        events.append(
            sampler.event(
                noise_multiplier=noise_multiplier * run.noise_multiplier_decay**epoch,
                steps=min(per_epoch, steps - epoch * per_epoch),
                neighbouring_relation=relation,
            )
        )
    return events
