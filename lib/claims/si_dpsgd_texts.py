"""v1: SI-DPSGD against DPSGD on texts; Table 6."""

from functools import partial

from lib.claims import Claim, no_worse, printed_reached
from lib.claims._same_claim import at_the_same_claim
from lib.claims.si_dpsgd import (
    BOTH_CONTRIBUTE,
    NEGLIGIBLE,
    PENALTIES,
    REACHED,
    points_ahead,
    printed_cells,
    small_penalties,
)

TEXTS, AT_V1S_NOISE = "agnews_si_dpsgd", "agnews_dp_accountants"
LN, PLAIN = "SI-DPSGD (LN-BiLSTM-DL)", "SI-DPSGD (BiLSTM-DL)"
PAIRS = tuple((row, row.removeprefix("SI-")) for row in (PLAIN, LN))
FIFTY = 45.0  # points that still are "close to ∼50%"


CLAIMS = (
    Claim(
        name="Texts: the DPSGD rows",
        asks="whether ours, whose ε is counted by PLD, reach every accuracy that is printed of DPSGD at a finite ε",
        source="v1 Table 6",
        table=TEXTS,
        judge=partial(printed_reached, TEXTS, printed_cells(TEXTS, "DPSGD")),
    ),
    Claim(
        name="Texts: the SI-DPSGD rows",
        asks=REACHED,
        source="v1 Table 6",
        table=TEXTS,
        judge=partial(printed_reached, TEXTS, printed_cells(TEXTS, "SI-DPSGD")),
    ),
    Claim(
        name="Texts: SI-DPSGD is more accurate than DPSGD at the same claimed ε",
        says="SI-DPSGD clearly outperforms the DPSGD with or without LN for all the privacy budgets",
        source="v1 section 5, Table 6",
        table=TEXTS,
        judge=partial(at_the_same_claim, TEXTS, PAIRS, at_v1s_noise=AT_V1S_NOISE),
        also=AT_V1S_NOISE,
    ),
    Claim(
        name="Texts: normalisation helps private training",
        asks="whether layer norm makes DPSGD more accurate at every ε, as v1 prints it at four of six",
        source="after v1 Table 6",
        table=TEXTS,
        judge=partial(no_worse, TEXTS, [("DPSGD (LN-BiLSTM-DL)", "DPSGD (BiLSTM-DL)")]),
    ),
    Claim(
        name="Texts: normalisation helps SI-DPSGD, too",
        says=BOTH_CONTRIBUTE,
        source="v1 section 5, Table 6",
        table=TEXTS,
        judge=partial(no_worse, TEXTS, [(LN, PLAIN)]),
    ),
    Claim(
        name="Texts: 50 % more accurate than DPSGD",
        says="SI-DPSGD results in a very stable model under very low privacy loss (i.e ε = 0.05) with close to ∼50% "
        "improvement in accuracy",
        source="v1 Table 6",
        table=TEXTS,
        judge=partial(points_ahead, TEXTS, (LN, PLAIN), 0.05, points=FIFTY, at_v1s_noise=AT_V1S_NOISE),
        also=AT_V1S_NOISE,
    ),
    Claim(
        name=f"Texts: SI-DPSGD costs next to no accuracy, no more than {NEGLIGIBLE:g} points",
        says=PENALTIES,
        source="v1 section 5, Table 6",
        table=TEXTS,
        judge=partial(small_penalties, TEXTS, {row: (row,) for row, _ in PAIRS}),
    ),
)
