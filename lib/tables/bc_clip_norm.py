"""bc figures 6, 7, 9a and 11: batch clipping with adaptive layerwise clipping against the master clip norm C."""

from lib.run import Run
from lib.tables import Printed, Table, _bc

ROWS = {
    "convnet, m = 1024, σ = .01875": ("convnet", 1024, 0.01875),
    "convnet, m = 1024, σ = .5": ("convnet", 1024, 0.5),
    "convnet, m = 64, σ = .5": ("convnet", 64, 0.5),
    "BN-LeNet-5, m = 64, σ = .5": ("BN-LeNet-5", 64, 0.5),
}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """BC + ALC at C = ``column``."""
    network, batch_size, sigma = ROWS[row]
    return _bc.private(network, tier, seed=seed, batch_size=batch_size, sigma=sigma, clip_norm=column)


TABLE = Table(
    name="bc_clip_norm",
    title="Test accuracy (%) of batch clipping with adaptive layerwise clipping",
    source="bc figures 6, 7, 9a, 11",
    notebook="04_batch_vs_individual_clipping",
    rows=tuple(ROWS),
    column="clip_norm",
    columns=(0.05, 0.1, 0.14, 0.2, 0.5, 0.9, 1.5),
    printed={
        ("convnet, m = 1024, σ = .01875", 0.9): Printed(59.02),
        ("convnet, m = 1024, σ = .5", 0.1): Printed(40.58),
        ("convnet, m = 64, σ = .5", 0.14): Printed(43.42),
        ("BN-LeNet-5, m = 64, σ = .5", 0.2): Printed(84.8),
    },
    cell=cell,
    notes=_bc.SHORT_NOTES,
)
