"""bc figures 3, 10 and 12a: batch clipping with adaptive layerwise clipping, for five batch sizes.

ResNet-18's clip norm is .0095 in figure 3 (bc 4.2) and .095 in other sections: both are run.
"""

from lib.run import Run
from lib.tables import Printed, Table, _bc

ROWS = {
    "resnet-18, σ = .01875, C = .095": ("resnet-18", 0.01875, _bc.C_TEXT),
    "resnet-18, σ = .01875, C = .0095": ("resnet-18", 0.01875, _bc.C_SECTIONS),
    "convnet, σ = .5, C = .14": ("convnet", 0.5, 0.14),
    "BN-LeNet-5, σ = 2.5, C = .2": ("BN-LeNet-5", 2.5, 0.2),
}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """BC + ALC at the row's σ and C."""
    network, sigma, clip_norm = ROWS[row]
    return _bc.private(network, tier, seed=seed, batch_size=column, sigma=sigma, clip_norm=clip_norm)


TABLE = Table(
    name="bc_batch_size",
    title="Test accuracy (%) of batch clipping with adaptive layerwise clipping",
    source="bc figures 3, 10, 12a",
    notebook="04_batch_vs_individual_clipping",
    rows=tuple(ROWS),
    column="batch_size",
    columns=_bc.BATCH_SIZES,
    printed={
        ("resnet-18, σ = .01875, C = .0095", 64): Printed(67.0, note="60 at epoch 20"),
        ("convnet, σ = .5, C = .14", 64): Printed(40.0, about=True),
        ("BN-LeNet-5, σ = 2.5, C = .2", 64): Printed(50.38),
        ("BN-LeNet-5, σ = 2.5, C = .2", 1024): Printed(45.11),
    },
    cell=cell,
    notes=_bc.NOTES,
)
