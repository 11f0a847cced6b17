"""How far rows are below ε = ∞: no more than so many points, or no farther than another row is.

The step size at ε = ∞ is not searched, and a gap from too low an accuracy is too small: it is taken from the best that
any row of the same network has there.
"""

from collections.abc import Mapping, Sequence
from itertools import product

from lib import tables
from lib.claims._comparison import above, cells, cut_differently, head, smaller_loss, told
from lib.claims._level import limited
from lib.claims._verdict import MISSING, Part
from lib.store import Store
from lib.tables import Column, Row


def small_gaps(
    name: str,
    networks: Mapping[Row, Sequence[Row]],
    points: Mapping[Column, float],
    tier: str,
    store: Store,
    *,
    alike: bool = True,
    of: int = 0,
) -> list[Part]:
    """Whether at each ε, a key of ``points``, no row is more than so many points below ε = ∞; and what v1 prints.

    ``networks``: the rows, and those of the same network.  ``alike``: as in :func:`lib.claims.no_worse`; a row that is
    shorter at ε than at ∞, or the other way round, tells nothing.  ``of``: how many comparisons there are in all, where
    there are others.
    """
    found, printed, parts = cells(name, tier, store), tables.load(name).printed, []
    for (row, network), column in product(networks.items(), points):
        private, free = found[row, column], _best(found, network)
        ok, why = above(private, free, -points[column], of=of or len(networks) * len(points))
        lost = printed[row, None].mean - printed[row, column].mean
        of_all = "the best " if len(network) > 1 else ""
        text = f"{row} at {head(name, column)}: {told(private)}, {of_all}at ε = ∞ {told(free)}, "
        text += f"where v1 prints {abs(lost):.2f} {'more' if lost < 0 else 'less'}{why}"
        parts.append(limited((ok, text), tier) if alike else cut_differently((ok, text), tier))
    return parts


def smaller_gaps(
    name: str,
    network: Sequence[Row],
    other: Row,
    columns: Sequence[Column],
    tier: str,
    store: Store,
    *,
    alike: bool = True,
    of: int = 0,
) -> list[Part]:
    """Whether at each of ``columns`` the first row of the ``network`` is less below ε = ∞ than the ``other`` row.

    ``alike`` and ``of``: as in :func:`small_gaps`.
    """
    found, rows, parts = cells(name, tier, store), (network[0], other), []
    for column in columns:
        four = [_best(found, network), found[rows[0], column], found[other, None], found[other, column]]
        ok, why, gaps = None, "", [MISSING] * 2
        if all(cell["n"] for cell in four):
            gaps = [f"{free['mean'] - cell['mean']:.2f} ({cell['n']})" for free, cell in (four[:2], four[2:])]
            ok, why = smaller_loss(*four, of=of or len(columns))
        words = ", ".join(f"{row} {gap}" for row, gap in zip(rows, gaps, strict=True))
        text = f"{head(name, column)}: {words} points below ε = ∞ (the first below the best of its network there){why}"
        parts.append((ok, text) if alike else cut_differently((ok, text), tier))
    return parts


def _best(found: Mapping[tuple[Row, Column], dict], network: Sequence[Row]) -> dict:
    stored = [found[row, None] for row in network if found[row, None]["n"]]
    return max(stored, key=lambda cell: cell["mean"], default=found[network[0], None])
