"""v1 Figure 1 = v2 Figure 1, CIFAR-10 panel: validation accuracy against epoch for several noise levels σ.

As in :mod:`lib.tables.mnist_convergence`, of which it is the twin for BN-ResNet-18: one step size for all σ, and one
searched for each.  Tier ``cpu`` has a quarter of the width and 5 epochs, in which a slowdown by a factor of 7 shows
only as a curve that has hardly begun.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, cifar10_noise

COLUMNS = (0.0, 1.0, 10.0)
ROW = "BN-ResNet-18"
ONE_LR, SEARCHED_LR = f"{ROW}, one step size", f"{ROW}, step size searched"
LR = 0.1  # the one step size: MNIST's, with which σ = 10 leaves chance there
EPOCHS = {"smoke": (2, 2), "cpu": (5, 5), "paper": (100, 300)}  # for σ = 10 the second: the slower, the longer


def cell(row: str, column: float, *, seed: int, tier: str, lr: float = LR) -> Run:
    """Constant step size, so that no schedule decides when a curve flattens; validation examples, as in the figure."""
    run = cifar10_noise.TABLE.cell(ROW, column, seed=seed, tier=tier, lr=lr)
    examples = cifar10_noise.SIZES[tier].validation_examples
    return replace(run, lr_schedule="constant", epochs=EPOCHS[tier][column >= 10.0], validation_examples=examples)


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The tuning runs of the table; those for σ of the table are the very same runs."""
    return cifar10_noise.TABLE.tuning(ROW, column, tier=tier, lr=lr)


TABLE = Table(
    name="cifar10_convergence",
    title="CIFAR-10 validation accuracy (%) of BN-ResNet-18 after the last epoch, noise N(0, σ²) on the weights",
    source="v2 Figure 1 = v1 Figure 1, CIFAR-10 panel",
    notebook="01_noise_robustness",
    rows=(ONE_LR, SEARCHED_LR),
    column="weight_noise_std",
    columns=COLUMNS,
    cell=cell,
    grid=cifar10_noise.TABLE.grid,
    tuning=tuning,
    tuned=lambda row, column: row == SEARCHED_LR,
    notes=cifar10_noise.TABLE.notes,
)
