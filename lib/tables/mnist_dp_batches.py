"""Ours: layer norm and batch size apart, in v1 Table 4's DPSGD on LeNet-5.

There LN-LeNet-5 has large batches at every ε, and the plain network smaller ones down to ε = .5, so not all of the
distance between the two rows is layer norm's.  Here both networks have both: large batches, and those that the plain
network has there at ε = 1 and .5, with the epochs of ε ≥ 1 in every column.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, mnist_si_dpsgd
from lib.tables._dpsgd import regime

PLAIN, LN = "DPSGD (LeNet-5)", "DPSGD (LN-LeNet-5)"
ROWS = {  # the row of v1 Table 4 it is like; whether its batches are large
    "LeNet-5, smaller batches": (PLAIN, False),
    "LeNet-5, large batches": (PLAIN, True),
    "LN-LeNet-5, smaller batches": (LN, False),
    "LN-LeNet-5, large batches": (LN, True),
}


def cell(row: str, column: float, *, seed: int, tier: str, lr: float) -> Run:
    """One run at ε = ``column``."""
    like, large = ROWS[row]
    return _changed(mnist_si_dpsgd.cell(like, max(column, 1.0), seed=seed, tier=tier, lr=lr), column, large, tier)


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The same, shorter, on a validation split of the training data; as short for all rows."""
    like, large = ROWS[row]
    run = mnist_si_dpsgd.tuning(like, max(column, 1.0), tier=tier, lr=lr)
    epochs = mnist_si_dpsgd.SIZES[tier].tuning_epochs[regime(max(column, 1.0))]
    return replace(_changed(run, column, large, tier), epochs=epochs)


def _changed(run: Run, epsilon: float, large: bool, tier: str) -> Run:
    sizes = mnist_si_dpsgd.SIZES[tier].batch_sizes
    return replace(run, epsilon=epsilon, batch_size=max(sizes) if large else sizes[regime(1.0)])


TABLE = Table(
    name="mnist_dp_batches",
    title="MNIST test accuracy (%) of DPSGD, δ = 1e-5: layer norm and batch size apart",
    source="ours, on v1 Table 4",
    notebook="02_dpsgd_vs_si_dpsgd",
    rows=tuple(ROWS),
    column="epsilon",
    columns=(3.0, 1.0, 0.5),
    cell=cell,
    grid=mnist_si_dpsgd.TABLE.grid,
    tuning=tuning,
)
