"""v2 Table 5: MNIST accuracy of DPSGD with LeNet-5, plain, with layer norm, and with batch norm and public images.

v2's batch norm takes its statistics from private and public images together, which no clipping makes private
("BN-LeNet-5", as printed).  Beside it, what is: the statistics of each example and the public images, of the public
images alone (gradients flowing through them, or not), noised running averages, and group norm.

Settings are those of :mod:`lib.tables.mnist_si_dpsgd`, of which plain and LN rows are the same runs; every row's
step size is searched in the same way, over twice the step sizes for group norm and four times for constant and for
noised statistics, where first searches on validation examples ended at the longest.  Where gradients flow through the
public images an example costs as much as 1 + M of them, so tier ``cpu`` has few of them, and all batch norms have fewer
epochs there, and two searches for six columns; "LN-LeNet-5, as short" is trained as briefly, for comparison.  Without
that flow ReLU networks train badly, and tanh is used.
"""

from dataclasses import replace
from typing import NamedTuple

from lib.run import Run
from lib.tables import Table, _public, mnist_si_dpsgd, printed
from lib.tables._dpsgd import regime

COLUMNS = (None, 7.0, 3.0, 1.0, 0.5, 0.1, 0.05)
PLAIN, LN, BN = "DPSGD (LeNet-5)", "DPSGD (LN-LeNet-5)", "DPSGD (BN-LeNet-5)"
NOISED = {"statistics_share": 0.2, "statistics_clip_norm": 3.0}  # neither was searched
ORDINARY = {"norm": "batch", "test_statistics": "running"}  # what noised running averages are without noise


class Row(NamedTuple):
    """The row of v1 Table 4 that it is like, and how it differs: its norm, or the settings of its public batch norm."""

    like: str
    norm: str | None = None
    public: dict[str, str] | None = None
    short: bool = True
    step: float = 1.0  # factor on the step sizes


ROWS = {
    PLAIN: Row(PLAIN, short=False),
    LN: Row(LN, short=False),
    BN: Row(LN, public={"statistics": "mixed"}),
    "BN-LeNet-5, each example with public": Row(LN, public={"statistics": "per_example"}),
    "BN-LeNet-5, public alone": Row(LN, public={}),
    "BN-LeNet-5, public alone, as constants": Row(PLAIN, public={"gradient": "off"}, step=4.0),
    "BN-LeNet-5, noised running averages": Row(LN, "noised_batch_without_affine", step=4.0),
    "GN-LeNet-5": Row(LN, "group_without_affine", short=False, step=2.0),
    "LN-LeNet-5, as short": Row(LN),
    "LN-LeNet-5, four views": Row(f"{LN}, four views", short=False),
}
SEARCHED_AT = {7.0: 1.0, 3.0: 1.0, 0.5: 1.0, 0.05: 0.1}  # of short rows


def cell(row: str, column: float | None, *, seed: int, tier: str, lr: float = 0.002) -> Run:
    """One run at ε = ``column``."""
    step = lr if column is None else lr * ROWS[row].step
    run = mnist_si_dpsgd.cell(ROWS[row].like, column, seed=seed, tier=tier, lr=step)
    return _changed(run, ROWS[row], tier, _public.EPOCHS[tier][regime(column)])


def tuning(row: str, column: float, *, tier: str, lr: float) -> Run:
    """The same, shorter, on a validation split of the training data."""
    column = SEARCHED_AT.get(column, column) if ROWS[row].short else column
    run = mnist_si_dpsgd.tuning(ROWS[row].like, column, tier=tier, lr=lr * ROWS[row].step)
    return _changed(run, ROWS[row], tier, _public.SEARCH_EPOCHS[tier])


def _changed(run: Run, row: Row, tier: str, epochs: int) -> Run:
    if row.short:
        run = replace(run, epochs=epochs)
    if row.public is not None:
        return _public.with_public(run, tier, **row.public)
    if row.norm is None:
        return run
    if row.norm.startswith("noised"):
        return replace(run, **({"norm": row.norm} | NOISED if run.epsilon else ORDINARY))
    return replace(run, norm=row.norm)


_PRINTED = {  # ε: ∞, 7, 3, 1, .5, .1, .05
    PLAIN: (99.2, 97.01, 96.34, 94.11, 91.1, 83.0, 78.96),
    LN: (99.2, 97.35, 97.05, 96.68, 94.81, 87.45, 75.76),
    BN: (99.2, 98.68, 98.18, 97.61, 96.83, 90.68, 88.15),
}

TABLE = Table(
    name="mnist_dpsgd_bn",
    title="MNIST test accuracy (%) of DPSGD at privacy budgets ε, δ = 1e-5: normalisation",
    source="v2 Table 5",
    notebook="03_batch_norm_with_public_data",
    figure="mnist_public_examples",
    rows=tuple(ROWS),
    column="epsilon",
    columns=COLUMNS,
    printed=printed(COLUMNS, _PRINTED),
    cell=cell,
    grid=mnist_si_dpsgd.TABLE.grid,
    tuning=tuning,
    tuned=mnist_si_dpsgd.TABLE.tuned,
    notes=_public.NOTES,
    elsewhere=mnist_si_dpsgd.ELSEWHERE,
)
