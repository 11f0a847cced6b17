"""Rows of another table with one setting changed each, to say what that setting is worth."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lib.run import Run
from lib.tables import Row, Table


@dataclass(frozen=True)
class Choices:
    """``cell`` and ``tuning`` of a table whose ``rows`` are (row of table ``of``, changes).

    A row is searched as there, or ``searched`` with its own changes.
    """

    of: Table
    rows: Mapping[Row, tuple[Row, dict[str, Any]]]
    searched: bool = False

    def cell(self, row: str, column: float, *, seed: int, tier: str, lr: float) -> Run:
        """The other table's run with the row's changes."""
        like, changes = self.rows[row]
        return replace(self.of.cell(like, column, seed=seed, tier=tier, lr=lr), **changes)

    def tuning(self, row: str, column: float, *, tier: str, lr: float) -> Run:
        """The other table's own tuning runs, or those with the row's changes."""
        like, changes = self.rows[row]
        return replace(self.of.tuning(like, column, tier=tier, lr=lr), **(changes if self.searched else {}))
