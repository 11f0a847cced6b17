"""bc figures 2, 8 and 13: ordinary mini-batch SGD, the reference for everything private, for five batch sizes."""

from lib.run import Run
from lib.tables import Printed, Table, _bc


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """At m = 64 the layers' gradient norms are measured, for figure 1."""
    return _bc.sgd(row, tier, seed=seed, batch_size=column, gradient_norms=column == 64)


TABLE = Table(
    name="bc_sgd",
    title="Test accuracy (%) of mini-batch SGD without privacy, CIFAR-10 and MNIST (BN-LeNet-5)",
    source="bc figures 2, 8, 13",
    notebook="04_batch_vs_individual_clipping",
    figure="bc_gradient_norms",
    rows=("resnet-18", "convnet", "convnet without BN", "BN-LeNet-5"),
    column="batch_size",
    columns=_bc.BATCH_SIZES,
    printed={
        ("resnet-18", 64): Printed(90.24, note="88.31 at epoch 20"),
        ("convnet", 64): Printed(80.55),
        ("convnet", 1024): Printed(61.19),
    },
    cell=cell,
    notes=_bc.NOTES,
)
