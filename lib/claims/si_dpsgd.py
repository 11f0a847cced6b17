"""v1: SI-DPSGD against DPSGD; MNIST, that is Table 4 and the abstract."""

from collections.abc import Mapping, Sequence
from functools import partial

from lib import tables
from lib.claims import (
    MISSING,
    Claim,
    Part,
    Verdict,
    above,
    cells,
    clear,
    compared,
    head,
    limited,
    no_worse,
    printed_reached,
    told,
    verdict,
)
from lib.claims._gaps import small_gaps
from lib.claims._same_claim import at_the_same_claim
from lib.store import Store
from lib.tables import Column, Row
from lib.tables.mnist_dp_accountants import AS_MUCH_NOISE

AT_V1S_NOISE = "mnist_dp_accountants"
TABLE = "mnist_si_dpsgd"
PAIRS = (("SI-DPSGD (LeNet-5)", "DPSGD (LeNet-5)"), ("SI-DPSGD (LN-LeNet-5)", "DPSGD (LN-LeNet-5)"))
EQUAL_BATCHES = [(f"LN-LeNet-5, {size} batches", f"LeNet-5, {size} batches") for size in ("smaller", "large")]
WITH_TANH = [("LN-LeNet-5, tanh", "LeNet-5, tanh, as in the table")]
BATCH_NORM = "SI-DPSGD (BN-LeNet-5)"
HALF = 40.0  # points below the network without noise that count as "a 50% reduction"
BUDGETS = (
    "we obtain a 20% accuracy improvement over DPSGD on the MNIST and CIFAR10 datasets with DP-privacy budgets of "
    "ε = 0.05 and ε = 2.0"
)
TWENTY = 15.0  # points that still round to "a 20% accuracy improvement"
GAP = 0.65  # points that still round to "about 0.6%"
REACHED = "whether ours reach every accuracy that is printed of SI-DPSGD at a finite ε, which is one that it claims"
BOTH_CONTRIBUTE = (
    "both the algorithmic improvements and the introduced normalization contribute to SI-DPSGD’s superior performance"
)
PENALTIES = "unlike DPSGD, training with SI-DPSGD incurs only negligible performance penalties"
NEGLIGIBLE = 2.0  # points


def printed_cells(name: str, method: str) -> list[tuple[Row, Column]]:
    """What is printed of a method, by the words its rows begin with, at a finite ε."""
    return [(row, column) for row, column in tables.load(name).printed if row.startswith(method) and column]


def _with_v1s_noise(tier: str, store: Store) -> list[Part]:
    """Whether DPSGD reaches what is printed with the noise that v1's accountant asks for, which is more."""
    noised, printed, column, parts = cells(AT_V1S_NOISE, tier, store), tables.load(TABLE).printed, 0.025, []
    for _, row in PAIRS:
        private, number = noised[AS_MUCH_NOISE.format(row), column], printed[row, column]
        text = f"{AS_MUCH_NOISE.format(row)} at {head(TABLE, column)}: {told(private)}, printed {number.text}"
        parts.append((private["mean"] >= number.mean if private["n"] else None, text))
    return parts


def _dpsgd_collapses(tier: str, store: Store) -> Verdict:
    """Whether it does with the noise that v1's accountant asks for; beside it, with that which PLD asks for."""
    found, noised, parts, beside = cells(TABLE, tier, store), cells(AT_V1S_NOISE, tier, store), [], []
    for _, row in PAIRS:
        noisier = AS_MUCH_NOISE.format(row)
        for of, name, private, by in (
            (parts, noisier, noised[noisier, 0.025], "v1's accountant"),
            (beside, row, found[row, 0.025], "PLD"),
        ):
            ok, why = above(found[row, None], private, HALF, of=len(PAIRS))
            of.append((ok, f"{name} at ε = 0.025 by {by}: {told(private)}, at ε = ∞ {told(found[row, None])}{why}"))
    return verdict(parts, beside=beside)


def points_ahead(
    table: str,
    own: Sequence[Row],
    column: float,
    tier: str,
    store: Store,
    *,
    points: float = TWENTY,
    at_v1s_noise: str = "",
) -> Verdict:
    """Whether the best of v1's ``own`` rows is so many points above the best row of DPSGD.

    ``at_v1s_noise``: the table in which DPSGD has the noise that v1's accountant asks for; its rows alone are compared.
    """
    found = cells(table, tier, store)
    rivals = [row for row, of in printed_cells(table, "DPSGD") if of == column]
    if at_v1s_noise:
        found |= cells(at_v1s_noise, tier, store)
        rivals = [row for row in map(AS_MUCH_NOISE.format, rivals) if (row, column) in found]
    means = {row: found[row, column]["mean"] for row in (*own, *rivals) if found[row, column]["n"]}
    missing = len(own) + len(rivals) - len(means)
    if not means:
        return verdict([(None, MISSING)])
    best = [max(rows, key=lambda row: means.get(row, 0.0)) for rows in (own, rivals)]
    text = f"{head(table, column)}: " + ", ".join(f"{row} {told(found[row, column])}" for row in best)
    if missing:
        return verdict([(None, f"{text} ({missing} of {len(own) + len(rivals)} rows not stored yet)")])
    of_best = [found[row, column] for row in best]
    ok, why = above(*of_best, points)
    if ok and not clear(of_best[0]["mean"] - of_best[1]["mean"] - points, *of_best, of=len(own)):
        ok, why = None, f" (not told apart, as the best of {len(own)} rows)"
    if at_v1s_noise and of_best[1]["mean"] + points > 100:  # no training of SI-DPSGD mends that
        return verdict([(ok, f"{text}{why} ({points:g} points more are above 100 %)")])
    return verdict([limited((ok, text + why), tier)])


def _hardly_any_gap(tier: str, store: Store) -> Verdict:
    """Whether v1's batch norm is at every ε no more than ``GAP`` points below the best of LeNet-5 at ε = ∞: its own row
    is trained briefly there."""
    points = dict.fromkeys(tables.load(TABLE).columns[1:], GAP)
    return verdict(small_gaps(TABLE, {BATCH_NORM: (BATCH_NORM, *dict(PAIRS))}, points, tier, store))


def small_penalties(
    table: str, networks: Mapping[Row, Sequence[Row]], tier: str, store: Store, *, alike: bool = True
) -> Verdict:
    """Whether SI-DPSGD's rows, the keys, lose no more than ``NEGLIGIBLE`` points at any ε that is claimed; the rest as
    in :func:`lib.claims._gaps.small_gaps`."""
    points = dict.fromkeys(tables.load(table).columns[1:], NEGLIGIBLE)
    return verdict(small_gaps(table, networks, points, tier, store, alike=alike))


def _at_equal_batches(tier: str, store: Store) -> Verdict:
    """Beside it, both networks with tanh, in Table 4's batches."""
    judged, others = (
        [part[:2] for part in compared(table, pairs, tier, store)]
        for table, pairs in (("mnist_dp_batches", EQUAL_BATCHES), ("mnist_dp_choices", WITH_TANH))
    )
    return verdict(judged, beside=others)


CLAIMS = (
    Claim(
        name="The DPSGD rows",
        asks="whether ours, whose ε is counted by PLD, reach every accuracy that is printed of DPSGD at a finite ε",
        source="v1 Table 4",
        table=TABLE,
        judge=partial(printed_reached, TABLE, printed_cells(TABLE, "DPSGD"), beside=_with_v1s_noise),
        also=AT_V1S_NOISE,
    ),
    Claim(
        name="The SI-DPSGD rows",
        asks=REACHED,
        source="v1 Table 4",
        table=TABLE,
        judge=partial(printed_reached, TABLE, printed_cells(TABLE, "SI-DPSGD")),
    ),
    Claim(
        name="SI-DPSGD with batch norm loses next to nothing",
        says="the largest gap between private and non-private models is only about 0.6%",
        source="v1 section 5, of BN-LeNet-5",
        table=TABLE,
        judge=_hardly_any_gap,
    ),
    Claim(
        name="SI-DPSGD is more accurate than DPSGD at the same ε by v1's accountant, with layer norm and without",
        says="our method consistently outperforms other mechanisms for all finite values of privacy loss",
        source="v1 section 5",
        table=TABLE,
        judge=partial(
            at_the_same_claim, TABLE, PAIRS, at_v1s_noise=AT_V1S_NOISE, briefly=[(BATCH_NORM, "DPSGD (LeNet-5)")]
        ),
        also=AT_V1S_NOISE,
        headline=True,
    ),
    Claim(
        name="SI-DPSGD costs next to no accuracy",
        says=PENALTIES,
        source="v1 section 5",
        table=TABLE,
        judge=partial(small_penalties, TABLE, {row: (row,) for row, _ in PAIRS}),
    ),
    Claim(
        name="DPSGD loses half of its accuracy at ε = 0.025",
        says="Training with DPSGD results in a 50% reduction in accuracy for the same model",
        source="v1 section 5",
        table=AT_V1S_NOISE,
        judge=_dpsgd_collapses,
    ),
    Claim(
        name="Normalisation helps private training",
        asks="whether layer norm makes DPSGD more accurate at every ε",
        source="v1 Table 4",
        table=TABLE,
        judge=partial(no_worse, TABLE, [("DPSGD (LN-LeNet-5)", "DPSGD (LeNet-5)")]),
    ),
    Claim(
        name="Normalisation helps SI-DPSGD, too",
        says=BOTH_CONTRIBUTE,
        source="v1 section 5, Table 4",
        table=TABLE,
        judge=partial(no_worse, TABLE, [("SI-DPSGD (LN-LeNet-5)", "SI-DPSGD (LeNet-5)")]),
    ),
    Claim(
        name="Normalisation helps private training, at equal batches and epochs",
        asks="whether it is layer norm that helps, and not the batches that its row has in Table 4; each network has "
        "the activation that suits it, ReLU beside layer norm and else tanh",
        source="after v1 Table 4",
        table="mnist_dp_batches",
        judge=_at_equal_batches,
        also="mnist_dp_choices",
    ),
    Claim(
        name="20 % more accurate than DPSGD on MNIST",
        says=BUDGETS,
        source="v1 abstract",
        table=TABLE,
        judge=partial(points_ahead, TABLE, (*dict(PAIRS), BATCH_NORM), 0.05, at_v1s_noise=AT_V1S_NOISE),
        also=AT_V1S_NOISE,
    ),
)
