"""v1 section 3: its remark on noisy updates; normalisation helps them, too, and noisy weights are better."""

from itertools import product

from lib import tables
from lib.claims import MISSING, Claim, Verdict, cells, head, loses_less, smaller_loss, verdict
from lib.store import Store

UPDATES, WEIGHTS = "mnist_noisy_updates", "mnist_noise"
PLAIN, *NORMALISED = tables.load(UPDATES).rows
LONGER_FROM = 0.3  # the smallest σ at which noisy weights have more epochs


def _noisy_updates(tier: str, store: Store) -> Verdict:
    """Whether noise costs a network with a norm less than the plain one."""
    found, pairs = cells(UPDATES, tier, store), list(product(tables.load(UPDATES).columns[1:], NORMALISED))
    return verdict([loses_less(UPDATES, found, row, PLAIN, (0.0, column), of=len(pairs)) for column, row in pairs])


def _weights_are_better(tier: str, store: Store) -> Verdict:
    """Whether as much noise on the weights costs a network with a norm fewer points; beside it the plain one, and σ at
    which noisy weights have more epochs."""
    weights, updates, judged, beside = cells(WEIGHTS, tier, store), cells(UPDATES, tier, store), [], []
    both = [c for c in tables.load(UPDATES).columns[1:] if c in tables.load(WEIGHTS).columns]
    for column, row in product(both, (*NORMALISED, PLAIN)):
        four = [of[row, c] for of in (weights, updates) for c in (0.0, column)]
        decides = row != PLAIN and column < LONGER_FROM
        of, at = judged if decides else beside, f"{head(UPDATES, column)}: {row}"
        if not all(cell["n"] for cell in four):
            of.append((None, f"{at} {MISSING}"))
            continue
        ok, why = smaller_loss(*four, of=len(both) * len(NORMALISED))
        lost, instead = (clean["mean"] - noisy["mean"] for clean, noisy in (four[:2], four[2:]))
        seeds = min(cell["n"] for cell in four)
        of.append(
            (ok, f"{at} loses {lost:.2f} points by noise on its weights and {instead:.2f} on updates ({seeds}){why}")
        )
    return verdict(judged, beside=beside)


CLAIMS = (
    Claim(
        name="Normalisation also helps when the updates are noisy",
        says="normalization layers also improve the robustness of this training method against large noise injection",
        source="v1 section 3",
        table=UPDATES,
        judge=_noisy_updates,
    ),
    Claim(
        name="Noisy updates are worse than noisy weights",
        says="since this way of adding noise is equivalent to perturbing the gradients of the network, it results in "
        "inferior performance compared to sampling weights from learnable distributions",
        source="v1 section 3, of the same σ",
        table=UPDATES,
        judge=_weights_are_better,
        also=WEIGHTS,
    ),
)
