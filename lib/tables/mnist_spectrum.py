"""Ours: the repair of v1's idea at equal *proven* ε, δ = 1e-5: MNIST accuracy between DPSGD and SI-DPSGD.

v1 compares SI-DPSGD with DPSGD at the ε that either claims.  Here every row keeps to the same proven ε.  With batches
in a fixed order, where the guarantee is exact and sampling amplifies nothing: DPSGD (p = 0), the powers p between, and
SI-DPSGD (p = 1), whose noise is then as large as its guarantee asks (:mod:`lib.methods.correlated_noise`).  With
amplification by sampling: DPSGD, and the square root in four bands.  v1's update everywhere, a constant step size
without momentum, which is searched for every row and ε on validation examples; LeNet-5 with tanh and C = 0.5 as in
:mod:`lib.tables.mnist_si_dpsgd`, lots of 1000, few epochs: those the probe of the square root was made with.  v1's
method is meant for normalised networks: p = 0 and 1 have layer norm, too, with ReLU.

Every participation adds to what SI-DPSGD has to hide, so few epochs and another batch size suit it better than those
that all rows have.  So it has rows of one epoch, too, with the better of the batch sizes 500 to 4000 (plain) and 500
and 1000 (layer norm) on validation examples at ε = 1, one seed.
"""

from typing import Any, NamedTuple

from lib.run import Run
from lib.tables import Table

COLUMNS = (8.0, 3.0, 1.0, 0.5, 0.1)
AMPLIFIED, BANDED, PLAIN = "DPSGD, amplified", "p = 1/2 in 4 bands, amplified", "DPSGD (p = 0)"
SI_DPSGD = "SI-DPSGD (p = 1)"
LN_PLAIN, LN_SI_DPSGD = f"LN-LeNet-5, {PLAIN}", f"LN-LeNet-5, {SI_DPSGD}"
BRIEF, LN_BRIEF = f"{SI_DPSGD}, one epoch", f"{LN_SI_DPSGD}, one epoch"
POWERS = {PLAIN: 0.0, "p = 1/4": 0.25, "p = 1/2": 0.5, "p = 3/4": 0.75, SI_DPSGD: 1.0}
ROWS: dict[str, dict[str, Any]] = {
    AMPLIFIED: {"method": "dpsgd", "sampler": "poisson"},
    BANDED: {"method": "correlated_noise", "sampler": "poisson", "noise_power": 0.5, "noise_bands": 4},
} | {
    name: {"method": "correlated_noise", "sampler": "fixed_order", "accountant": "gdp", "noise_power": power}
    for name, power in POWERS.items()
}
ROWS |= {
    name: ROWS[plain] | {"norm": "layer_without_affine", "activation": "relu"}
    for name, plain in {LN_PLAIN: PLAIN, LN_SI_DPSGD: SI_DPSGD}.items()
}
ROWS |= {BRIEF: ROWS[SI_DPSGD], LN_BRIEF: ROWS[LN_SI_DPSGD]}
BATCHES = {BRIEF: 2.0, LN_BRIEF: 0.5}  # of the rows of one epoch, in multiples of the others'
PANELS = {  # of the figure: each row's p, or its name
    "LeNet-5, batches in a fixed order": POWERS,
    "LN-LeNet-5, likewise": {LN_PLAIN: 0.0, LN_SI_DPSGD: 1.0},
    "LeNet-5, amplified by sampling": {AMPLIFIED: "DPSGD", BANDED: "p = 1/2,\n4 bands"},
}
TUNED_AT = {8.0: 3.0}


class Size(NamedTuple):
    """What a tier changes."""

    dataset: str
    batch_size: int
    epochs: int
    tuning_epochs: int
    validation_examples: int


SIZES = {
    "smoke": Size("digits", batch_size=128, epochs=1, tuning_epochs=1, validation_examples=297),
    "cpu": Size("mnist", batch_size=1000, epochs=4, tuning_epochs=2, validation_examples=10_000),
    "paper": Size("mnist", batch_size=1000, epochs=10, tuning_epochs=10, validation_examples=10_000),
}


def cell(row: str, column: float, *, seed: int, tier: str, lr: float) -> Run:
    """One run at ε = ``column``."""
    return _run(row, column, tier, SIZES[tier].epochs, seed=seed, lr=lr)


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The same on a validation split; shorter where sampling amplifies, with the noise that keeps a shorter run to ε.

    In a fixed order noise grows with every epoch, and a short search would choose steps that are too long.
    """
    size, in_order = SIZES[tier], ROWS[row]["sampler"] == "fixed_order"
    column = TUNED_AT.get(column, column)
    epochs = size.epochs if in_order else size.tuning_epochs
    return _run(row, column, tier, epochs, lr=lr, validation_examples=size.validation_examples)


def _run(row: str, epsilon: float, tier: str, epochs: int, **settings: Any) -> Run:
    size = SIZES[tier]
    settings |= {"dataset": size.dataset, "batch_size": size.batch_size, "epochs": epochs, "activation": "tanh"}
    if row in BATCHES:
        settings |= {"epochs": 1, "batch_size": int(BATCHES[row] * size.batch_size)}
    return Run(model="lenet5", optimizer="sgd", clip_norm=0.5, epsilon=epsilon, **settings | ROWS[row])


TABLE = Table(
    name="mnist_spectrum",
    title="MNIST test accuracy (%) at proven privacy budgets ε, δ = 1e-5: noise between DPSGD's and SI-DPSGD's",
    source="ours, on v1 section 5",
    notebook="06_what_is_really_private",
    rows=tuple(ROWS),
    column="epsilon",
    columns=COLUMNS,
    cell=cell,
    grid={"lr": (0.0625, 0.25, 1.0, 4.0)},
    tuning=tuning,
)
