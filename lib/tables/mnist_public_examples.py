"""Ours: batch norm with M public images under DPSGD at ε = 1, after one epoch, against M.

Every row has the settings of v2 Table 5's (:mod:`lib.tables.mnist_dpsgd_bn`), one epoch, and a step size that is not
searched.  Statistics that are constants for the gradient are shown with ReLU too, with which they train badly; of
v2's own M = 128 they alone are cheap.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, mnist_dpsgd_bn

EPSILON, LR = 1.0, 1.0
PAPER_EPOCHS = 10
CONSTANTS = "BN-LeNet-5, public alone, as constants"
ROWS = {row: (row, {}) for row in mnist_dpsgd_bn.ROWS if "BN-" in row and "noised" not in row}
ROWS[f"{CONSTANTS}, ReLU"] = (CONSTANTS, {"activation": "relu"})


def cell(row: str, column: int, *, seed: int, tier: str) -> Run:
    """One run with M = ``column`` public images."""
    like, changes = ROWS[row]
    run = mnist_dpsgd_bn.cell(like, EPSILON, seed=seed, tier=tier, lr=LR / mnist_dpsgd_bn.ROWS[like].step)
    epochs = PAPER_EPOCHS if tier == "paper" else 1
    return replace(run, public_examples=column, epochs=epochs, **changes)


TABLE = Table(
    name="mnist_public_examples",
    title="MNIST test accuracy (%) of DPSGD at ε = 1 against the number M of public images",
    source="ours, on v2 Table 5",
    notebook="03_batch_norm_with_public_data",
    rows=tuple(ROWS),
    column="public_examples",
    columns=(2, 8, 30, 128),
    cell=cell,
)
