"""Ours: ways to clip with step sizes of their own, where bc has one for all.

With C as small as bc's, nearly everything is clipped.  A clipped mini-batch then moves the weights by η C, and the mean
of m clipped gradients by much less, as they point apart: at one η, individual clipping takes shorter steps.  Here η is
also 4 to 4096 times bc's, on the runs of :mod:`lib.tables.bc_ic_vs_bc`; all of them are shown, and none is chosen.
256 and more came one after the other, as individual clipping was seen to gain still at 64, at 256 and at 1024.

One clip of the whole gradient takes shorter steps than a clip for every layer, too: it cuts all layers together to C,
where else the longest has C by itself.  It has the smaller noise that is enough for the same ε
(:mod:`lib.tables.bc_alc_vs_fgc`).
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, bc_alc_vs_fgc, bc_ic_vs_bc

ROWS = (
    "convnet without BN, BC",
    "convnet without BN, IC",
    "resnet-18, BC, C = .095",
    "resnet-18, IC, C = .095",
    "resnet-18, FGC, same ε",
)
COLUMNS = (0.025, 0.1, 0.4, 1.6, 6.4, 25.6, 102.4)


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """ALC but for FGC; ``column`` is the step size of the first epoch, with bc's factor of .9 after every epoch."""
    of, its_column = (bc_alc_vs_fgc, 64) if row in bc_alc_vs_fgc.ROWS else (bc_ic_vs_bc, 0.9)
    return replace(of.cell(row, its_column, seed=seed, tier=tier), lr=column)


TABLE = Table(
    name="bc_step_sizes",
    title="CIFAR-10 test accuracy (%), batch, individual and full-gradient clipping, m = 64, C = .095, one ε a network",
    source="ours, on bc 4.3 and A.4",
    notebook="04_batch_vs_individual_clipping",
    rows=ROWS,
    column="lr",
    columns=COLUMNS,
    cell=cell,
    notes=bc_ic_vs_bc.TABLE.notes,
)
