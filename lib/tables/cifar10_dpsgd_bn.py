"""v2 Table 6: CIFAR-10 accuracy of DPSGD on linear layers over convolutions pretrained on CIFAR-100, δ = 1e-5.

"We follow the same experimental setting as in [1], i.e. we fine tune the linear layers of a pretrained model trained on
the CIFAR-100 dataset": the convolutions are fixed, so their outputs are computed once, and what is private trains a
small network on 2,304 (TensorFlow tutorial) or 256 features (light VGG).  Where v2's batch norm sits is not printed;
here it follows every linear layer but the last, takes its statistics from private and public images together, and is
ordinary batch norm in the pretrained convolutions, with the running averages of CIFAR-100.

Beside v2's rows: the batch norm that is private, of each example and the public images; the light VGG without any
normalisation, of which v2 says that it is not feasible, and with group norm; and a single linear layer on the features
of a ResNet-18 with batch norm, as Tramèr and Boneh (2021) have it, who reach 79.6 at ε = 2 with a larger public
network.  A row's features are those of a network with its own norm, and batch norm's are better ones to begin with: so
further rows of both networks, plain and with layer or group norm, stand on batch norm's.

Settings as in :mod:`lib.tables.mnist_si_dpsgd`; one search, at ε = 4, serves v2's three ε.  Rows with statistics of
public images, and their "as short" twins, have fewer epochs, as a gradient through them costs as much as all of them;
of the light VGG all rows have the same.  Tier ``cpu`` pretrains for few epochs, with narrower networks
(:mod:`lib.tables._cifar`) and few public images.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from lib.run import Run
from lib.tables import Table, _cifar, _public, printed
from lib.tables._dpsgd import private, regime

COLUMNS = (None, 8.0, 4.0, 2.0)
PLAIN, LN, BN = "DPSGD (TF-tutorial) [Abadi et al.]", "DPSGD (LN-TF-tutorial)", "DPSGD (BN-TF-tutorial)"
BN_VGG = "DPSGD (BN-VGG)"
PRETRAINING_EPOCHS = {
    "tf_tutorial": {"smoke": 2, "cpu": 10, "paper": 100},
    "light_vgg": {"smoke": 2, "cpu": 4, "paper": 100},
    "resnet18": {"smoke": 2, "cpu": 4, "paper": 100},
}
# Epochs of final and of tuning runs, by length of a row and tier; without ε and with it.
EPOCHS = {
    "long": {"smoke": (2, 1), "cpu": (10, 20), "paper": (60, 60)},
    "even": {"smoke": (2, 1), "cpu": (10, 10), "paper": (40, 40)},
    "short": {"smoke": (1, 1), "cpu": (2, 2), "paper": (30, 40)},
}
SEARCH_EPOCHS = {
    "long": {"smoke": 1, "cpu": 10, "paper": 20},
    "even": {"smoke": 1, "cpu": 4, "paper": 20},
    "short": {"smoke": 1, "cpu": 1, "paper": 10},
}
SEARCHED_AT = {8.0: 4.0, 2.0: 4.0}
BATCH_SIZES = {"smoke": (128,) * 5, "cpu": (128, 512, 1024, 1024, 2048), "paper": (128, 512, 1024, 2048, 4096)}
VALIDATION = {"smoke": 297, "cpu": 5_000, "paper": 5_000}


class Row(NamedTuple):
    """Its model and norm, or the settings of its public batch norm; how long it is trained; the norm of the network
    whose convolutions it has, '' for its own."""

    model: str
    norm: str = "none"
    public: dict[str, str] | None = None
    length: str = "long"
    features: str = ""


ROWS = {
    PLAIN: Row("tf_tutorial"),
    LN: Row("tf_tutorial", "layer_without_affine"),
    BN: Row("tf_tutorial", public={"statistics": "mixed"}, length="short"),
    "BN-TF-tutorial, each example with public": Row(
        "tf_tutorial", public={"statistics": "per_example"}, length="short"
    ),
    "TF-tutorial, as short": Row("tf_tutorial", length="short"),
    "LN-TF-tutorial, as short": Row("tf_tutorial", "layer_without_affine", length="short"),
    "TF-tutorial, as short, on BN's features": Row("tf_tutorial", length="short", features="batch"),
    "LN-TF-tutorial, as short, on BN's features": Row(
        "tf_tutorial", "layer_without_affine", length="short", features="batch"
    ),
    BN_VGG: Row("light_vgg", public={"statistics": "mixed"}, length="even"),
    "BN-VGG, each example with public": Row("light_vgg", public={"statistics": "per_example"}, length="even"),
    "GN-VGG": Row("light_vgg", "group_without_affine", length="even"),
    "VGG without normalisation": Row("light_vgg", length="even"),
    "GN-VGG, on BN's features": Row("light_vgg", "group_without_affine", length="even", features="batch"),
    "VGG without normalisation, on BN's features": Row("light_vgg", length="even", features="batch"),
    "linear layer on ResNet-18's features": Row("resnet18", features="batch"),
}
SAME_FEATURES = tuple(
    (BN if of_row.model == "tf_tutorial" else BN_VGG, row)
    for row, of_row in ROWS.items()
    if row.endswith("on BN's features")
)  # v2's batch norm, and what stands on its features


def cell(row: str, column: float | None, *, seed: int, tier: str, lr: float = 0.001) -> Run:
    """One run at ε = ``column``; without ε, Adam at a step size that is not searched."""
    epochs = EPOCHS[ROWS[row].length][tier][column is not None]
    return _run(row, column, tier, epochs=epochs, seed=seed, lr=lr)


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The same, perhaps shorter, with the noise that keeps that to ε, on a validation split of the training data."""
    column = SEARCHED_AT.get(column, column)
    epochs = SEARCH_EPOCHS[ROWS[row].length][tier]
    return _run(row, column, tier, epochs=epochs, lr=lr, validation_examples=VALIDATION[tier])


def _run(row: str, epsilon: float | None, tier: str, **settings: Any) -> Run:
    model, norm, public, _, features = ROWS[row]
    settings |= _cifar.network(model, tier)
    settings |= {"dataset": _cifar.DATASET[tier], "batch_size": BATCH_SIZES[tier][regime(epsilon)], "norm": norm}
    settings |= {"pretrained_on": _cifar.PUBLIC[tier], "pretraining_epochs": PRETRAINING_EPOCHS[model][tier]}
    settings |= {"pretraining_norm": features}
    if epsilon is not None:
        settings |= private("dpsgd", epsilon)
    run = Run(**({"lr_schedule": "linear"} | settings))
    if public is None:
        return run
    return replace(_public.with_public(run, tier, **public), public_dataset=_cifar.PUBLIC[tier])


_PRINTED = {  # ε: ∞, 8, 4, 2
    PLAIN: (80.0, 73.0, 70.0, 67.0),
    LN: (80.0, 73.3, 70.6, 67.0),
    BN: (80.0, 74.1, 71.2, 69.8),
    BN_VGG: (80.7, 79.5, 79.1, 77.4),
}

TABLE = Table(
    name="cifar10_dpsgd_bn",
    title="CIFAR-10 test accuracy (%) of DPSGD at privacy budgets ε, δ = 1e-5, convolutions pretrained on CIFAR-100",
    source="v2 Table 6",
    notebook="03_batch_norm_with_public_data",
    rows=tuple(ROWS),
    column="epsilon",
    columns=COLUMNS,
    printed=printed(COLUMNS, _PRINTED),
    cell=cell,
    grid={"lr": (0.25, 1.0, 4.0)},
    tuning=tuning,
    tuned=lambda row, column: column is not None,
    notes={
        "cpu": "convolutions of half (VGG) and a quarter (ResNet-18) of the width, pretrained for 4 epochs, those of "
        "the TF-tutorial for 10; 8 public images"
    },
    elsewhere="Tramèr and Boneh (2011.11660) 79.6 at ε = 2, a linear layer on features of CIFAR-100",
)
