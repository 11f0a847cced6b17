"""Ours: what the choices that v2 Table 2 leaves open change, one at a time, on LeNet-300-100.

The papers do not say whether biases carry noise, how often it is drawn, whether test images see it, or which
statistics batch norm uses at test.  The first row of each network is the table's own; the step size of every row is
the one searched for the table.
"""

from lib.tables import Table, mnist_noise
from lib.tables._choices import Choices

CHOICES = {
    "as in the table": {},
    "no noise on biases": {"weight_noise_on": "weights"},
    "one draw per epoch": {"weight_noise_draw": "epoch"},
    "tested at µ": {"test_draws": 0},
    "running averages at test": {"test_statistics": "running"},
}
ROWS = {
    f"{model}, {choice}": (model, changes)
    for model in ("BN-LeNet-300-100", "LN-LeNet-300-100")
    for choice, changes in CHOICES.items()
    if model.startswith("BN") or "test_statistics" not in changes  # layer norm has no statistics to choose
}

_CELLS = Choices(mnist_noise.TABLE, ROWS)

TABLE = Table(
    name="mnist_noise_choices",
    title="MNIST test accuracy (%) with noise N(0, σ²) on the weights: the choices that the papers leave open",
    source="ours, on v2 Table 2",
    notebook="01_noise_robustness",
    rows=tuple(ROWS),
    column="weight_noise_std",
    columns=(0.1, 1.0),
    cell=_CELLS.cell,
    grid=mnist_noise.TABLE.grid,
    tuning=_CELLS.tuning,
)
