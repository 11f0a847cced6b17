"""Ours: where v1's code departs from v1, or settles what v1 leaves open, one setting at a time, on MNIST.

The code trains its MNIST networks with z = 7.1, C = 3.1, η = 0.1 and batches of 32, which v1 does not print; to these
settings v1's text is applied first: algorithm 1, Poisson sampling, θ_T tested, no momentum; and a constant step size,
as v1 writes η_t and leaves it open.  Then differences by themselves, and all of LeNet-5's together; but for
one, which is not tried: the code normalises after ReLU, and here, as v1 says, what goes into it.  Epochs are fewer
than the code's 10 in tier ``cpu``, one with batch norm, where a step costs as much as all its private and public
images.
"""

from typing import Any

from lib.run import Run
from lib.tables import Table, mnist_si_dpsgd

PAPER, CODE = "LeNet-5, as v1 says", "LeNet-5, as the code does"
LN, BN = "LN-LeNet-5, as v1 says", "BN-LeNet-5, as v1 says"
BN_CODE = "BN-LeNet-5, without γ and β, and none after the last layer"
BN_OFF = "BN-LeNet-5, the same, no gradient through the statistics"
BN_128 = "BN-LeNet-5, the same, 128 public images as in v2"
BN_MU = "BN-LeNet-5, the same with 30, tested at µ_T"
POISSON = {"sampler": "poisson", "accountant": "rdp_2020"}
MIXED = {"norm": "public_batch_without_affine", "statistics": "mixed", "public_examples": 30, **POISSON}
OFF = {"statistics_gradient": "off"}
DIFFERENCES: dict[str, dict[str, Any]] = {  # row → the settings that it changes
    "tested at µ_T": {"test_at": "mu"},
    "momentum 0.9": {"momentum": 0.9},
    "step size × 0.9 per epoch, and its noise": {"lr_schedule": "exponential", "lr_decay": 0.9},
    "θ_0 noised": {"first_weights": "noised"},
    "batches drawn with replacement": {"sampler": "with_replacement", "accountant": "pld"},
}
ROWS: dict[str, dict[str, Any]] = {
    PAPER: POISSON,
    **{f"LeNet-5, {name}": POISSON | change for name, change in DIFFERENCES.items()},
    "LeNet-5, shuffled epochs": {"sampler": "shuffled", "accountant": "gdp"},
    CODE: {name: value for change in DIFFERENCES.values() for name, value in change.items()},
    LN: POISSON | {"norm": "layer"},
    "LN-LeNet-5, without γ and β, and none after the last layer": POISSON | {"norm": "layer_without_affine"},
    BN: MIXED | {"norm": "public_batch", "statistics_gradient": "on"},
    BN_CODE: MIXED | {"statistics_gradient": "on"},
    BN_OFF: MIXED | OFF,
    BN_128: MIXED | OFF | {"public_examples": 128},
    BN_MU: MIXED | OFF | {"test_at": "mu"},
}
# Row → the row that it differs from by what its name says.
BASES = {row: PAPER for row in ROWS if row.startswith("LeNet-5")} | {row: LN for row in ROWS if row.startswith("LN")}
BASES |= {BN: BN, BN_CODE: BN, BN_OFF: BN_CODE, BN_128: BN_OFF, BN_MU: BN_OFF}
# Of v1 Table 4, at the ε that v1's accountant makes of these settings in ten epochs.
OF_TABLE_4 = {row: ("SI-DPSGD (LeNet-5)", 0.05) for row in (PAPER, CODE)}
OF_TABLE_4 |= {LN: ("SI-DPSGD (LN-LeNet-5)", 0.05), BN: ("SI-DPSGD (BN-LeNet-5)", 0.05)}
# What a tier changes: data set, epochs, epochs with batch norm.
SIZES = {"smoke": ("digits", 1, 1), "cpu": ("mnist", 3, 1), "paper": ("mnist", 10, 10)}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """One run with step size ``column``."""
    dataset, epochs, with_batch_norm = SIZES[tier]
    settings = {"dataset": dataset, "epochs": epochs, **ROWS[row]}
    if "public_examples" in settings:
        settings["epochs"] = with_batch_norm
        settings |= OFF if tier == "smoke" else {"public_dataset": "kmnist"}
    how = {"method": "si_dpsgd", "optimizer": "sgd", "batch_size": 32, "clip_norm": 3.1, "noise_multiplier": 7.1}
    return Run(model="lenet5", lr=column, seed=seed, **how, **settings)


TABLE = Table(
    name="mnist_paper_and_code",
    title="MNIST test accuracy (%) of SI-DPSGD at z = 7.1, C = 3.1, L = 32: v1's text against its authors' code; "
    "printed is v1 Table 4 at ε = 0.05",
    source="ours, on v1 and its code",
    notebook="06_what_is_really_private",
    rows=tuple(ROWS),
    column="lr",
    columns=(0.1,),
    cell=cell,
    printed={(row, 0.1): mnist_si_dpsgd.TABLE.printed[of_table_4] for row, of_table_4 in OF_TABLE_4.items()},
)
