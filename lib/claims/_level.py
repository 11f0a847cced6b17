"""Whether cells are as accurate as a level, above all as what is printed."""

from collections.abc import Callable, Sequence

from lib import tables
from lib.claims._comparison import cells, clear, doubt, head, told
from lib.claims._verdict import MISSING, Part, Verdict, verdict
from lib.store import Store
from lib.tables import Column, Row


def limited(part: Part, tier: str) -> Part:
    """The same; but runs that are shorter than the paper's, on less data or of smaller networks, refute no level."""
    ok, text = part
    if ok is False and tier != "paper":
        return None, f"{text} (tier {tier} is less than the paper's: open)"
    return part


def printed_reached(
    name: str,
    found: Sequence[tuple[Row, Column]],
    tier: str,
    store: Store,
    *,
    tolerance: float = 0.0,
    beside: Callable[[str, Store], Sequence[Part]] = lambda tier, store: (),
) -> Verdict:
    """Whether each of the cells is at least as accurate as what is printed there, less ``tolerance`` points.

    One of many cells is below by chance: that it is must be clear at 5 % ÷ their number, with the best step size.
    ``beside``: others, in evidence that decides nothing.
    """
    of_table, parts = cells(name, tier, store), []
    for row, column in found:
        cell = of_table[row, column]
        at = f" at {head(name, column)}" if len({c for _, c in found}) > 1 else ""
        text = f"{row}{at}: {told(cell)}, printed {cell['printed'].text}"
        gap = cell["mean"] - (cell["printed"].mean - tolerance)
        ok, text = limited((gap >= 0 if cell["n"] else None, text), tier)
        if ok is False:
            why = doubt(gap, cell, whose="the row") if clear(gap, cell, of=len(found)) else " (not told apart)"
            ok, text = None if why else False, text + why
        parts.append((ok, text))
    return verdict(parts, beside=beside(tier, store))


def best_reached(name: str, rows: Sequence[Row], printed: Row, tier: str, store: Store) -> Verdict:
    """Whether at every finite ε the best of ``rows`` is at least as accurate as what is printed for ``printed``.

    One of many rows is above by chance: that the best is must be clear at 5 % ÷ their number.
    """
    found, parts, table = cells(name, tier, store), [], tables.load(name)
    for column in table.columns[1:]:
        run = [row for row in rows if found[row, column]["n"]]
        number = table.printed[printed, column]
        if not run:
            parts.append((None, f"{head(name, column)}: {MISSING}, printed {number.text}"))
            continue
        best = max(run, key=lambda row: found[row, column]["mean"])
        gap = found[best, column]["mean"] - number.mean
        ok, why = limited((gap >= 0, ""), tier)
        if ok and not clear(gap, found[best, column], of=len(run)):
            ok, why = None, f" (not told apart, as the best of {len(run)} rows)"
        if ok is False and len(run) < len(rows):
            ok, why = None, f" ({len(rows) - len(run)} of {len(rows)} rows not stored yet)"
        text = f"{head(name, column)}: {best} {told(found[best, column])}, printed {number.text}: {gap:+.2f}{why}"
        parts.append((ok, text))
    return verdict(parts)
