"""What the papers claim, as predicates over stored results: one file, one family of claims.

A :class:`Claim` says what the paper says and judges it: **holds**, **fails**, or **open** while results are
missing or too weak to tell (:func:`above`, :func:`limited`).  The evidence is put together from the records, never
typed.  A file of this folder defines ``CLAIMS``.

    >>> [claim.table for claim in every()][:2]
    ['mnist_noise', 'mnist_noise']
"""

from collections.abc import Callable
from dataclasses import dataclass

from lib import registry, tables
from lib.claims._comparison import above as above
from lib.claims._comparison import best_reached as best_reached
from lib.claims._comparison import cells as cells
from lib.claims._comparison import clear as clear
from lib.claims._comparison import compared as compared
from lib.claims._comparison import head as head
from lib.claims._comparison import limited as limited
from lib.claims._comparison import no_worse as no_worse
from lib.claims._comparison import printed_reached as printed_reached
from lib.claims._comparison import reached as reached
from lib.claims._comparison import spread as spread
from lib.claims._comparison import told as told
from lib.claims._verdict import MISSING as MISSING
from lib.claims._verdict import Part as Part
from lib.claims._verdict import Verdict as Verdict
from lib.claims._verdict import verdict as verdict
from lib.store import Store


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a paper about one table, and how it is judged: ``judge(tier, store)``.

    ``says`` is a literal quotation, with … where words are left out; where there is none, ``asks`` is what we ask.
    ``headline``: whether README shows it before all others.
    """

    name: str
    says: str = ""
    asks: str = ""
    source: str
    table: str
    judge: Callable[[str, Store], Verdict]
    headline: bool = False

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
