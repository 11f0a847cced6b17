"""What the papers claim, as predicates over stored results: one file, one family of claims.

A :class:`Claim` says what the paper says and judges it: **holds**, **fails**, or **open** while results are
missing or too weak to tell (:func:`above`, :func:`limited`).  The evidence is put together from the records, never
typed.  A file of this folder defines ``CLAIMS``.

    >>> [claim.table for claim in every()][:2]
    ['mnist_noise', 'mnist_noise']
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps

from lib import registry, tables
from lib.claims._comparison import above as above
from lib.claims._comparison import both as both
from lib.claims._comparison import cells as cells
from lib.claims._comparison import clear as clear
from lib.claims._comparison import compared as compared
from lib.claims._comparison import doubt as doubt
from lib.claims._comparison import head as head
from lib.claims._comparison import loses_less as loses_less
from lib.claims._comparison import no_worse as no_worse
from lib.claims._comparison import smaller_loss as smaller_loss
from lib.claims._comparison import told as told
from lib.claims._level import best_reached as best_reached
from lib.claims._level import limited as limited
from lib.claims._level import printed_reached as printed_reached
from lib.claims._verdict import MISSING as MISSING
from lib.claims._verdict import Part as Part
from lib.claims._verdict import Verdict as Verdict
from lib.claims._verdict import verdict as verdict
from lib.store import Store


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a paper about one table, and how it is judged: ``judge(tier, store)``.

    ``says`` is a literal quotation, with … where words are left out; where there is none, ``asks`` is what we ask.
    ``also``: another table whose rows the evidence names.  ``headline``: whether README shows it before all others.
    """

    name: str
    says: str = ""
    asks: str = ""
    source: str
    table: str
    judge: Callable[[str, Store], Verdict]
    also: str = ""
    headline: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "judge", _of_a_verdict(self.name, self.judge))

    @property
    def words(self) -> str:
        return f"“{self.says}”" if self.says else self.asks


def _of_a_verdict(name: str, judge: Callable[[str, Store], Verdict]) -> Callable[[str, Store], Verdict]:
    @wraps(judge)
    def checked(tier: str, store: Store) -> Verdict:
        judged = judge(tier, store)
        if not isinstance(judged, Verdict):
            raise ValueError(f"{name}: expected judge(tier, store) that returns a Verdict; got {judged!r}")
        return judged

    return checked


def every() -> list[Claim]:
    """All claims, in the reading order of the notebooks that show their tables.

    Raises ``ValueError`` for a file that defines none.
    """
    found = [claim for name in registry.names("claims") for claim in _claims(name)]
    return sorted(found, key=lambda claim: tables.load(claim.table).notebook)


def _claims(name: str) -> Sequence[Claim]:
    found = getattr(registry.load("claims", name), "CLAIMS", None)
    sequence = isinstance(found, Sequence)
    wrong = [claim for claim in found if not isinstance(claim, Claim)] if sequence else found
    if wrong or not sequence:
        raise ValueError(f"lib/claims/{name}.py: expected CLAIMS, a sequence of Claim; got {wrong!r}")
    return found


def of(*table_names: str) -> list[Claim]:
    """The claims about the named tables."""
    return [claim for claim in every() if claim.table in table_names]
