"""Whether no two cells of a row are apart, told where the runs can tell it."""

from collections.abc import Sequence
from itertools import permutations

from lib.claims._comparison import clear, doubt
from lib.claims._level import limited

FLAT = 0.5  # points between the best and the worst cell of a row that still counts as "does not change"


def alike(of_row: Sequence[dict], tier: str, *, of: int) -> tuple[bool | None, str]:
    """Whether no two cells are more than ``FLAT`` points apart; or None, and why it cannot be told.  Of the pairs of
    cells, ``of`` them in all, those that are farthest apart may be so by chance."""
    best, worst = (f(of_row, key=lambda cell: cell["mean"]) for f in (max, min))
    beyond = best["mean"] - worst["mean"] - FLAT
    if beyond <= 0:
        why = next(filter(None, (_unsure(*pair) for pair in permutations(of_row, 2))), "")
    else:
        why = doubt(beyond, worst) if clear(beyond, best, worst, of=of) else " (not told apart from the limit)"
    return (None, why) if why else limited((beyond <= 0, ""), tier)


def _unsure(one: dict, other: dict) -> str:
    """Why cell ``one`` may be more than ``FLAT`` points above the ``other`` all the same, if it may."""
    left = FLAT - (one["mean"] - other["mean"])
    if not clear(left, one, other):
        return f" (σ = {one['column']:g} may be more than {FLAT:g} above σ = {other['column']:g})"
    return doubt(left, one, whose=f"σ = {one['column']:g}")
