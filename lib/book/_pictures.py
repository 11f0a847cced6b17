"""The figure of an exhibit, inside the page."""

from base64 import b64encode
from collections.abc import Callable
from html import escape

from matplotlib.figure import Figure

from lib import figures, ledger, report
from lib.figures import gradient_norms
from lib.store import Store
from lib.tables import Table


def pictures(table: Table, store: Store) -> str:
    """One for each tier of which runs are stored."""
    draw = gradient_norms.drawn if table.name == "bc_gradient_norms" else _drawn_as_printed(table)
    return "".join(
        f'<p><img alt="{escape(report.title(table, tier))}" '
        f'src="data:image/png;base64,{b64encode(figures.png(draw(table, tier, store))).decode()}"></p>'
        for tier in ledger.TIERS
        if not report.results(table, tier, store).empty
    )


def _drawn_as_printed(table: Table) -> Callable[[Table, str, Store], Figure]:
    """bc's exhibits and the papers' figures 1 are curves over epochs; all else has numbers, and ours is their kin."""
    curves = table.name.startswith("bc_") and table.source.startswith("bc ")
    return figures.against_epoch if curves or table.name.endswith("_convergence") else figures.against_column
