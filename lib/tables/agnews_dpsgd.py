"""v2 Table 7: AG News accuracy of DPSGD, BiLSTM with and without layer norm, δ = 1e-5.

The DPSGD rows of v1 Table 6 with other printed numbers for layer norm; ours are the same runs
(:mod:`lib.tables.agnews_si_dpsgd`).
"""

from lib.tables import Table, agnews_si_dpsgd, printed

COLUMNS = (None, 7.0, 3.0, 1.0, 0.5, 0.1)
_PRINTED = {  # ε: ∞, 7, 3, 1, .5, .1
    "DPSGD (BiLSTM-DL)": (88.47, 83.86, 80.0, 81.14, 77.88, 37.49),
    "DPSGD (LN-BiLSTM-DL)": (88.18, 84.34, 82.51, 82.03, 79.16, 50.09),
}

TABLE = Table(
    name="agnews_dpsgd",
    title="AG News test accuracy (%) of DPSGD at privacy budgets ε, δ = 1e-5",
    source="v2 Table 7",
    notebook="03_batch_norm_with_public_data",
    rows=tuple(_PRINTED),
    column="epsilon",
    columns=COLUMNS,
    printed=printed(COLUMNS, _PRINTED),
    cell=agnews_si_dpsgd.cell,
    grid=agnews_si_dpsgd.TABLE.grid,
    tuning=agnews_si_dpsgd.tuning,
    tuned=agnews_si_dpsgd.TABLE.tuned,
    notes=agnews_si_dpsgd.TABLE.notes,
)
