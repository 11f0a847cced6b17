"""v1's central claim at equal *proven* ε, and its repair; our own table."""

from functools import partial

from lib.claims import Claim, no_worse
from lib.tables.mnist_spectrum import AMPLIFIED, BANDED, LN_PLAIN, LN_SI_DPSGD, PLAIN, SI_DPSGD

TABLE = "mnist_spectrum"
HEIR = "p = 1/2"


CLAIMS = (
    Claim(
        name="SI-DPSGD is more accurate than DPSGD at the same proven ε",
        asks="whether v1's method, which “consistently outperforms other mechanisms” at the same claimed ε, does so at "
        "the same proven one, without amplification, with layer norm and without",
        source="after v1 section 5",
        table=TABLE,
        judge=partial(no_worse, TABLE, [(LN_SI_DPSGD, LN_PLAIN), (SI_DPSGD, PLAIN)]),
        headline=True,
    ),
    Claim(
        name="Noise that is taken away later helps, if it is counted",
        asks="whether the square root between DPSGD and SI-DPSGD is more accurate than either, without amplification",
        source="after v1 section 4",
        table=TABLE,
        judge=partial(no_worse, TABLE, [(HEIR, PLAIN), (HEIR, SI_DPSGD)]),
    ),
    Claim(
        name="It helps beside amplification by sampling, too",
        asks="whether the square root in four bands, amplified, is at least as accurate as amplified DPSGD",
        source="after 2306.08153",
        table=TABLE,
        judge=partial(no_worse, TABLE, [(BANDED, AMPLIFIED)]),
    ),
)
