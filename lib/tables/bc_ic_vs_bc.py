"""bc figures 4 and 15 to 17: individual against batch clipping, enhanced against Zhang's adaptive clip norms; m = 64.

σ = .01875.  C is .0095 in figure 4, that is for ResNet-18 with batch norm (bc 4.3, 4.4), and .095 in figures 15 to 17,
without; two rows of ours have it at .095 with batch norm, and convnet's are at .095.  The columns are the step size's
factor per epoch; in the rows "C falling" C has a factor of .9 too.  bc's Table 3 has m up to 1028 beside figures 15 to
17; here it is 64, which bc says of figure 15.  Individual clipping of ResNet-18 with batch norm is
not defined in bc: here it is instance norm, which is what batch norm does to a batch of one.
"""

from itertools import product
from typing import Any

from lib.run import Run
from lib.tables import Printed, Table, _bc

COLUMNS = (0.9, 1.0)
WITHOUT_BN_BC = ("resnet-18 without BN, BC", "resnet-18 without BN, BC, C falling")
WITHOUT_BN_IC = ("resnet-18 without BN, IC", "resnet-18 without BN, IC, C falling")
FIGURE_4 = {"clip_norm": _bc.C_SECTIONS}
IC, FALLING, ZHANG = {"individual": True}, {"clip_norm_decay": 0.9}, {"adaptive_clipping": "zhang", "clip_norm": 1.0}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet-18, BC": ("resnet-18", FIGURE_4),
    "resnet-18, BC, C = .095": ("resnet-18", {}),
    "resnet-18, BC, Zhang's": ("resnet-18", ZHANG),
    "resnet-18, IC": ("resnet-18", IC | FIGURE_4),
    "resnet-18, IC, C = .095": ("resnet-18", IC),
    WITHOUT_BN_BC[0]: ("resnet-18 without BN", {}),
    WITHOUT_BN_BC[1]: ("resnet-18 without BN", FALLING),
    WITHOUT_BN_IC[0]: ("resnet-18 without BN", IC),
    WITHOUT_BN_IC[1]: ("resnet-18 without BN", IC | FALLING),
    "convnet, BC": ("convnet", {}),
    "convnet, BC, Zhang's": ("convnet", ZHANG),
    "convnet without BN, BC": ("convnet without BN", {}),
    "convnet without BN, IC": ("convnet without BN", IC),
    "convnet without BN, IC, C falling": ("convnet without BN", IC | FALLING),
}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """ALC; ``column`` is the factor on the step size after every epoch."""
    network, changes = ROWS[row]
    return _bc.private(
        network, tier, seed=seed, sigma=0.01875, **({"clip_norm": _bc.C_TEXT} | changes), lr_decay=column
    )


TABLE = Table(
    name="bc_ic_vs_bc",
    title="CIFAR-10 test accuracy (%) of batch and individual clipping, both layerwise, σ = .01875, m = 64",
    source="bc figures 4, 15, 16, 17",
    notebook="04_batch_vs_individual_clipping",
    rows=tuple(ROWS),
    column="lr_decay",
    columns=COLUMNS,
    printed={
        ("resnet-18, BC", 0.9): Printed(67.0),  # bc 4.2: the same run is figure 3's
        ("convnet without BN, IC", 1.0): Printed(21.12),
        **dict.fromkeys(product(WITHOUT_BN_BC, COLUMNS), Printed(30.0, up_to=40.0)),
        **dict.fromkeys(product(WITHOUT_BN_IC, COLUMNS), Printed(18.0, up_to=22.0)),
        (WITHOUT_BN_BC[0], 1.0): Printed(40.0, about=True),  # "the best test accuracy close to 40%"
    },
    cell=cell,
    notes=_bc.NOTES,
)
