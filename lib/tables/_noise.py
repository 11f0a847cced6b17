"""Cells of the tables with noise on the weights: which network, how much noise, and what a tier makes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lib.run import Run

LARGE = 0.3  # σ from which training is longer: "the larger the noise, the slower the training"


class Size(NamedTuple):
    """What a tier changes."""

    dataset: str
    batch_size: int
    epochs: int
    noisy_epochs: int  # for σ ≥ LARGE
    tuning_epochs: int
    validation_examples: int


@dataclass(frozen=True)
class NoisyWeights:
    """``cell`` and ``tuning`` of a table: rows by model and norm, sizes by tier.

    Adam, step size falling linearly to 0, fresh noise on weights and biases at every step and test batch; and
    ``further(row, tier)``, what else is set.  ``searched_at``: where the search at one σ serves another.
    """

    models: Mapping[str, tuple[str, str]]
    sizes: Mapping[str, Size]
    further: Callable[[str, str], dict[str, Any]] = lambda row, tier: {}
    searched_at: Mapping[float, float] = field(default_factory=dict)

    def cell(self, row: str, column: float, *, seed: int, tier: str, lr: float) -> Run:
        """One run at σ = ``column``."""
        size = self.sizes[tier]
        return self._run(row, column, tier, size.noisy_epochs if column >= LARGE else size.epochs, lr, seed=seed)

    def tuning(self, row: str, column: float, *, tier: str, lr: float) -> Run:
        """The same, shorter, on a validation split of the training data."""
        size, column = self.sizes[tier], self.searched_at.get(column, column)
        return self._run(row, column, tier, size.tuning_epochs, lr, validation_examples=size.validation_examples)

    def _run(self, row: str, column: float, tier: str, epochs: int, lr: float, **settings: Any) -> Run:
        model, norm = self.models[row]
        settings |= {"dataset": self.sizes[tier].dataset, "batch_size": self.sizes[tier].batch_size, "model": model}
        settings |= {"norm": norm, "weight_noise_std": column, "lr": lr, "lr_schedule": "linear", "epochs": epochs}
        return Run(**(settings | self.further(row, tier)))
