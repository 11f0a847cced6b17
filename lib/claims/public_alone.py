"""Whether bc's private training is more accurate than training on its public images alone, which costs no privacy."""

from lib import tables
from lib.claims import Claim, Part, Verdict, above, both, cells, clear, head, limited, told, verdict
from lib.store import Store
from lib.tables import Row, bc_clip_norm, bc_public_alone
from lib.tables.bc_public_alone import ALONE

EQUAL = "bc_equal_epsilon"
M = bc_public_alone.TABLE.columns[0]
RIVALS = {"BC, batches of 64": "BN-LeNet-5", "BC without BN, batches of 64": "LeNet-5 without BN"}
BESIDE = {"IC without BN": "LeNet-5 without BN"}


def _at_equal_epsilon(tier: str, store: Store) -> Verdict:
    """Whether BC at either ε is more accurate than the same network on D_pub alone, with as many epochs of a tenth of
    the images; IC is told beside."""
    private, alone = cells(EQUAL, tier, store), cells(bc_public_alone.TABLE.name, tier, store)
    columns = tables.load(EQUAL).columns

    def compared(rivals: dict[Row, str]) -> list[Part]:
        parts = []
        for (row, network), column in ((rival, c) for rival in rivals.items() for c in columns):
            one, other = private[row, column], alone[ALONE.format(network), M]
            ok, why = above(one, other, of=len(rivals) * len(columns))
            parts.append((ok, both(head(EQUAL, column), row, one, ALONE.format(network), other) + why))
        return parts

    return verdict(compared(RIVALS), beside=compared(BESIDE))


def _printed(tier: str, store: Store) -> Verdict:
    """Whether what bc prints of the best C is more than our D_pub alone reaches, which with more epochs may be more."""
    table, alone, parts = bc_clip_norm.TABLE, cells(bc_public_alone.TABLE.name, tier, store), []
    for (row, column), number in table.printed.items():
        network = ALONE.format(bc_clip_norm.ROWS[row][0])
        cell = alone[network, M]
        apart = cell["n"] and clear(number.mean - cell["mean"], cell, of=len(table.printed))
        text = f"{row} at {head(table.name, column)}: printed {number.text}, {network} {told(cell)}"
        text += " (not told apart)" if cell["n"] and not apart else ""
        reached, text = limited((cell["mean"] >= number.mean if apart else None, text), tier)
        parts.append((None if reached is None else not reached, text))
    return verdict(parts)


CLAIMS = (
    Claim(
        name="MNIST at equal ε: batch clipping against D_pub alone",
        asks="whether BC is more accurate than ordinary training of the same network on the tenth of the training set "
        "alone that bc declares public, and takes batch norm's test statistics from, which tells nothing of the others",
        source="after bc 3.3",
        table=EQUAL,
        also=bc_public_alone.TABLE.name,
        judge=_at_equal_epsilon,
        headline=True,
    ),
    Claim(
        name="bc's accuracies are above those of D_pub alone",
        asks="whether what bc prints of batch clipping with the best C is above what ordinary training of the same "
        "network on D_pub alone reaches, at ε = 0",
        source="after bc A.1 and A.2",
        table=bc_public_alone.TABLE.name,
        also=bc_clip_norm.TABLE.name,
        judge=_printed,
    ),
)
