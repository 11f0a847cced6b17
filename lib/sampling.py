"""Which examples form a batch, and what that means to the accountants.

    >>> Sampler("poisson", examples=60_000, batch_size=600).event(noise_multiplier=4.0, steps=10_000)
    Event(noise_multiplier=4.0, sampling_prob=0.01, steps=10000, sampler='poisson', \
neighbouring_relation='add_or_remove_one')

Batches and event come from one object, so a run cannot be sampled in one way and accounted in another.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lib.accounting import SAMPLERS, Event


@dataclass(frozen=True)
class Sampler:
    """One of :data:`lib.accounting.SAMPLERS` over ``examples``, with batches of (expected) size ``batch_size`` L.

    An epoch is ⌊N/L⌋ steps.  Raises ``ValueError`` for an unknown sampler and for a batch larger than the data set.
    """

    name: str
    examples: int
    batch_size: int

    def __post_init__(self) -> None:
        if self.name not in SAMPLERS:
            raise ValueError(f"sampler: expected one of {', '.join(SAMPLERS)}; got {self.name!r}")
        if not 1 <= self.batch_size <= self.examples:
            raise ValueError(
                f"batch_size: expected 1 to {self.examples}, the size of the training set; got {self.batch_size}"
            )

    @property
    def sampling_prob(self) -> float:
        """q = L/N."""
        return self.batch_size / self.examples

    @property
    def steps_per_epoch(self) -> int:
        return self.examples // self.batch_size

    def event(self, *, noise_multiplier: float, steps: int, neighbouring_relation: str = "add_or_remove_one") -> Event:
        """What ``steps`` noisy sums over these batches are to an accountant."""
        return Event(noise_multiplier, self.sampling_prob, steps, self.name, neighbouring_relation)

    def epoch(self, generator: torch.Generator) -> Iterator[Tensor]:
        """One epoch's batches as tensors of indices, drawn from ``generator`` on its device."""
        return {
            "poisson": self._poisson,
            "without_replacement": self._without_replacement,
            "with_replacement": self._with_replacement,
            "shuffled": self._shuffled,
        }[self.name](generator)

    def _poisson(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Each example with probability q by itself, so sizes vary and a batch may be empty."""
        for _ in range(self.steps_per_epoch):
            # In double precision: float32 draws would round a small q by up to 1 in 10,000.
            draws = torch.rand(self.examples, dtype=torch.float64, generator=generator, device=generator.device)
            yield (draws < self.sampling_prob).nonzero().squeeze(1)

    def _without_replacement(self, generator: torch.Generator) -> Iterator[Tensor]:
        """L different examples, all subsets alike, afresh in every step."""
        for _ in range(self.steps_per_epoch):
            yield torch.randperm(self.examples, generator=generator, device=generator.device)[: self.batch_size]

    def _with_replacement(self, generator: torch.Generator) -> Iterator[Tensor]:
        """L draws of one example each; repeats are possible."""
        for _ in range(self.steps_per_epoch):
            yield torch.randint(self.examples, (self.batch_size,), generator=generator, device=generator.device)

    def _shuffled(self, generator: torch.Generator) -> Iterator[Tensor]:
        """A fresh permutation, cut up; the examples left over after the last full batch sit this epoch out."""
        order = torch.randperm(self.examples, generator=generator, device=generator.device)
        return iter(order[: self.steps_per_epoch * self.batch_size].split(self.batch_size))
