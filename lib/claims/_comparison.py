"""Whether one cell is more accurate than another, told where the runs can tell it."""

import math
from collections.abc import Iterable, Sequence
from itertools import product

from scipy.stats import t

from lib import report, tables
from lib.claims._verdict import MISSING, Part, Verdict, verdict
from lib.store import Store
from lib.tables import Column, Row

ONE_RUN = 2.0  # points that a single run, which has no spread of its own, has as standard error at the least
DOUBT = 0.05  # two-sided
NOT_OUTDONE = {"at_an_end": False, "left_open": 0.0, "outdone": None}


class _Cells(dict[tuple[Row, Column], dict]):
    """By row and column; ``ValueError`` for a cell that the table has not, which a claim may have misspelt."""

    def __missing__(self, cell: tuple[Row, Column]) -> dict:
        raise ValueError(f"cell: expected one of {', '.join(map(str, self))}; got {cell!r}")


def cells(name: str, tier: str, store: Store) -> dict[tuple[Row, Column], dict]:
    """The lines of the table's summary, by cell, with more: ``one_run``, what a single run's standard error is taken
    for (that of the row's repeated cells, pooled, or of all where it has none), with so many degrees of ``freedom``;
    and ``outdone``, what is stored of the row that is more accurate, and where: with a step size that its search did
    not choose, or at a smaller ε, where a network keeps to this one, too.
    """
    table = tables.load(name)
    found = _Cells(zip(table.cells, report.summary(table, tier, store).to_dict("records"), strict=True))
    singles = {row: _single([cell for (of, _), cell in found.items() if of == row]) for row in table.rows}
    of_all = _single(found.values())
    for (row, _), cell in found.items():
        cell |= singles[row] or of_all or {"one_run": ONE_RUN, "freedom": math.inf}
    for (row, column), cell in found.items():
        others = [(f"with step size {step['lr']:g}", step) for step in cell["other_steps"]]
        if table.column == "epsilon" and column is not None:
            smaller = [other for other in table.columns if other is not None and other < column]
            others += [(f"at {head(name, c)}", found[row, c]) for c in smaller if found[row, c]["n"]]
        single = {name: cell[name] for name in ("one_run", "freedom")}
        better = [(other | single, where) for where, other in others if cell["n"]]
        better = [(other, where) for other, where in better if other["mean"] > cell["mean"]]
        cell["outdone"] = max(better, key=lambda found: found[0]["mean"], default=None)
    return found


def _single(of_cells: Iterable[dict]) -> dict[str, float] | None:
    """``one_run`` and ``freedom`` from the repeated ones among ``of_cells``; None if there are none."""
    repeated = [(cell["n"] - 1, cell["n"] * cell["stderr"] ** 2) for cell in of_cells if cell["n"] > 1]
    if not repeated:
        return None
    freedom = sum(freedom for freedom, _ in repeated)
    error = math.sqrt(sum(freedom * variance for freedom, variance in repeated) / freedom)
    return {"one_run": error, "freedom": freedom} if error > ONE_RUN else {"one_run": ONE_RUN, "freedom": math.inf}


def told(cell: dict) -> str:
    """A line of the summary as the report writes it."""
    return report.ours(cell["mean"], cell["stderr"], cell["n"])


def both(at: str, better: Row, one: dict, worse: Row, other: dict) -> str:
    """Two cells of one column and, if both are stored, by how much the first is above."""
    gap = f": {one['mean'] - other['mean']:+.2f}" if one["n"] and other["n"] else ""
    return f"{at}: {better} {told(one)}, {worse} {told(other)}{gap}"


def head(table: str, column: Column) -> str:
    """``ε = 0.5``, as the table's column is headed."""
    return report.head(tables.load(table), column)


def above(one: dict, other: dict, margin: float = 0.0, *, of: int = 1) -> tuple[bool | None, str]:
    """Whether cell ``one`` is at least ``margin`` points above ``other``; or None, and why it cannot be told, in words.

    It is not told from a cell that is missing, nor where Welch's t-test leaves more than 5 % of doubt.  One of many
    comparisons would be below by chance: that it is must be clear at 5 % ÷ ``of``, their number (Bonferroni).  Nor is
    it told where the lower one's step size may not be its best (:func:`doubt`); or where the row is outdone
    (:func:`cells`) by a cell of which the same cannot be told.
    """
    if not (one["n"] and other["n"]):
        return None, ""
    gap = one["mean"] - other["mean"] - margin
    if not clear(gap, one, other, of=1 if gap >= 0 else of):
        if gap < 0 and clear(gap, one, other):
            return None, f" (below at 5 %, but not at 5 % ÷ {of}, for as many comparisons)"
        single = [f", a single run's error taken as {c['one_run']:.2g} points" for c in (one, other) if c["n"] == 1]
        return None, f" (not told apart{(single or [''])[0]})"
    lower = other if gap >= 0 else one
    if why := doubt(gap, lower):
        return None, why
    if lower["outdone"] is None:
        return gap >= 0, ""
    better, where = lower["outdone"]
    its = f"the lower one's {told(better)} {where}"
    instead = (one, better | NOT_OUTDONE) if gap >= 0 else (better | NOT_OUTDONE, other)
    if above(*instead, margin, of=of)[0] is not (gap >= 0):
        return None, f" (not told apart from {its})"
    return gap >= 0, f" (and against {its})"


def doubt(gap: float, *lower: dict, whose: str = "the lower one") -> str:
    """Why a gap of so many points may be one of step sizes, if it may: that of a cell that would have to be more
    accurate is at an end of its search, or the search, which takes the most cautious step size of those that it cannot
    tell apart, left open that another is better by as much."""
    if any(cell["at_an_end"] for cell in lower):
        return f" ({whose}'s step size is at an end of its search)"
    left = sum(cell["left_open"] for cell in lower)
    return f" (another step size of {whose} may be {left:.2f} points better)" if abs(gap) <= left else ""


def clear(gap: float, *of_cells: dict, of: int = 1) -> bool:
    """Whether a sum or difference of the cells' means is not 0: Welch's t-test, of one out of ``of`` comparisons."""
    errors = [spread(cell) for cell in of_cells]
    error = math.hypot(*errors)
    if error == 0:
        return gap != 0
    freedoms = [cell["n"] - 1 if cell["n"] > 1 else cell["freedom"] for cell in of_cells]
    uncertain = sum(e**4 / of_cell for e, of_cell in zip(errors, freedoms, strict=True))
    freedom = error**4 / uncertain if uncertain else math.inf
    return abs(gap) > error * float(t.isf(DOUBT / 2 / of, freedom))


def loses_less(
    name: str,
    found: dict[tuple[Row, Column], dict],
    row: Row,
    other: Row,
    columns: tuple[Column, Column],
    *,
    of: int = 1,
) -> Part:
    """Whether ``row`` loses no more points than ``other`` from the first of ``columns`` to the second."""
    at, four = head(name, columns[1]), [found[of_row, column] for of_row in (row, other) for column in columns]
    if not all(cell["n"] for cell in four):
        return None, f"{at}: {row} and {other} {MISSING}"
    less, more = (clean["mean"] - noisy["mean"] for clean, noisy in (four[:2], four[2:]))
    ok, why = smaller_loss(*four, of=of)
    seeds = min(cell["n"] for cell in four)
    return ok, f"{at}: {row} and {other} lose {less:.2f} and {more:.2f} points ({seeds}){why}"


def smaller_loss(clean: dict, noisy: dict, others: dict, its: dict, *, of: int = 1) -> tuple[bool | None, str]:
    """Whether ``noisy`` is below ``clean`` by no more than ``its`` below ``others``; or None, and why, as in
    :func:`above`."""
    gap = (others["mean"] - its["mean"]) - (clean["mean"] - noisy["mean"])
    ok = gap >= 0
    if not clear(gap, clean, noisy, others, its, of=1 if ok else of):
        return None, ""
    why = doubt(gap, *((clean, its) if ok else (noisy, others)))
    return (None, why) if why else (ok, "")


def spread(cell: dict) -> float:
    """The standard error of a cell that has runs."""
    return cell["stderr"] if cell["n"] > 1 else cell["one_run"]


def compared(
    table: str,
    pairs: Sequence[tuple[Row, Row]],
    tier: str,
    store: Store,
    *,
    columns: Sequence[Column] | None = None,
    same_features: bool = False,
) -> list[tuple[bool | None, str, Row, Column]]:
    """For each pair, at every finite ε or at ``columns``: whether the first row is above the second, the evidence, and
    of which row and column it is.  ``same_features``: it is not told of rows whose features were pretrained apart."""
    found, parts = cells(table, tier, store), []
    finite = [column for column in columns or tables.load(table).columns if column is not None]
    for (better, worse), column in product(pairs, finite):
        one, other = found[better, column], found[worse, column]
        ok, why = above(one, other, of=len(pairs) * len(finite))
        if same_features and one["data"] != other["data"] and one["n"] and other["n"]:
            ok, why = None, " (on features that were pretrained apart)"
        parts.append((ok, both(head(table, column), better, one, worse, other) + why, better, column))
    return parts


def cut_differently(part: Part, tier: str) -> Part:
    """The same, of two rows that tier ``cpu`` cuts short each in its way: nothing is told there."""
    ok, text = part
    if ok is None or tier == "paper":
        return part
    return None, f"{text} (tier {tier} cuts them short differently: open)"


def no_worse(
    table: str,
    pairs: Sequence[tuple[Row, Row]],
    tier: str,
    store: Store,
    *,
    columns: Sequence[Column] | None = None,
    alike: bool = True,
    same_features: bool = False,
    beside: Sequence[tuple[Row, Row]] = (),
) -> Verdict:
    """Whether the first row of each pair is at least as accurate as the second at every finite ε, or at ``columns``.

    ``alike``: both rows are cut short alike where the tier is less than the paper's; otherwise nothing is told there.
    ``same_features``: see :func:`compared`.  ``beside``: pairs that decide nothing.
    """
    parts: list[Part] = []
    for ok, text, *_ in compared(table, pairs, tier, store, columns=columns, same_features=same_features):
        parts.append((ok, text) if alike else cut_differently((ok, text), tier))
    others = [part[:2] for part in compared(table, beside, tier, store, columns=columns)]
    return verdict(parts, beside=others)
