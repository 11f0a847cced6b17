"""v1 and v2: "new accuracy records", above what v1 prints of earlier work, of training as private as it claims to be.

An accuracy is a record of differentially private training only at an ε that training keeps to: that of the most
accurate row counts as far as it is proven, and not where an attack shows more.
"""

from collections.abc import Callable, Sequence
from functools import partial

from lib import report, tables
from lib.claims import MISSING, Claim, Part, Verdict, cells, clear, compared, doubt, head, limited, told, verdict
from lib.claims.public_batch_norm import BN, LN
from lib.claims.si_dpsgd import BATCH_NORM, PAIRS
from lib.claims.si_dpsgd_images import OWN
from lib.store import Store
from lib.tables import Column, Row

MNIST, CIFAR10 = "mnist_si_dpsgd", "cifar10_si_dpsgd"
MNIST_V2, CIFAR10_V2 = "mnist_dpsgd_bn", "cifar10_dpsgd_bn"
EARLIER = {  # what v1 prints of others; v2's rows are held against the same, but for LATENT, which is no DPSGD
    MNIST: ("DPSGD [1]", "DPSGD (tensorflow privacy)", "LATENT [5]"),
    CIFAR10: ("DPSGD (TF-tutorial) [1]", "LATENT [5]"),
}
V1S = {MNIST: (*dict(PAIRS), BATCH_NORM), CIFAR10: OWN}
V2S = {
    MNIST_V2: (LN, BN),
    CIFAR10_V2: ("DPSGD (LN-TF-tutorial)", "DPSGD (BN-TF-tutorial)", "DPSGD (BN-VGG)"),
}


def _kept_to(table: str, row: Row, column: Column, tier: str, store: Store) -> Part:
    """Whether a cell's training is as private as the ε of its column, by its records, and how that is known."""
    blocks = [r["privacy"] for r in report.records(tables.load(table), row, column, tier, store)]
    attacks = [block["audited"]["epsilon"] for block in blocks if block["audited"]]
    if attacks and max(attacks) > column:
        return False, f"an attack shows ε ≥ {report.at_least(max(attacks))}"
    bounds = [block["proven"]["epsilon"] for block in blocks]
    if None in bounds or max(bounds) > column:
        return None, "no such ε is proven"
    return True, f"ε ≤ {report.at_most(max(bounds))} is proven"


def _new_records(
    table: str, own: Sequence[Row], of_table: str, earlier: Sequence[Row], tier: str, store: Store
) -> list[Part]:
    """Whether at each ε the best of ``own`` is above all that ``of_table`` prints of ``earlier`` rows, and is private.

    That the best of several is above must be clear at 5 % ÷ their number; that it is below, ÷ that of the ε.
    """
    found, printed, parts = cells(table, tier, store), tables.load(of_table).printed, []
    columns = [column for column in tables.load(table).columns[1:] if any((row, column) in printed for row in earlier)]
    for column in columns:
        levels = [printed[row, column] for row in earlier if (row, column) in printed]
        stored = [row for row in own if found[row, column]["n"]]
        highest = max(levels, key=lambda number: number.mean)
        level = f"of earlier work at most {highest.text} is printed"
        if not stored:
            parts.append((None, f"{head(table, column)}: {MISSING}, {level}"))
            continue
        best = max(stored, key=lambda row: found[row, column]["mean"])
        cell = found[best, column]
        gap = cell["mean"] - highest.mean
        text = f"{head(table, column)}: {best} {told(cell)}, {level}: {gap:+.2f}"
        if not clear(gap, cell, of=len(own if gap >= 0 else columns)):
            parts.append((None, f"{text} (not told apart)"))
        elif gap < 0:
            why = doubt(gap, cell, whose="the row")
            if len(stored) < len(own):
                why = f" ({len(own) - len(stored)} of {len(own)} rows not stored yet)"
            parts.append((None, text + why) if why else limited((False, text), tier))
        else:
            kept, how = _kept_to(table, best, column, tier, store)
            parts.append((kept, f"{text}; {how}"))
    return parts


def _of_v1(table: str, tier: str, store: Store) -> Verdict:
    return verdict(_new_records(table, V1S[table], table, EARLIER[table], tier, store))


def _of_v2(table: str, of_table: str, tier: str, store: Store) -> Verdict:
    """Beside it, on MNIST: against the earlier networks as they are trained here, their step sizes searched as well;
    and what others print, v2 does not."""
    earlier = [row for row in EARLIER[of_table] if row.startswith("DPSGD")]
    judged = _new_records(table, V2S[table], of_table, earlier, tier, store)
    rivals = [(LN, row) for row in earlier] if of_table == MNIST else []
    beside = [part[:2] for part in compared(of_table, rivals, tier, store)]
    return verdict(judged, beside=[*beside, (None, f"elsewhere, {tables.load(table).elsewhere}")])


METHODS = {"v1": ("SI-DPSGD", ""), "v2": ("DPSGD with normalisation", " under DPSGD")}


def _claim(paper: str, images: str, table: str, judge: Callable[[str, Store], Verdict]) -> Claim:
    method, under = METHODS[paper]
    return Claim(
        name=f"New accuracy records on {images}, by {method}",
        says="We establish new accuracy records for differentially private trained deep networks"
        f"{under} on the MNIST and CIFAR10 datasets",
        source=f"{paper} section 1, of {images}",
        table=table,
        judge=judge,
    )


CLAIMS = (
    _claim("v1", "MNIST", MNIST, partial(_of_v1, MNIST)),
    _claim("v1", "CIFAR-10", CIFAR10, partial(_of_v1, CIFAR10)),
    _claim("v2", "MNIST", MNIST_V2, partial(_of_v2, MNIST_V2, MNIST)),
    _claim("v2", "CIFAR-10", CIFAR10_V2, partial(_of_v2, CIFAR10_V2, CIFAR10)),
)
