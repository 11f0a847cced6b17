"""Which examples form a batch, and what that means to the accountants.

    >>> Sampler("poisson", examples=60_000, batch_size=600).event(noise_multiplier=4.0, steps=10_000)
    Event(noise_multiplier=4.0, sampling_prob=0.01, steps=10000, sampler='poisson', \
neighbouring_relation='add_or_remove_one')

Batches and event come from one object, so a run cannot be sampled in one way and accounted in another.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lib.accounting import SAMPLERS, Event

DRAWN = 1 << 22  # examples' draws, of one batch or of many, whose outcomes are held at once; a byte each


@dataclass(frozen=True)
class Sampler:
    """One of :data:`lib.accounting.SAMPLERS` over ``examples``, with batches of (expected) size ``batch_size`` L.

    An epoch is ⌊N/L⌋ steps.  Of ``poisson`` alone, ``groups`` b: the examples take turns, step t sampling with
    probability bq from those whose index is t modulo b (cyclic Poisson sampling, 2306.08153), so that to each of them
    every b-th step is a step.  Raises ``ValueError`` for an unknown sampler, for a batch larger than the data set and
    for more groups than there are batches in it.
    """

    name: str
    examples: int
    batch_size: int
    groups: int = 1

    def __post_init__(self) -> None:
        if self.name not in SAMPLERS:
            raise ValueError(f"sampler: expected one of {', '.join(SAMPLERS)}; got {self.name!r}")
        if not 1 <= self.batch_size <= self.examples:
            raise ValueError(
                f"batch_size: expected 1 to {self.examples}, the size of the training set; got {self.batch_size}"
            )
        most = self.steps_per_epoch if self.name == "poisson" else 1
        if not 1 <= self.groups <= most:
            raise ValueError(f"groups: expected 1 to {most} for sampler {self.name!r}; got {self.groups}")

    @property
    def sampling_prob(self) -> float:
        """q = L/N."""
        return self.batch_size / self.examples

    @property
    def steps_per_epoch(self) -> int:
        return self.examples // self.batch_size

    def event(self, *, noise_multiplier: float, steps: int, neighbouring_relation: str = "add_or_remove_one") -> Event:
        """What ``steps`` noisy sums over these batches are to an accountant, for the example that has most of them."""
        its_steps, sampling_prob = math.ceil(steps / self.groups), self.sampling_prob * self.groups
        return Event(noise_multiplier, sampling_prob, its_steps, self.name, neighbouring_relation)

    def epoch(self, generator: torch.Generator, first_step: int = 0) -> Iterator[Tensor]:
        """One epoch's batches as tensors of indices, drawn from ``generator`` on its device.

        ``first_step``: the number of the epoch's first step in the run, which tells whose turn it is.
        """
        if self.name == "poisson":
            return self._poisson(generator, first_step)
        return {
            "without_replacement": self._without_replacement,
            "with_replacement": self._with_replacement,
            "balls_and_bins": self._balls_and_bins,
            "shuffled": self._shuffled,
            "fixed_order": self._fixed_order,
        }[self.name](generator)

    def _poisson(self, generator: torch.Generator, first_step: int) -> Iterator[Tensor]:
        """Each example by itself, with the same probability, so sizes vary and a batch may be empty.

        The sizes of many batches are asked for at once, as a GPU is waited for whenever it is asked.
        """
        epoch, at_once = range(first_step, first_step + self.steps_per_epoch), max(1, DRAWN // self.examples)
        for steps in (epoch[done : done + at_once] for done in range(0, len(epoch), at_once)):
            taken = torch.zeros(len(steps), self.examples, dtype=torch.bool, device=generator.device)
            for step, examples in zip(steps, taken, strict=True):
                candidates = examples[step % self.groups :: self.groups]
                # In double precision: float32 draws would round a small q by up to 1 in 10,000.
                draws = torch.rand(len(candidates), dtype=torch.float64, generator=generator, device=generator.device)
                candidates.copy_(draws < self.sampling_prob * self.groups)
            yield from taken.nonzero()[:, 1].contiguous().split(taken.sum(1).tolist())

    def _without_replacement(self, generator: torch.Generator) -> Iterator[Tensor]:
        """L different examples, all subsets alike, afresh in every step."""
        for _ in range(self.steps_per_epoch):
            yield torch.randperm(self.examples, generator=generator, device=generator.device)[: self.batch_size]

    def _with_replacement(self, generator: torch.Generator) -> Iterator[Tensor]:
        """L draws of one example each; repeats are possible."""
        for _ in range(self.steps_per_epoch):
            yield torch.randint(self.examples, (self.batch_size,), generator=generator, device=generator.device)

    def _balls_and_bins(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Every example draws one of the epoch's batches by itself, so sizes vary, and a batch may be empty."""
        batch = torch.randint(self.steps_per_epoch, (self.examples,), generator=generator, device=generator.device)
        sizes = batch.bincount(minlength=self.steps_per_epoch)
        return iter(batch.argsort(stable=True).split(sizes.tolist()))

    def _shuffled(self, generator: torch.Generator) -> Iterator[Tensor]:
        """A fresh permutation, cut up; the examples left over after the last full batch sit this epoch out."""
        order = torch.randperm(self.examples, generator=generator, device=generator.device)
        return iter(order[: self.steps_per_epoch * self.batch_size].split(self.batch_size))

    def _fixed_order(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The permutation that belongs to the generator's seed: batches come back exactly ⌊N/L⌋ steps later."""
        return self._shuffled(torch.Generator(generator.device).manual_seed(generator.initial_seed()))
