"""v1's central claim at equal *proven* ε, and its repair; our own table."""

from functools import partial

from lib import tables
from lib.claims import Claim, Verdict, cells, told, verdict
from lib.store import Store
from lib.tables import Row
from lib.tables.mnist_spectrum import AMPLIFIED, BANDED, PLAIN, SI_DPSGD

TABLE = "mnist_spectrum"
HEIR = "p = 1/2"


def _at_least(one: Row, other: Row, tier: str, store: Store) -> Verdict:
    """Whether ``one`` is at least as accurate as ``other`` at every ε."""
    found, parts = cells(TABLE, tier, store), []
    for column in tables.load(TABLE).columns:
        first, second = found[one, column], found[other, column]
        ok = None if not (first["n"] and second["n"]) else first["mean"] >= second["mean"]
        parts.append((ok, f"ε = {column:g}: {one} {told(first)}, {other} {told(second)}"))
    return verdict(parts)


CLAIMS = (
    Claim(
        name="SI-DPSGD is more accurate than DPSGD at the same proven ε",
        says="our method consistently outperforms other mechanisms for all finite values of privacy loss",
        source="v1 section 5",
        table=TABLE,
        judge=partial(_at_least, SI_DPSGD, PLAIN),
    ),
    Claim(
        name="Noise that is taken away later helps, if it is counted",
        says="ours: the square root between DPSGD and SI-DPSGD is more accurate than either, without amplification",
        source="after v1 section 4",
        table=TABLE,
        judge=partial(_at_least, HEIR, PLAIN),
    ),
    Claim(
        name="It helps beside amplification by sampling, too",
        says="ours: the square root in four bands, amplified, is at least as accurate as amplified DPSGD",
        source="after 2306.08153",
        table=TABLE,
        judge=partial(_at_least, BANDED, AMPLIFIED),
    ),
)
