"""Ours: what the choices that v1 Table 4 leaves open are worth to DPSGD at ε = 1, one at a time, on LeNet-5.

v1 names neither the activation of LeNet-5 nor whether its layer norm has γ and β and follows the last layer; its code
has ReLU and a norm without them.  Clipped training lets the activations of a ReLU network grow, which tanh does not
(Papernot et al. 2020, 2007.14191); and every parameter carries noise, so those that are not needed cost accuracy.  Nor
does v1 say whether DPSGD has momentum: without it, steps are searched over a range ten times as long, which is what
momentum .9 makes of them in the long run (three exploratory runs on validation examples asked for this row).  Batches
that every example draws by itself, one in each epoch, cost a little less than Poisson samples at the same noise.
"""

from typing import Any

from lib.run import Run
from lib.tables import Table, mnist_si_dpsgd
from lib.tables._choices import Choices
from lib.tables._dpsgd import without_momentum

NO_MOMENTUM = "LN-LeNet-5, no momentum"
ROWS = {
    "LeNet-5, tanh, as in the table": ("DPSGD (LeNet-5)", {}),
    "LeNet-5, ReLU": ("DPSGD (LeNet-5)", {"activation": "relu"}),
    "LN-LeNet-5, ReLU, no γ and β, as in the table": ("DPSGD (LN-LeNet-5)", {}),
    "LN-LeNet-5, γ and β, the last layer too": ("DPSGD (LN-LeNet-5)", {"norm": "layer"}),
    "LN-LeNet-5, tanh": ("DPSGD (LN-LeNet-5)", {"activation": "tanh"}),
    NO_MOMENTUM: ("DPSGD (LN-LeNet-5)", {}),
    "LN-LeNet-5, balls-and-bins batches": ("DPSGD (LN-LeNet-5)", {"sampler": "balls_and_bins"}),
}

_CELLS = Choices(mnist_si_dpsgd.TABLE, ROWS, searched=True)


def cell(row: str, column: float, **how: Any) -> Run:
    """v1 Table 4's run at ε = ``column`` with the row's changes."""
    return _momentum(row, _CELLS.cell(row, column, **how))


def tuning(row: str, column: float, **how: Any) -> Run:
    """Its tuning runs with the row's changes."""
    return _momentum(row, _CELLS.tuning(row, column, **how))


def _momentum(row: str, run: Run) -> Run:
    return without_momentum(run) if row == NO_MOMENTUM else run


TABLE = Table(
    name="mnist_dp_choices",
    title="MNIST test accuracy (%) of DPSGD, δ = 1e-5: the choices that the papers leave open",
    source="ours, on v1 Table 4",
    notebook="02_dpsgd_vs_si_dpsgd",
    rows=tuple(ROWS),
    column="epsilon",
    columns=(1.0,),
    cell=cell,
    grid=mnist_si_dpsgd.TABLE.grid,
    tuning=tuning,
)
