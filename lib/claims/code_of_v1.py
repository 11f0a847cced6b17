"""v1's own settings, which its code has for one column of Table 4: by themselves, and with all that the code adds."""

from functools import partial

from lib.claims import Claim, printed_reached
from lib.tables import mnist_paper_and_code as of_table

CLAIMS = tuple(
    Claim(
        name=f"v1's own settings reach what it prints, trained as {whose}",
        asks=f"whether LeNet-5 at the noise, clip norm, step and batch size of v1's code, trained as {whose}{how}, is "
        "as accurate as v1 prints at ε = 0.05, which v1's accountant makes of these settings in ten epochs",
        source="v1 Table 4 and its code",
        table=of_table.TABLE.name,
        judge=partial(printed_reached, of_table.TABLE.name, [(row, 0.1)]),
    )
    for row, whose, how in (
        (of_table.PAPER, "v1 says", ""),
        (of_table.CODE, "its code does", ", with momentum, a falling step size and tested at the mean without noise"),
    )
)
