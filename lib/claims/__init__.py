"""What the papers claim, as predicates over stored results: one file, one family of claims.

A :class:`Claim` says what the paper says and judges it: **holds**, **fails**, or **open** while results are
missing or too weak to tell (:func:`above`, :func:`limited`).  The evidence is put together from the records, never
typed.  A file of this folder defines ``CLAIMS``.

    >>> [claim.table for claim in every()][:2]
    ['mnist_noise', 'mnist_noise']
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from lib import registry, report, tables
from lib.store import Store
from lib.tables import Column, Row

MISSING = "–"  # as :func:`lib.report.ours` writes a cell without runs
ONE_RUN = 2.0  # points that a single run, which has no spread of its own, is taken to have as standard error
Part = tuple[bool | None, str]  # whether it holds, and the evidence; None: not known


@dataclass(frozen=True)
class Verdict:
    """``status`` is "holds", "fails" or "open"; ``evidence`` says on which numbers, ``decisive`` on which above all.

    ``contrary``: numbers that decide nothing and say otherwise.
    """

    status: str
    evidence: str
    decisive: tuple[str, ...] = ()
    contrary: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.status}: {self.evidence}"

    def on_lines(self) -> str:
        """The status, and below it a line for each piece of evidence."""
        return "\n  ".join([self.status, *self.evidence.split("; ")])

    def in_short(self, most: int = 2) -> str:
        """At most so many of the decisive numbers, and how many more there are; and as many of the contrary."""
        told = []
        for numbers in (self.decisive, self.contrary):
            told += numbers[:most] + (f"and {len(numbers) - most} more",) * (len(numbers) > most)
        return "; ".join(told) or self.evidence


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a paper about one table, and how it is judged: ``judge(tier, store)``.

    ``says`` is a literal quotation, with … where words are left out; where there is none, ``asks`` is what we ask.
    """

    name: str
    says: str = ""
    asks: str = ""
    source: str
    table: str
    judge: Callable[[str, Store], Verdict]

    @property
    def words(self) -> str:
        return f"“{self.says}”" if self.says else self.asks


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


def verdict(parts: Sequence[Part], *, beside: Sequence[Part] = ()) -> Verdict:
    """Of all parts: one that fails decides, else one that is open.

    Parts with a number that is not stored are counted, not told.  ``beside``: evidence that decides nothing; what of it
    says otherwise is told in short, too.
    """
    oks = [ok for ok, _ in parts]
    status = "fails" if False in oks else "open" if None in oks else "holds"
    known = [(ok, text) for ok, text in parts if ok is not None or MISSING not in text]
    evidence = [text for _, text in known]
    if len(known) < len(parts):
        evidence.append(f"{len(parts) - len(known)} of {len(parts)} not stored yet" if known else "nothing stored yet")
    others = [(ok, f"beside: {text}") for ok, text in beside if MISSING not in text]
    deciding = {"fails": False, "open": None, "holds": True}[status]
    decisive = [text for ok, text in known if ok is deciding] + evidence[len(known) :] * (status == "open")
    contrary = [text for ok, text in others if None not in (ok, deciding) and ok is not deciding]
    return Verdict(status, "; ".join([*evidence, *(text for _, text in others)]), tuple(decisive), tuple(contrary))


def above(one: dict, other: dict, margin: float = 0.0) -> tuple[bool | None, str]:
    """Whether cell ``one`` is at least ``margin`` points above ``other``; or None, and why it cannot be told, in words.

    It is not told from a cell that is missing, from a difference within two standard errors, either way, nor where the
    lower one's step size is at an end of its search.
    """
    if not (one["n"] and other["n"]):
        return None, ""
    gap = one["mean"] - other["mean"] - margin
    if abs(gap) <= 2 * math.hypot(spread(one), spread(other)):
        single = f", a single run's taken as {ONE_RUN:g} points" if 1 in (one["n"], other["n"]) else ""
        return None, f" (within two standard errors{single})"
    if (other if gap >= 0 else one)["at_an_end"]:
        return None, " (the lower one's step size is at an end of its search)"
    return gap >= 0, ""


def spread(cell: dict) -> float:
    """The standard error of a cell that has runs."""
    return cell["stderr"] if cell["n"] > 1 else ONE_RUN


def limited(ok: bool | None, tier: str) -> tuple[bool | None, str]:
    """``ok``; but runs that are shorter than the paper's, on less data or of smaller networks, refute no level."""
    if ok is False and tier != "paper":
        return None, f" (tier {tier} is less than the paper's: open)"
    return ok, ""


def reached(cell: dict, tier: str, tolerance: float = 0.0) -> tuple[bool | None, str]:
    """Whether the cell is at least as accurate as what is printed, less ``tolerance`` points."""
    return limited(cell["mean"] >= cell["printed"].mean - tolerance if cell["n"] else None, tier)


def printed_reached(name: str, found: Sequence[tuple[Row, Column]], tier: str, store: Store, **how: float) -> Verdict:
    """Whether each of the cells is at least as accurate as what is printed there."""
    of_table, parts = cells(name, tier, store), []
    for row, column in found:
        cell = of_table[row, column]
        ok, why = reached(cell, tier, **how)
        at = f" at {head(name, column)}" if len({c for _, c in found}) > 1 else ""
        parts.append((ok, f"{row}{at}: {told(cell)}, printed {cell['printed'].text}{why}"))
    return verdict(parts)


def best_reached(name: str, rows: Sequence[Row], printed: Row, tier: str, store: Store) -> Verdict:
    """Whether at every finite ε the best of ``rows`` is at least as accurate as what is printed for ``printed``."""
    found, parts, table = cells(name, tier, store), [], tables.load(name)
    for column in table.columns[1:]:
        run = [row for row in rows if found[row, column]["n"]]
        number = table.printed[printed, column]
        if not run:
            parts.append((None, f"{head(name, column)}: {MISSING}, printed {number.text}"))
            continue
        best = max(run, key=lambda row: found[row, column]["mean"])
        ok, why = reached(found[best, column] | {"printed": number}, tier)
        gap = found[best, column]["mean"] - number.mean
        text = f"{head(name, column)}: {best} {told(found[best, column])}, printed {number.text}: {gap:+.2f}{why}"
        parts.append((ok, text))
    return verdict(parts)


def no_worse(
    table: str,
    pairs: Sequence[tuple[Row, Row]],
    tier: str,
    store: Store,
    *,
    columns: Sequence[Column] | None = None,
    alike: bool = True,
) -> Verdict:
    """Whether the first row of each pair is at least as accurate as the second at every finite ε, or at ``columns``.

    ``alike``: both rows are cut short alike where the tier is less than the paper's; otherwise see :func:`limited`.
    """
    found, parts = cells(table, tier, store), []
    finite = [column for column in columns or tables.load(table).columns if column is not None]
    for (better, worse), column in product(pairs, finite):
        one, other = found[better, column], found[worse, column]
        ok, why = above(one, other)
        if ok is False and not alike:
            ok, why = limited(ok, tier)
        gap = f": {one['mean'] - other['mean']:+.2f}" if one["n"] and other["n"] else ""
        parts.append((ok, f"{head(table, column)}: {better} {told(one)}, {worse} {told(other)}{gap}{why}"))
    return verdict(parts)


def head(table: str, column: Column) -> str:
    """``ε = 0.5``, as the table's column is headed."""
    return f"{report.symbol(tables.load(table))} = {'∞' if column is None else format(column, 'g')}"
