"""v2 Table 4 (= v1 Table 3): AG News accuracy of a BiLSTM with Gaussian noise on its weights, in training and testing.

As in :mod:`lib.tables.mnist_noise` the step size of every cell is searched over one grid, and noise is on all weights
and biases, one draw for a batch; v1's code leaves the dense layer without, and draws anew at every time step.  Words
have GloVe's vectors, frozen, and a text is its first 20 words, as in v1's code.  v2 stops early and adapts its step
size, on validation texts; v1's code has Adam at .001, halved after a third and two thirds of the epochs.  Here it falls
to 0, and the last epoch counts.  What the papers trained on, 96,000 texts with vectors of 100 dimensions, may be more
than what a record says it had.
"""

from lib.tables import Table, printed
from lib.tables._noise import NoisyWeights, Size

COLUMNS = (0.0, 0.01, 0.1, 1.0, 2.0)
MODELS = {"BiLSTM-DL": ("bilstm", "none"), "LN-BiLSTM-DL": ("bilstm", "layer")}
_PRINTED = {  # σ: 0, .01, .1, 1, 2
    "BiLSTM-DL": (89.34, 89.57, 89.01, 66.32, 24.76),
    "LN-BiLSTM-DL": (89.34, 88.87, 88.62, 85.74, 82.41),
}

SIZES = {
    "smoke": Size("topics", batch_size=100, epochs=3, noisy_epochs=3, tuning_epochs=1, validation_examples=200),
    "cpu": Size("ag_news", batch_size=300, epochs=6, noisy_epochs=12, tuning_epochs=2, validation_examples=5_000),
    "paper": Size("ag_news", batch_size=300, epochs=25, noisy_epochs=25, tuning_epochs=6, validation_examples=24_000),
}

_CELLS = NoisyWeights(MODELS, SIZES)
NOTES = {
    "cpu": "part of the texts, their words as GloVe's vectors of 50 dimensions, of which one word in eight has none; "
    "with all texts and vectors, as they are downloaded, numbers are others",
    "paper": "the final runs train on all 120,000 texts, of which v2 keeps 24,000 for validation",
}

TABLE = Table(
    name="agnews_noise",
    title="AG News test accuracy (%) with noise N(0, σ²) on the weights, in training and testing",
    source="v2 Table 4 = v1 Table 3",
    notebook="01_noise_robustness",
    rows=tuple(MODELS),
    column="weight_noise_std",
    columns=COLUMNS,
    printed=printed(COLUMNS, _PRINTED),
    cell=_CELLS.cell,
    grid={"lr": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)},
    tuning=_CELLS.tuning,
    notes=NOTES,
)
