"""abadi's own MNIST experiments, at its own settings: three noise levels, each until its budget is spent.

Lots of 600, C = 4, a step size that falls from .1 to .052 over ten epochs and stays, no momentum, 60 private principal
components and a dense layer of 1,000 (abadi 5.2 and its Figure 3).  Nothing is searched.  A column's (σ, σ_p), of
training and of the PCA, are abadi's; training ends when the next step would exceed ε, so what counts it decides how
long that is: abadi's moments accountant (λ ≤ 32), or privacy loss distributions, a tighter count of the same steps.
Both count the PCA and lots that are Poisson samples.  C bounds the whole gradient, for which the count is right, and
not each layer's.

v1 quotes these experiments as "DPSGD [1]", at other ε; :mod:`lib.tables.mnist_si_dpsgd` has that network with a step
size that is searched.
"""

from lib.run import Run
from lib.tables import Table, printed

COLUMNS = (8.0, 2.0, 0.5)
NOISE = {8.0: (2.0, 4.0), 2.0: (4.0, 7.0), 0.5: (8.0, 16.0)}  # ε: σ, σ_p
MOMENTS, PLD = "abadi's settings, ε by its moments accountant", "abadi's settings, ε by PLD"
ACCOUNTANTS = {MOMENTS: "moments", PLD: "pld"}
MOST = 1000  # epochs; the budget ends every run before
SIZES = {"smoke": ("digits", 128, 1), "cpu": ("mnist", 600, MOST), "paper": ("mnist", 600, MOST)}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """One run until ε = ``column`` is spent."""
    dataset, lot, epochs = SIZES[tier]
    noise_multiplier, of_pca = NOISE[column]
    return Run(
        dataset=dataset,
        model="pca_1000",
        activation="relu",
        method="dpsgd",
        sampler="poisson",
        batch_size=lot,
        epochs=epochs,
        optimizer="sgd",
        lr=0.1,
        lr_schedule="linear_then_constant",
        lr_decay=0.52,
        lr_decay_epochs=10,
        clip_norm=4.0,
        epsilon=column,
        accountant=ACCOUNTANTS[row],
        noise_multiplier=noise_multiplier,
        pca_noise_multiplier=of_pca,
        seed=seed,
    )


TABLE = Table(
    name="mnist_abadi",
    title="MNIST test accuracy (%) of DPSGD at abadi's own settings, until ε is spent, δ = 1e-5",
    source="abadi 5.2",
    notebook="02_dpsgd_vs_si_dpsgd",
    rows=tuple(ACCOUNTANTS),
    column="epsilon",
    columns=COLUMNS,
    printed=printed(COLUMNS, {MOMENTS: (97.0, 95.0, 90.0)}),
    cell=cell,
)
