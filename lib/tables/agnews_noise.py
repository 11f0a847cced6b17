"""v2 Table 4 (= v1 Table 3): AG News accuracy of a BiLSTM with Gaussian noise on its weights, in training and testing.

As in :mod:`lib.tables.mnist_noise` the step size of every cell is searched over one grid, and noise is on all weights
and biases, one draw for a batch; v1's code leaves the dense layer without, and draws anew at every time step.  Words
have GloVe's vectors, frozen, and a text is its first 20 words, as in v1's code.  What the papers trained on, 96,000
texts with vectors of 100 dimensions, may be more than what a record says it had.
"""

from typing import Any, NamedTuple

from lib.run import Run
from lib.tables import Printed, Table

COLUMNS = (0.0, 0.01, 0.1, 1.0, 2.0)
ROWS = {"BiLSTM-DL": "none", "LN-BiLSTM-DL": "layer"}
_PRINTED = {  # σ: 0, .01, .1, 1, 2
    "BiLSTM-DL": (89.34, 89.57, 89.01, 66.32, 24.76),
    "LN-BiLSTM-DL": (89.34, 88.87, 88.62, 85.74, 82.41),
}


class Size(NamedTuple):
    """What a tier changes."""

    dataset: str
    batch_size: int
    epochs: int
    noisy_epochs: int  # for σ ≥ 1
    tuning_epochs: int
    validation_examples: int


SIZES = {
    "smoke": Size("topics", batch_size=100, epochs=3, noisy_epochs=3, tuning_epochs=1, validation_examples=200),
    "cpu": Size("ag_news", batch_size=300, epochs=6, noisy_epochs=12, tuning_epochs=2, validation_examples=5_000),
    "paper": Size("ag_news", batch_size=300, epochs=25, noisy_epochs=100, tuning_epochs=6, validation_examples=24_000),
}


def cell(row: str, column: float, *, seed: int, tier: str, lr: float) -> Run:
    """Adam, step size falling linearly to 0, fresh noise in every forward pass."""
    epochs = SIZES[tier].noisy_epochs if column >= 1 else SIZES[tier].epochs
    return _run(row, column, seed=seed, tier=tier, lr=lr, epochs=epochs)


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The same, shorter, on a validation split of the training data."""
    size = SIZES[tier]
    return _run(row, column, tier=tier, lr=lr, epochs=size.tuning_epochs, validation_examples=size.validation_examples)


def _run(row: str, column: float, *, tier: str, **settings: Any) -> Run:
    return Run(
        dataset=SIZES[tier].dataset,
        batch_size=SIZES[tier].batch_size,
        model="bilstm",
        norm=ROWS[row],
        weight_noise_std=column,
        lr_schedule="linear",
        **settings,
    )


TABLE = Table(
    name="agnews_noise",
    title="AG News test accuracy (%) with noise N(0, σ²) on the weights, in training and testing",
    source="v2 Table 4 = v1 Table 3",
    notebook="01_noise_robustness",
    rows=tuple(ROWS),
    column="weight_noise_std",
    columns=COLUMNS,
    printed={
        (row, column): Printed(value)
        for row, values in _PRINTED.items()
        for column, value in zip(COLUMNS, values, strict=True)
    },
    cell=cell,
    grid={"lr": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)},
    tuning=tuning,
)
