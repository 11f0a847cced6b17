"""v1: SI-DPSGD against DPSGD on CIFAR-10; Table 5 and the abstract."""

from functools import partial

from lib import tables
from lib.claims import Claim, printed_reached
from lib.claims._same_claim import at_the_same_claim
from lib.claims.si_dpsgd import BUDGETS, REACHED, points_ahead, printed_cells

IMAGES = "cifar10_si_dpsgd"
OWN = tuple(row for row in tables.load(IMAGES).rows if row.startswith("SI-DPSGD"))


CLAIMS = (
    Claim(
        name="CIFAR-10: SI-DPSGD is more accurate than DPSGD, both from scratch",
        asks="whether, at the same claimed ε, it is when DPSGD trains the same layers, and not pretrained ones",
        source="after v1 Table 5",
        table=IMAGES,
        judge=partial(
            at_the_same_claim,
            IMAGES,
            [("SI-DPSGD (TF-tutorial)", "DPSGD (TF-tutorial), from scratch")],
            alike=False,  # 20 of 40 epochs, and 10
        ),
    ),
    Claim(
        name="CIFAR-10: the SI-DPSGD rows",
        asks=REACHED,
        source="v1 Table 5",
        table=IMAGES,
        judge=partial(printed_reached, IMAGES, printed_cells(IMAGES, "SI-DPSGD")),
    ),
    Claim(
        name="20 % more accurate than DPSGD on CIFAR-10",
        says=BUDGETS,
        source="v1 abstract",
        table=IMAGES,
        judge=partial(points_ahead, IMAGES, OWN, 2.0),
    ),
)
