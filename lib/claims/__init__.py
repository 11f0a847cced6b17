"""What the papers claim, as predicates over stored results: one file, one family of claims.

A :class:`Claim` says what the paper says and judges it: **holds**, **fails**, or **open** while results are
missing.  The evidence is put together from the records, never typed.  A file of this folder defines ``CLAIMS``.

    >>> [claim.table for claim in every()][:2]
    ['mnist_noise', 'mnist_noise']
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from lib import registry, report, tables
from lib.store import Store
from lib.tables import Column, Row

MISSING = "–"  # as :func:`lib.report.ours` writes a cell without runs


@dataclass(frozen=True)
class Verdict:
    """``status`` is "holds", "fails" or "open"; ``evidence`` says on which numbers, and ``decisive`` on which of them."""

    status: str
    evidence: str
    decisive: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.status}: {self.evidence}"

    def in_short(self, most: int = 2) -> str:
        """At most so many of the decisive numbers, and how many more there are."""
        more = [f"and {len(self.decisive) - most} more"] if len(self.decisive) > most else []
        return "; ".join([*self.decisive[:most], *more]) or self.evidence


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a paper about one table, and how it is judged: ``judge(tier, store)``."""

    name: str
    says: str
    source: str
    table: str
    judge: Callable[[str, Store], Verdict]


def every() -> list[Claim]:
    """All claims, in the reading order of the notebooks that show their tables."""
    found = [claim for name in registry.names("claims") for claim in registry.load("claims", name).CLAIMS]
    return sorted(found, key=lambda claim: tables.load(claim.table).notebook)


def of(*table_names: str) -> list[Claim]:
    """The claims about the named tables."""
    return [claim for claim in every() if claim.table in table_names]


def cells(name: str, tier: str, store: Store) -> dict[tuple[Row, Column], dict]:
    """The lines of the table's summary, by cell."""
    table = tables.load(name)
    return dict(zip(table.cells, report.summary(table, tier, store).to_dict("records"), strict=True))


def told(cell: dict) -> str:
    """A line of the summary as the report writes it."""
    return report.ours(cell["mean"], cell["stderr"], cell["n"])


def verdict(parts: list[tuple[bool | None, str]]) -> Verdict:
    """Of (whether it holds or None, evidence) for each part: one that fails decides, else one that is open.

    Parts with a number that is not stored are counted, not told.
    """
    oks = [ok for ok, _ in parts]
    status = "fails" if False in oks else "open" if None in oks else "holds"
    known = [(ok, text) for ok, text in parts if ok is not None or MISSING not in text]
    evidence = [text for _, text in known]
    if len(known) < len(parts):
        evidence.append(f"{len(parts) - len(known)} of {len(parts)} not stored yet" if known else "nothing stored yet")
    against = tuple(text for ok, text in known if ok is False)
    return Verdict(status, "; ".join(evidence), against or tuple(evidence))


def no_worse(
    table: str, pairs: dict[Row, Row], tier: str, store: Store, *, columns: Sequence[Column] | None = None
) -> Verdict:
    """Whether the second row of each pair is at least as accurate as the first at every finite ε, or at ``columns``."""
    found, parts = cells(table, tier, store), []
    finite = [column for column in columns or tables.load(table).columns if column is not None]
    for (first, second), column in product(pairs.items(), finite):
        one, other = found[first, column], found[second, column]
        ok = None if not (one["n"] and other["n"]) else other["mean"] >= one["mean"]
        parts.append((ok, f"{budget(column)}: {second} {told(other)}, {first} {told(one)}"))
    return verdict(parts)


def budget(column: Column) -> str:
    """``ε = 0.5``."""
    return f"ε = {'∞' if column is None else format(column, 'g')}"
