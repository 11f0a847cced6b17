"""v1 Figure 1 = v2 Figure 1, MNIST panel: validation accuracy against epoch for several noise levels σ.

The text: "models with different values of noise converge to the same accuracy, albeit with different rates",
"increasing the noise level from 1 to 10 slows down training by a factor of order 7".  Whether noise slows training
is a statement about one step size; both readings are here: one step size for all σ, and one searched for each.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, mnist_noise

COLUMNS = (0.0, 0.1, 1.0, 2.0, 5.0, 10.0)
ONE_LR, SEARCHED_LR = "BN-LeNet-5, one step size", "BN-LeNet-5, step size searched"
# The one step size: with a smaller one σ = 10 does not leave chance within the epochs below.
LR = 0.1
# Epochs at the one step size for σ = 10, σ = 5 and less, and at the searched one: the slower, the longer.
_EPOCHS = {"smoke": (2, 2, 2, 2), "cpu": (48, 24, 12, 6), "paper": (300, 100, 50, 50)}


def cell(row: str, column: float, *, seed: int, tier: str, lr: float = LR) -> Run:
    """Constant step size, so that no schedule decides when a curve flattens; validation examples, as in the figure."""
    *one_lr, searched = _EPOCHS[tier]
    epochs = searched if row == SEARCHED_LR else one_lr[(column < 10.0) + (column < 5.0)]
    run = mnist_noise.TABLE.cell("BN-LeNet-5", column, seed=seed, tier=tier, lr=lr)
    examples = mnist_noise.SIZES[tier].validation_examples
    return replace(run, lr_schedule="constant", epochs=epochs, validation_examples=examples)


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The tuning runs of the table; those for σ of the table are the very same runs."""
    return mnist_noise.TABLE.tuning("BN-LeNet-5", column, tier=tier, lr=lr)


TABLE = Table(
    name="mnist_convergence",
    title="MNIST validation accuracy (%) of BN-LeNet-5 after the last epoch, noise N(0, σ²) on the weights",
    source="v2 Figure 1 = v1 Figure 1, MNIST panel",
    notebook="01_noise_robustness",
    rows=(ONE_LR, SEARCHED_LR),
    column="weight_noise_std",
    columns=COLUMNS,
    cell=cell,
    grid={"lr": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)},
    tuning=tuning,
    tuned=lambda row, column: row == SEARCHED_LR,
)
