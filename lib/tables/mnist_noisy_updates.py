"""v1 section 3, a remark without numbers: normalisation also helps when the SGD updates are noisy.

Noise N(0, σ²) on every coordinate of the mean gradient; no clipping, so no privacy.  v1: "we confirmed empirically
that normalization layers also improve the robustness of this training method against large noise injection".  The
step size is searched for every cell, as in v2 Table 2: a smaller step is the plain network's own remedy.
"""

from typing import NamedTuple

from lib.run import Run
from lib.tables import Table

COLUMNS = (0.0, 0.01, 0.03, 0.1, 0.3)
NORMS = {"LeNet-300-100": "none", "BN-LeNet-300-100": "batch", "LN-LeNet-300-100": "layer"}


class Size(NamedTuple):
    """What a tier changes."""

    dataset: str
    batch_size: int
    epochs: int
    tuning_epochs: int
    validation_examples: int


SIZES = {
    "smoke": Size("digits", batch_size=128, epochs=1, tuning_epochs=1, validation_examples=297),
    "cpu": Size("mnist", batch_size=256, epochs=5, tuning_epochs=2, validation_examples=10_000),
    "paper": Size("mnist", batch_size=256, epochs=30, tuning_epochs=10, validation_examples=10_000),
}


def cell(row: str, column: float, *, seed: int, tier: str, lr: float) -> Run:
    """Plain SGD, step size falling linearly to 0."""
    return _run(row, column, tier, epochs=SIZES[tier].epochs, lr=lr, seed=seed)


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The same, shorter, on a validation split of the training data."""
    size = SIZES[tier]
    return _run(row, column, tier, epochs=size.tuning_epochs, lr=lr, validation_examples=size.validation_examples)


def _run(row: str, column: float, tier: str, **settings) -> Run:
    return Run(
        dataset=SIZES[tier].dataset,
        batch_size=SIZES[tier].batch_size,
        model="lenet_300_100",
        norm=NORMS[row],
        method="noisy_sgd",
        gradient_noise_std=column,
        optimizer="sgd",
        lr_schedule="linear",
        **settings,
    )


TABLE = Table(
    name="mnist_noisy_updates",
    title="MNIST test accuracy (%) with noise N(0, σ²) on every coordinate of the mean gradient, no clipping",
    source="v1 section 3, a remark",
    notebook="02_dpsgd_vs_si_dpsgd",
    rows=tuple(NORMS),
    column="gradient_noise_std",
    columns=COLUMNS,
    cell=cell,
    grid={"lr": (0.01, 0.03, 0.1, 0.3, 1.0)},
    tuning=tuning,
)
