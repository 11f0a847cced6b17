"""Ours: what it takes from VGG-16 under SI-DPSGD that its statistics are constants for the gradient.

v1's code lets gradients flow through the statistics, of 16 private images and 30 public ones, so that an example costs
as much as all 46; tier ``cpu`` of v1 Table 5 has constants.  Here are both, with few images of either kind, one epoch
and a step size that is not searched; at ε = ∞ every example is clipped all the same, and nothing is noised.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, cifar10_si_dpsgd

LIKE, LR = "SI-DPSGD (VGG-16)", 0.25
EPSILON = 8.0
IMAGES = {"smoke": (4, 4), "cpu": (4, 4), "paper": (16, 30)}  # private ones that share statistics, and public ones
ROWS = {"VGG-16, statistics as constants": "off", "VGG-16, gradients through them": "on"}


def cell(row: str, column: float | None, *, seed: int, tier: str) -> Run:
    """One run at ε = ``column``."""
    run = cifar10_si_dpsgd.cell(LIKE, EPSILON, seed=seed, tier=tier, lr=LR)
    private, public = IMAGES[tier]
    run = replace(run, statistics_gradient=ROWS[row], statistics_batch=private, public_examples=public)
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
    notes={"cpu": "a quarter of the width, 4 private and 4 public images share statistics, one epoch"},
)
