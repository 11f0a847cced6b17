"""How far ours is from the printed number: in points, and in standard errors of the difference."""

import math

import pandas as pd

from lib.report.frames import summary
from lib.store import Store
from lib.tables import Printed, Table


def from_printed(table: Table, tier: str, store: Store) -> pd.DataFrame:
    """``+0.15 (1.8)``: ours − printed in points (÷ √(s.e.² of ours + s.e.² printed, where there is one)).

    A line for each row that has both numbers somewhere.  A range counts as far as its nearer end, and what is not
    run, or printed without a number, is a dash; so is the quotient of a single run, whose spread is not known, and of
    a number that is printed as "≈ 40 %", from which ours is told in whole points.  Of few runs the spread is not known
    well: a quotient that rounds to 100 and more is told as ``> 99``.
    """
    cells = summary(table, tier, store)
    lines = {}
    for row in table.rows:
        of_row = cells[cells["row"] == row]
        told = [_told(cell.mean, cell.stderr, cell.printed) for cell in of_row.itertuples()]
        if any(told):
            lines[row] = [difference or "–" for difference in told]
    return pd.DataFrame.from_dict(lines, orient="index")


def _told(mean: float, stderr: float, printed: Printed | None) -> str:
    if math.isnan(mean) or printed is None or printed.mean is None:
        return ""
    nearest = printed.mean if printed.up_to is None else min(max(mean, printed.mean), printed.up_to)
    if printed.about:
        return f"≈ {mean - nearest:+.0f} (–)"
    spread = 0.0 if math.isnan(stderr) else math.hypot(stderr, printed.stderr or 0.0)
    if not spread:
        return f"{mean - nearest:+.2f} (–)"
    times = abs(mean - nearest) / spread
    return f"{mean - nearest:+.2f} ({f'{times:.1f}' if times < 99.95 else '> 99'})"
