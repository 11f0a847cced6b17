"""What bc's exhibits have in common: its networks, its settings, and how far each tier follows them.

η = .025, × .9 after every epoch; crops, flips and standardised pixels; D_pub is a tenth of the training set.  bc's σ is
noise ÷ 2C, hence z = 2σ here.  Batches are drawn without replacement, as bc's Sample_m; its text says "with
replacement", which its theorem does not cover.  Batch norm is tested with the statistics of D_pub: running
averages, which bc presumably has, are released without account (the exhibit ``bc_batch_norm`` has both).

bc trains for 50 epochs.  Tier ``cpu`` makes the first few of them, at bc's own step sizes, and takes ResNet-18 at a
quarter of its width; its gradient norms are measured on 1,000 examples of D_pub.
"""

from typing import Any, NamedTuple

from lib.run import Run

BATCH_SIZES = (64, 128, 256, 512, 1024)
C_TEXT, C_SECTIONS = 0.095, 0.0095  # the master clip norm in bc 4.1, 4.5 and A.4, and in 4.2 to 4.4


class Network(NamedTuple):
    """One of bc's networks, and the layers that it counts: parameter tensors or modules."""

    model: str
    dataset: str
    norm: str = "batch"
    activation: str = "relu"
    layers: str = "tensors"


NETWORKS = {
    "resnet-18": Network("resnet18", "cifar10"),
    "resnet-18 without BN": Network("resnet18", "cifar10", norm="none"),
    "convnet": Network("convnet", "cifar10"),
    "convnet without BN": Network("convnet", "cifar10", norm="none"),
    "BN-LeNet-5": Network("lenet5_tanh", "mnist", activation="tanh", layers="modules"),
    "LeNet-5 without BN": Network("lenet5_tanh", "mnist", norm="none", activation="tanh", layers="modules"),
}
EPOCHS = {  # tier → model → of bc's 50
    "smoke": {"convnet": 1, "lenet5_tanh": 1},
    "cpu": {"resnet18_narrow": 2, "convnet": 4, "lenet5_tanh": 10},
    "paper": {"resnet18": 50, "convnet": 50, "lenet5_tanh": 50},
}
SHORT = "the first epochs of bc's 50; of bc's public images, by which layers' clip norms are set, a thousand"
NOTES = {"cpu": f"{SHORT}; resnet-18 of a quarter of its width"}
SHORT_NOTES = {"cpu": SHORT}  # of exhibits without resnet-18
STANDS_IN = {"smoke": {"resnet18": "convnet"}, "cpu": {"resnet18": "resnet18_narrow"}, "paper": {}}
SMOKE_DATA = {"cifar10": "digits_rgb", "mnist": "digits"}
PUBLIC = {"digits": (143, 64), "digits_rgb": (143, 64), "mnist": (6000, 1000), "cifar10": (5000, 1000)}


def sgd(network: str, tier: str, *, seed: int, batch_size: int, gradient_norms: bool) -> Run:
    """Ordinary training, with the layers' gradient norms in the record if asked for."""
    examples = _norm_examples(network, tier) if gradient_norms else 0
    return Run(seed=seed, batch_size=batch_size, gradient_norm_examples=examples, **_settings(network, tier))


def private(
    network: str,
    tier: str,
    *,
    seed: int,
    batch_size: int = 64,
    clip_norm: float,
    sigma: float | None,
    individual: bool = False,
    layerwise: bool = True,
    **changes: Any,
) -> Run:
    """Batch or ``individual`` clipping, of every layer by itself (ALC) or of the full gradient (FGC).

    Under individual clipping batch norm becomes instance norm, the batch norm of a batch of one.
    """
    settings = _settings(network, tier)
    settings |= {
        "method": "adaptive_layerwise" if layerwise else "batch_clipping",
        "mini_set_size": 1 if individual else batch_size,
        "clip_norm": clip_norm,
        "noise_multiplier": None if sigma is None else 2 * sigma,
        "sampler": "without_replacement",
        "neighbouring_relation": "replace_one",
        "accountant": "clt",
    }
    if layerwise:
        examples = _norm_examples(network, tier)
        settings |= {"layers": NETWORKS[network].layers, "gradient_norm_examples": examples}
    if individual and settings["norm"] == "batch":
        settings |= {"norm": "instance", "test_statistics": "batch"}
        if tier == "smoke":  # of 8×8 images the last map is 1×1, which normalised by itself is 0
            settings["augmentation"] = "crop_24_and_flip"
    return Run(**(settings | {"seed": seed, "batch_size": batch_size} | changes))


def _settings(network: str, tier: str) -> dict[str, Any]:
    net = NETWORKS[network]
    model, dataset = STANDS_IN[tier].get(net.model, net.model), _dataset(network, tier)
    return {
        "model": model,
        "dataset": dataset,
        "norm": net.norm,
        "activation": net.activation,
        "epochs": EPOCHS[tier][model],
        "public_examples": PUBLIC[dataset][0],
        "augmentation": "crop_and_flip",
        "input_scale": "standardised",
        "optimizer": "sgd",
        "lr": 0.025,
        "lr_schedule": "exponential",
        "lr_decay": 0.9,
        "test_statistics": "public" if net.norm == "batch" else "batch",
    }


def _dataset(network: str, tier: str) -> str:
    dataset = NETWORKS[network].dataset
    return SMOKE_DATA[dataset] if tier == "smoke" else dataset


def _norm_examples(network: str, tier: str) -> int:
    everything, some = PUBLIC[_dataset(network, tier)]
    return everything if tier == "paper" else some
