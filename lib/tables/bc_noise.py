"""bc figures 5, 9b and 12b: batch clipping with adaptive layerwise clipping against the noise, m = 64.

The run of convnet at σ = .5 is in three figures, with three accuracies: 43.42 % in 9a (the exhibit
``bc_clip_norm``), ≈ 35 % in 9b, ≈ 40 % in 10 (``bc_batch_size``).
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Printed, Table, _bc

ROWS = {"resnet-18, C = .095": ("resnet-18", 0.095), "convnet, C = .14": ("convnet", 0.14)}
ROWS |= {"BN-LeNet-5, C = .2": ("BN-LeNet-5", 0.2)}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """``column`` is bc's 2σ, the noise ÷ C."""
    network, clip_norm = ROWS[row]
    run = _bc.private(network, tier, seed=seed, sigma=column / 2, clip_norm=clip_norm)
    return replace(run, epochs=min(run.epochs, 10)) if network == "resnet-18" else run  # figure 5 ends there


TABLE = Table(
    name="bc_noise",
    title="Test accuracy (%) of batch clipping with adaptive layerwise clipping, noise 2Cσ, m = 64",
    source="bc figures 5, 9b, 12b",
    notebook="04_batch_vs_individual_clipping",
    rows=tuple(ROWS),
    column="noise_multiplier",
    columns=(0.02, 0.4, 1.0, 1.2, 3.0, 5.0),
    printed={
        ("resnet-18, C = .095", 0.4): Printed(40.0, about=True, note="below it from here on"),
        ("resnet-18, C = .095", 1.0): Printed(20.0, about=True),
        ("convnet, C = .14", 1.0): Printed(35.0, about=True),
        ("BN-LeNet-5, C = .2", 1.0): Printed(84.8),
        ("BN-LeNet-5, C = .2", 3.0): Printed(67.0, about=True),
        ("BN-LeNet-5, C = .2", 5.0): Printed(50.38),
    },
    cell=cell,
    notes=_bc.NOTES,
)
