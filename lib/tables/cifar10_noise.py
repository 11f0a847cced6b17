"""v2 Table 3 (= v1 Table 2): CIFAR-10 accuracy with Gaussian noise on the weights, in training and in testing.

ResNet-18 and VGG-16 "already contain BN layers after all except the last trainable layer"; "-mod" is without the last
of them, "BN-" has one more, after the last trainable layer.  As in :mod:`lib.tables.mnist_noise` the step size of every
cell is searched over one grid, here of decades, and one search serves σ = 0 and .01, another σ = 1 and 2.

Tier ``cpu`` has both networks at a quarter of their width (:mod:`lib.tables._cifar`) and trains them for 4 epochs,
whatever σ is: their accuracies are not those of the paper, their order can be.
"""

from typing import Any

from lib.tables import Printed, Table, _cifar, printed
from lib.tables._noise import NoisyWeights, Size

COLUMNS = (0.0, 0.01, 0.1, 1.0, 2.0)
MODELS = {
    f"{before}{name}{after}": (model, "batch")
    for name, model in (("ResNet-18", "resnet18"), ("VGG-16", "vgg16"))
    for before, after in (("", ""), ("", "-mod"), ("BN-", ""))
}
_FAILED = Printed()
_PRINTED = {  # σ: 0, .01, .1, 1, 2
    "ResNet-18": [(93.5, 0.04), (89.05, 0.6), (89.41, 0.67), (86.76, 1.3), (87.83, 0.87)],
    "ResNet-18-mod": [(93.6, 0.18), (88.65, 1.22), (88.16, 1.22), (85.46, 1.21), (83.95, 2.51)],
    "BN-ResNet-18": [(93.55, 0.04), (93.59, 0.18), (93.46, 0.24), (92.72, 0.26), (92.1, 0.28)],
    "VGG-16": [(91.21, 0.16), (88.89, 0.56), (84.59, 6.11), (63.12, 8.21), _FAILED],
    "VGG-16-mod": [(91.18, 0.2), (88.87, 0.59), (82.58, 6.91), (22.58, 5.0), _FAILED],
    "BN-VGG-16": [(91.75, 0.22), (91.69, 0.2), (91.56, 0.24), (90.95, 0.25), (90.35, 0.14)],
}

SIZES = {
    "smoke": Size("digits_rgb", batch_size=128, epochs=1, noisy_epochs=1, tuning_epochs=1, validation_examples=297),
    "cpu": Size("cifar10", batch_size=128, epochs=4, noisy_epochs=4, tuning_epochs=1, validation_examples=5_000),
    "paper": Size("cifar10", batch_size=128, epochs=60, noisy_epochs=200, tuning_epochs=10, validation_examples=5_000),
}


def _further(row: str, tier: str) -> dict[str, Any]:
    last_norm = "added" if row.startswith("BN-") else "removed" if row.endswith("-mod") else "as_designed"
    return _cifar.network(MODELS[row][0], tier) | {"last_norm": last_norm}


_CELLS = NoisyWeights(MODELS, SIZES, further=_further, searched_at={0.01: 0.0, 2.0: 1.0})

TABLE = Table(
    name="cifar10_noise",
    title="CIFAR-10 test accuracy (%) with noise N(0, σ²) on the weights, in training and testing",
    source="v2 Table 3 = v1 Table 2",
    notebook="01_noise_robustness",
    figure="cifar10_convergence",
    rows=tuple(MODELS),
    column="weight_noise_std",
    columns=COLUMNS,
    printed=printed(COLUMNS, _PRINTED),
    cell=_CELLS.cell,
    grid={"lr": (0.001, 0.01, 0.1, 1.0)},
    tuning=_CELLS.tuning,
    notes=_cifar.NOTES,
)
