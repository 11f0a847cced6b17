"""Ours: what the choices that v1 Table 4 leaves open are worth to DPSGD at ε = 1, one at a time, on LeNet-5.

v1 names neither the activation of LeNet-5 nor whether its layer norm has γ and β and follows the last layer; its code
has ReLU and a norm without them.  Clipped training lets the activations of a ReLU network grow, which tanh does not
(Papernot et al. 2020, 2007.14191); and every parameter carries noise, so those that are not needed cost accuracy.
"""

from lib.tables import Table, mnist_si_dpsgd
from lib.tables._choices import Choices

ROWS = {
    "LeNet-5, tanh, as in the table": ("DPSGD (LeNet-5)", {}),
    "LeNet-5, ReLU": ("DPSGD (LeNet-5)", {"activation": "relu"}),
    "LN-LeNet-5, ReLU, no γ and β, as in the table": ("DPSGD (LN-LeNet-5)", {}),
    "LN-LeNet-5, γ and β, the last layer too": ("DPSGD (LN-LeNet-5)", {"norm": "layer"}),
    "LN-LeNet-5, tanh": ("DPSGD (LN-LeNet-5)", {"activation": "tanh"}),
}

_CELLS = Choices(mnist_si_dpsgd.TABLE, ROWS, searched=True)

TABLE = Table(
    name="mnist_dp_choices",
    title="MNIST test accuracy (%) of DPSGD, δ = 1e-5: the choices that the papers leave open",
    source="ours, on v1 Table 4",
    notebook="02_dpsgd_vs_si_dpsgd",
    rows=tuple(ROWS),
    column="epsilon",
    columns=(1.0,),
    cell=_CELLS.cell,
    grid=mnist_si_dpsgd.TABLE.grid,
    tuning=_CELLS.tuning,
)
