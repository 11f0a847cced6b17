"""bc figure 18: adaptive layerwise (ALC) against full-gradient clipping (FGC), at the same σ and at the same ε; m = 64.

L layers that are clipped each by itself cost a factor √L, so at the same ε FGC has σ/√L.
"""

from lib.run import Run
from lib.tables import Printed, Table, _bc

NETWORKS = {  # σ, C, and the layers that bc counts
    "resnet-18": (0.01875, 0.095, 62),
    "convnet": (0.5, 0.14, 18),
    "BN-LeNet-5": (1.5, 0.2, 8),
}
KINDS = {"ALC": (True, False), "FGC, same σ": (False, False), "FGC, same ε": (False, True)}
ROWS = {f"{network}, {kind}": (network, *how) for network in NETWORKS for kind, how in KINDS.items()}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """Batch clipping; FGC at σ or at σ/√L."""
    network, layerwise, discounted = ROWS[row]
    sigma, clip_norm, layers = NETWORKS[network]
    sigma = sigma / layers**0.5 if discounted else sigma
    how = {"sigma": sigma, "clip_norm": clip_norm, "layerwise": layerwise}
    return _bc.private(network, tier, seed=seed, batch_size=column, **how)


TABLE = Table(
    name="bc_alc_vs_fgc",
    title="Test accuracy (%) of batch clipping: adaptive layerwise against full-gradient clipping",
    source="bc figure 18",
    notebook="04_batch_vs_individual_clipping",
    rows=tuple(ROWS),
    column="batch_size",
    columns=_bc.BATCH_SIZES[:1],
    printed={("resnet-18, ALC", 64): Printed(66.66), ("resnet-18, FGC, same σ", 64): Printed(46.35)},
    cell=cell,
    notes=_bc.NOTES,
)
