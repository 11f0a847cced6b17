"""bc figure 1: the norms of the layers' gradients, epoch by epoch, in ordinary training with m = 64.

The accuracies are those of :mod:`lib.tables.bc_sgd`, whose runs these are; the figure is made of their histories.
"""

from lib.tables import Table, _bc, bc_sgd

TABLE = Table(
    name="bc_gradient_norms",
    title="Test accuracy (%) of the SGD runs whose gradient norms are shown, by layer",
    source="bc figure 1",
    notebook="04_batch_vs_individual_clipping",
    rows=bc_sgd.TABLE.rows,
    column="batch_size",
    columns=_bc.BATCH_SIZES[:1],
    cell=bc_sgd.cell,
    notes=_bc.NOTES,
)
