"""v1 and v2 on CIFAR-10: noisy weights (v2 Table 3, Figure 1), public batch norm (Table 6), SI-DPSGD (v1 Table 5)."""

from functools import partial
from itertools import product

from lib.claims import MISSING, Claim, Verdict, cells, no_worse, told, verdict
from lib.claims.noise_robustness import NO_CONVERGENCE, factor_seven, same_accuracy
from lib.store import Store
from lib.tables import Row, cifar10_dpsgd_bn, cifar10_noise, cifar10_si_dpsgd

NOISE, FIGURE, PUBLIC, SI = "cifar10_noise", "cifar10_convergence", "cifar10_dpsgd_bn", "cifar10_si_dpsgd"
HARM = 2.0  # points below σ = 0 that do not yet "harm the performance"; the BN rows as printed lose up to 1.5
REACHED = (40.0, 60.0)  # validation accuracies (%) to which the epochs are counted
MODS = {"ResNet-18-mod": "ResNet-18", "VGG-16-mod": "VGG-16"}
WITHOUT_BN = ("VGG without normalisation", "GN-VGG")
UNSOUND = (cifar10_dpsgd_bn.BN, cifar10_dpsgd_bn.BN_VGG)
DEEP = {
    "DPSGD (GN-VGG-16), from scratch": "SI-DPSGD (VGG-16)",
    "DPSGD (GN-Fast-CIFAR-ResNet), from scratch": "SI-DPSGD (Fast-CIFAR-ResNet)",
}


def _unharmed(rows: tuple[Row, ...], tier: str, store: Store) -> Verdict:
    """Whether noise of every σ costs each row at most ``HARM`` points."""
    found, parts = cells(NOISE, tier, store), []
    for row, sigma in product(rows, cifar10_noise.COLUMNS[1:]):
        clean, noisy = found[row, 0.0], found[row, sigma]
        ok = clean["mean"] - noisy["mean"] <= HARM if clean["n"] and noisy["n"] else None
        parts.append((ok, f"{row} at σ = {sigma:g}: {told(noisy)}, without noise {told(clean)}"))
    return verdict(parts)


def _mods_are_worse(tier: str, store: Store) -> Verdict:
    """Whether at σ of 1 and more no network without its last norm layer is more accurate than with it."""
    found, parts = cells(NOISE, tier, store), []
    for (mod, row), sigma in product(MODS.items(), (1.0, 2.0)):
        one, other = found[mod, sigma], found[row, sigma]
        ok = one["mean"] <= other["mean"] if one["n"] and other["n"] else None
        parts.append((ok, f"σ = {sigma:g}: {mod} {told(one)}, {row} {told(other)}"))
    return verdict(parts)


def _not_random(tier: str, store: Store) -> Verdict:
    cell = cells(NOISE, tier, store)["ResNet-18", 1.0]
    return verdict([(cell["mean"] >= NO_CONVERGENCE if cell["n"] else None, f"ResNet-18 at σ = 1: {told(cell)}")])


def _smaller_gap(tier: str, store: Store) -> Verdict:
    """Whether at each finite ε BN-VGG is less below its own accuracy at ε = ∞ than the TF tutorial's network."""
    found, parts = cells(PUBLIC, tier, store), []
    for column in cifar10_dpsgd_bn.COLUMNS[1:]:
        gaps = {}
        for row in (cifar10_dpsgd_bn.BN_VGG, cifar10_dpsgd_bn.PLAIN):
            free, private = found[row, None], found[row, column]
            gaps[row] = free["mean"] - private["mean"] if free["n"] and private["n"] else None
        vgg, plain = gaps.values()
        ok = None if vgg is None or plain is None else vgg < plain
        words = ", ".join(f"{row} {MISSING if gap is None else format(gap, '.2f')}" for row, gap in gaps.items())
        parts.append((ok, f"ε = {column:g}: {words} points below ε = ∞"))
    return verdict(parts)


def _untrained(table: str, rows: tuple[Row, ...], tier: str, store: Store) -> list[tuple[bool | None, str]]:
    """For every finite ε whether each of ``rows`` stays at what counts as no convergence."""
    of_rows = {cell: found for cell, found in cells(table, tier, store).items() if cell[0] in rows and cell[1]}
    return [
        (found["mean"] < NO_CONVERGENCE if found["n"] else None, f"ε = {column:g}: {row} {told(found)}")
        for (row, column), found in of_rows.items()
    ]


def _only_with_si(tier: str, store: Store) -> Verdict:
    """Whether deep networks do not train with DPSGD, and do with SI-DPSGD."""
    trained = [(None if ok is None else not ok, text) for ok, text in _untrained(SI, tuple(DEEP.values()), tier, store)]
    return verdict(_untrained(SI, tuple(DEEP), tier, store) + trained)


def _printed_reached(tier: str, store: Store) -> Verdict:
    """Whether in every column some row with a guarantee is at least as accurate as v2's BN-VGG."""
    found, parts = cells(PUBLIC, tier, store), []
    table = cifar10_dpsgd_bn.TABLE
    for column in table.columns[1:]:
        rows = [row for row in table.rows if row not in UNSOUND and found[row, column]["n"]]
        best = max(rows, key=lambda row: found[row, column]["mean"], default=None)
        printed = table.printed[cifar10_dpsgd_bn.BN_VGG, column]
        ok = None if best is None else found[best, column]["mean"] >= printed.mean
        ours = MISSING if best is None else f"{best} {told(found[best, column])}"
        parts.append((ok, f"ε = {column:g}: {ours}, printed {printed.text}"))
    return verdict(parts)


CLAIMS = (
    Claim(
        name="CIFAR-10: BN networks tolerate weight noise",
        says="a large amount of random noise can be added to the weights of neural networks without harming the "
        "performance, once the networks are augmented with normalization layers",
        source="v1 abstract, v2 Table 3",
        table=NOISE,
        judge=partial(_unharmed, ("BN-ResNet-18", "BN-VGG-16")),
    ),
    Claim(
        name="CIFAR-10: one norm layer less, more vulnerable",
        says="these models are more vulnerable to the added noise",
        source="v2 section 2, Table 3",
        table=NOISE,
        judge=_mods_are_worse,
    ),
    Claim(
        name="CIFAR-10: the norm layers there are protect",
        says="the accuracy of ResNet-18 with a noise level of 1 reduces only to 87% instead of to random prediction",
        source="v2 section 2, Table 3",
        table=NOISE,
        judge=_not_random,
    ),
    Claim(
        name="CIFAR-10: the same accuracy in the end",
        says="models with different values of noise converge to the same accuracy, albeit with different rates",
        source="v2 section 2, Figure 1",
        table=FIGURE,
        judge=partial(same_accuracy, FIGURE),
    ),
    Claim(
        name="CIFAR-10: slower by a factor of order 7",
        says="increasing the noise level from 1 to 10 slows down training by a factor of order 7 for LeNet and ResNet "
        "models",
        source="v2 section 2, Figure 1",
        table=FIGURE,
        judge=partial(factor_seven, FIGURE, reached=REACHED, too_short=None),
    ),
    Claim(
        name="CIFAR-10: batch norm helps DPSGD most",
        says="using batch normalization results in better accuracies than layer normalization as well as raw "
        "TensorFlow tutorial model",
        source="v2 section 4, Table 6",
        table=PUBLIC,
        judge=partial(
            no_worse, PUBLIC, dict.fromkeys(("LN-TF-tutorial, as short", "TF-tutorial, as short"), cifar10_dpsgd_bn.BN)
        ),
    ),
    Claim(
        name="CIFAR-10: the light VGG loses less",
        says="it leads to a much lower gap for finite privacy budgets",
        source="v2 section 4, Table 6",
        table=PUBLIC,
        judge=_smaller_gap,
    ),
    Claim(
        name="CIFAR-10: very deep networks need batch norm to train privately",
        says="it is not feasible to train such models without making use of the batch normalization as the training is "
        "extremely unstable",
        source="v2 section 4, Table 6",
        table=PUBLIC,
        judge=lambda tier, store: verdict(_untrained(PUBLIC, WITHOUT_BN, tier, store)),
    ),
    Claim(
        name="CIFAR-10: the BN-VGG row, with a guarantee",
        says="the printed accuracies of BN-VGG, which has none; the best row that has one, at or above every one",
        source="v2 Table 6",
        table=PUBLIC,
        judge=_printed_reached,
    ),
    Claim(
        name="CIFAR-10: SI-DPSGD is more accurate than DPSGD at the same claimed ε",
        says="SI-DPSGD results in better accuracies than DPSGD on TensorFlow tutorial model",
        source="v1 section 5, Table 5",
        table=SI,
        judge=partial(
            no_worse,
            SI,
            {cifar10_si_dpsgd.PLAIN: "SI-DPSGD (TF-tutorial)"},
            columns=cifar10_dpsgd_bn.COLUMNS,  # where DPSGD is printed
        ),
    ),
    Claim(
        name="CIFAR-10: very deep networks train with SI-DPSGD alone",
        says="while prohibitive under DPSGD, training very deep networks is feasible with SI-DPSGD",
        source="v1 section 5, Table 5",
        table=SI,
        judge=_only_with_si,
    ),
)
