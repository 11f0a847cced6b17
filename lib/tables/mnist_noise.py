"""v2 Table 2 (= v1 Table 1): MNIST accuracy with Gaussian noise on the weights, in training and in testing.

The papers leave the step size open, and it decides the table: by scale invariance a normalised network's natural
step grows with σ.  So the step size of **every** cell is searched, for plain and normalised rows alike, over one
grid and beyond it where its end is the best, on validation examples held out of the training set.  The column σ = .3
is not printed; the text says of the plain models that it "results in non-converging training".
"""

from lib.tables import Printed, Table, printed
from lib.tables._noise import NoisyWeights, Size

COLUMNS = (0.0, 0.01, 0.1, 0.3, 1.0, 2.0)
MODELS = {
    "LeNet-300-100": ("lenet_300_100", "none"),
    "BN-LeNet-300-100": ("lenet_300_100", "batch"),
    "LN-LeNet-300-100": ("lenet_300_100", "layer"),
    "LeNet-5": ("lenet5", "none"),
    "BN-LeNet-5": ("lenet5", "batch"),
    "LN-LeNet-5": ("lenet5", "layer"),
}
# Half-decades from Adam's default to where a step moves a weight by more than σ = 2 noise does.
LR_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

_FAILED = Printed()
_PRINTED = {  # σ: 0, .01, .1, .3 (text of section 2), 1, 2
    "LeNet-300-100": [(98.2, 0.07), (97.7, 0.3), (96.98, 0.12), _FAILED, _FAILED, _FAILED],
    "BN-LeNet-300-100": [(98.2, 0.1), (98.1, 0.1), (98.07, 0.11), None, (98.07, 0.12), (98.13, 0.08)],
    "LN-LeNet-300-100": [(98.04, 0.16), (98.0, 0.1), (98.08, 0.14), None, (98.04, 0.09), (98.03, 0.17)],
    "LeNet-5": [(99.2, 0.02), (98.94, 0.07), (98.4, 0.03), _FAILED, _FAILED, _FAILED],
    "BN-LeNet-5": [(99.2, 0.08), (99.21, 0.05), (99.18, 0.06), None, (99.24, 0.04), (99.25, 0.07)],
    "LN-LeNet-5": [(99.16, 0.08), (99.14, 0.06), (99.13, 0.07), None, (99.21, 0.05), (99.19, 0.07)],
}

SIZES = {
    "smoke": Size("digits", batch_size=128, epochs=2, noisy_epochs=2, tuning_epochs=1, validation_examples=297),
    "cpu": Size("mnist", batch_size=256, epochs=6, noisy_epochs=20, tuning_epochs=3, validation_examples=10_000),
    "paper": Size("mnist", batch_size=256, epochs=30, noisy_epochs=100, tuning_epochs=10, validation_examples=10_000),
}

_CELLS = NoisyWeights(MODELS, SIZES)

TABLE = Table(
    name="mnist_noise",
    title="MNIST test accuracy (%) with noise N(0, σ²) on the weights, in training and testing",
    source="v2 Table 2 = v1 Table 1",
    notebook="01_noise_robustness",
    figure="mnist_convergence",
    rows=tuple(MODELS),
    column="weight_noise_std",
    columns=COLUMNS,
    printed=printed(COLUMNS, _PRINTED),
    cell=_CELLS.cell,
    grid={"lr": LR_GRID},
    tuning=_CELLS.tuning,
)
