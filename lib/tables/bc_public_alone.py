"""Ours: bc's networks trained on D_pub alone, a tenth of the training set that bc declares public.

No private image is touched, so ε is 0: what a private method is for begins above these accuracies.  Ordinary training,
with Adam, a step size that falls from .001 to 0, batches of 64 and bc's crops, on CIFAR-10 mirrored, too; batch norm is
tested on its running averages, which are of public images.  Nothing was searched.  On MNIST as many epochs as in
:mod:`lib.tables.bc_equal_epsilon`, on CIFAR-10 bc's 50, each of a ninth of the steps.  A row has a tenth of D_pub.
"""

from dataclasses import replace

from lib.run import Run
from lib.tables import Table, _bc, bc_equal_epsilon

EPOCHS = {
    "lenet5_tanh": {tier: epochs for tier, (_, epochs, _) in bc_equal_epsilon.SIZES.items()},
    "convnet": {"smoke": 2, "cpu": 50, "paper": 50},
}
ALONE, TENTH = "{}, D_pub alone", "{}, a tenth of D_pub"
PLAIN = "LeNet-5 without BN"
ROWS = {ALONE.format(network): (network, 1) for network in ("BN-LeNet-5", PLAIN, "convnet", "convnet without BN")}
ROWS |= {TENTH.format(PLAIN): (PLAIN, 10)}


def cell(row: str, column: float, *, seed: int, tier: str) -> Run:
    """One run in batches of ``column``."""
    network, share = ROWS[row]
    run = _bc.sgd(network, tier, seed=seed, batch_size=column, gradient_norms=False)
    return replace(
        run,
        trained_on="public",
        public_examples=max(run.public_examples // share, column),
        epochs=EPOCHS[run.model][tier],
        optimizer="adam",
        lr=0.001,
        lr_schedule="linear",
        lr_decay=1.0,
        augmentation="crop" if run.model == "lenet5_tanh" else run.augmentation,  # digits are not mirrored
        test_statistics="running" if run.norm == "batch" else "batch",
    )


TABLE = Table(
    name="bc_public_alone",
    title="Test accuracy (%) of ordinary training on D_pub alone, which is public: ε = 0",
    source="ours, on bc 3.3",
    notebook="04_batch_vs_individual_clipping",
    rows=tuple(ROWS),
    column="batch_size",
    columns=_bc.BATCH_SIZES[:1],
    cell=cell,
)
