"""Ours: what it takes from VGG-16 under SI-DPSGD if its statistics are constants for the gradient.

In v1's code gradients flow through the statistics, of 16 private images and 30 public ones, so that an example costs as
much as all 46.  As constants they cost less.  Either has the settings of v1 Table 5's row
(:mod:`lib.tables.cifar10_si_dpsgd`), with a step size that is not searched; at ε = ∞ every example is clipped all the
same, and nothing is noised.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, cifar10_si_dpsgd

LIKE, LR = "SI-DPSGD (VGG-16)", 0.25
EPSILON = 8.0
ROWS = {"VGG-16, statistics as constants": "off", "VGG-16, gradients through them": "on"}


def cell(row: str, column: float | None, *, seed: int, tier: str) -> Run:
    """One run at ε = ``column``."""
    run = replace(cifar10_si_dpsgd.cell(LIKE, EPSILON, seed=seed, tier=tier, lr=LR), statistics_gradient=ROWS[row])
    return run if column else replace(run, epsilon=None, noise_multiplier=0.0)


TABLE = Table(
    name="cifar10_si_dpsgd_statistics",
    title="CIFAR-10 test accuracy (%) of SI-DPSGD, δ = 1e-5, by what its batch norm passes on of the gradient",
    source="ours, on v1 Table 5",
    notebook="02_dpsgd_vs_si_dpsgd",
    rows=tuple(ROWS),
    column="epsilon",
    columns=(None, EPSILON),
    cell=cell,
    notes={"cpu": "a quarter of the width, one epoch; statistics of 4 private and 4 public images"},
)
