"""Ours: batch and individual clipping with step sizes of their own, where bc has one for both.

With C as small as bc's, nearly everything is clipped.  A clipped mini-batch then moves the weights by η C, and the mean
of m clipped gradients by much less, as they point apart: at one η, individual clipping takes shorter steps.  Here η is
also 4 to 4096 times bc's, on the runs of :mod:`lib.tables.bc_ic_vs_bc`; all of them are shown, and none is chosen.
256 and more came one after the other, as individual clipping was seen to gain still at 64, at 256 and at 1024.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, bc_ic_vs_bc

ROWS = (
    "convnet without BN, BC",
    "convnet without BN, IC",
    "resnet-18, BC, C = .095",
    "resnet-18, IC, C = .095",
)
COLUMNS = (0.025, 0.1, 0.4, 1.6, 6.4, 25.6, 102.4)


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """ALC; ``column`` is the step size of the first epoch, with bc's factor of .9 after every epoch."""
    return replace(bc_ic_vs_bc.cell(row, 0.9, seed=seed, tier=tier), lr=column)


TABLE = Table(
    name="bc_step_sizes",
    title="CIFAR-10 test accuracy (%) of batch and individual clipping, both layerwise, σ = .01875, m = 64, C = .095",
    source="ours, on bc 4.3",
    notebook="04_batch_vs_individual_clipping",
    rows=ROWS,
    column="lr",
    columns=COLUMNS,
    cell=cell,
    notes=bc_ic_vs_bc.TABLE.notes,
)
