"""v1 and v2 on CIFAR-10: noisy weights (v2 Table 3, Figure 1), public batch norm (Table 6), SI-DPSGD (v1 Table 5)."""

from functools import partial
from itertools import product

from lib import tables
from lib.claims import Claim, Verdict, above, best_reached, cells, limited, no_worse, told, verdict
from lib.claims._gaps import smaller_gaps
from lib.claims.noise_robustness import NO_CONVERGENCE, factor_seven, same_accuracy, unharmed, untrained
from lib.store import Store
from lib.tables import cifar10_dpsgd_bn, cifar10_si_dpsgd

NOISE, FIGURE, PUBLIC, SI = "cifar10_noise", "cifar10_convergence", "cifar10_dpsgd_bn", "cifar10_si_dpsgd"
POOR = 5.0  # points below BN-VGG at ε = ∞ from which a network's public features are called poor
HARM = 2.0  # points below σ = 0 that are not yet "harming the performance"; the BN rows as printed lose up to 1.5
REACHED = (40.0, 60.0)  # validation accuracies (%) to which the epochs are counted
ONE_NORM_MORE = {"ResNet-18-mod": "ResNet-18", "VGG-16-mod": "VGG-16"}
ONE_AT_THE_END = {"ResNet-18": "BN-ResNet-18", "VGG-16": "BN-VGG-16"}
WITHOUT_BN = tuple(row for row in cifar10_dpsgd_bn.ROWS if row.startswith(("VGG without", "GN-VGG")))
UNSOUND = (cifar10_dpsgd_bn.BN, cifar10_dpsgd_bn.BN_VGG)
DPSGD_ROWS, SI_ROWS = (
    tuple(row for row, of_row in cifar10_si_dpsgd.ROWS.items() if of_row.length == length)
    for length in ("group", "deep")
)


def _norm_protects(pairs: dict[str, str], tier: str, store: Store) -> Verdict:
    """Whether at σ of 1 and more no network, a key, is more accurate than that with one norm layer more, its value;
    but where neither is printed to converge."""
    found, parts, printed = cells(NOISE, tier, store), [], tables.load(NOISE).printed
    every = product(pairs.items(), (1.0, 2.0))
    wanted = [(pair, sigma) for pair, sigma in every if any(printed[row, sigma].mean is not None for row in pair)]
    for (without, row), sigma in wanted:
        one, other = found[without, sigma], found[row, sigma]
        ok, why = above(other, one, of=len(wanted))
        parts.append((ok, f"σ = {sigma:g}: {without} {told(one)}, {row} {told(other)}{why}"))
    return verdict(parts)


def _not_random(tier: str, store: Store) -> Verdict:
    cell = cells(NOISE, tier, store)["ResNet-18", 1.0]
    ok = cell["mean"] >= NO_CONVERGENCE if cell["n"] else None
    return verdict([limited((ok, f"ResNet-18 at σ = 1: {told(cell)}"), tier)])


def _smaller_gap(tier: str, store: Store) -> Verdict:
    """Whether at each finite ε BN-VGG is less below ε = ∞ than the TF tutorial's network."""
    vgg = (cifar10_dpsgd_bn.BN_VGG, *(row for row in cifar10_dpsgd_bn.ROWS if "VGG" in row))
    return verdict(smaller_gaps(PUBLIC, vgg, cifar10_dpsgd_bn.PLAIN, cifar10_dpsgd_bn.COLUMNS[1:], tier, store))


def _needs_batch_norm(tier: str, store: Store) -> Verdict:
    """Whether the light VGG's private part stays untrained without batch norm.

    What it is trained on are public features, its own or those of batch norm.  A row that is far below batch norm's
    without any privacy, too, has poor ones: that it trains on them is no evidence against v2, whose private training is
    of a network like BN-VGG.
    """
    found, parts = cells(PUBLIC, tier, store), []
    free, batch_norm = {row: found[row, None] for row in WITHOUT_BN}, found[cifar10_dpsgd_bn.BN_VGG, None]
    for row in WITHOUT_BN:
        for ok, text in untrained(PUBLIC, (row,), cifar10_dpsgd_bn.COLUMNS[1:], tier, store):
            if ok is False and above(batch_norm, free[row], POOR)[0] is not False:
                ok, text = None, f"{text} (without privacy {told(free[row])}, BN-VGG {told(batch_norm)}: poor features)"
            parts.append((ok, text))
    return verdict(parts)


def _only_with_si(tier: str, store: Store) -> Verdict:
    """Whether deep networks do not train with DPSGD, and do with SI-DPSGD.

    Of the two methods each is asked by itself: ResNet-18, which v1 names and which was not run with DPSGD, counts, too.
    Below the papers' scale DPSGD decides nothing: a narrow network that trains is not as deep, and one that does not
    has had few epochs.
    """
    finite = cifar10_si_dpsgd.COLUMNS[1:]
    dpsgd = [(ok and tier == "paper", text) for ok, text in untrained(SI, DPSGD_ROWS, finite, tier, store)]
    trained = [(None if ok is None else not ok, text) for ok, text in untrained(SI, SI_ROWS, finite, tier, store)]
    return verdict([limited(part, tier) for part in dpsgd + trained])


CLAIMS = (
    Claim(
        name="CIFAR-10: BN networks tolerate weight noise",
        says="a large amount of random noise can be added to the weights of neural networks without harming the "
        "performance, once the networks are augmented with normalization layers",
        source="v1 abstract, v2 Table 3",
        table=NOISE,
        judge=partial(unharmed, NOISE, ("BN-ResNet-18", "BN-VGG-16"), HARM),
        headline=True,
    ),
    Claim(
        name="CIFAR-10: one norm layer less, more vulnerable",
        says="these models are more vulnerable to the added noise",
        source="v2 section 2, Table 3",
        table=NOISE,
        judge=partial(_norm_protects, ONE_NORM_MORE),
    ),
    Claim(
        name="CIFAR-10: a norm after the last layer protects",
        asks="whether with batch norm after its last trainable layer, too, a network is more accurate at σ = 1 and 2",
        source="v2 Table 3",
        table=NOISE,
        judge=partial(_norm_protects, ONE_AT_THE_END),
    ),
    Claim(
        name="CIFAR-10: ResNet-18's own norm layers protect it",
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
        judge=partial(factor_seven, FIGURE, reached=REACHED),
    ),
    Claim(
        name="CIFAR-10: batch norm helps DPSGD most, all trained as briefly",
        says="using batch normalization results in better accuracies than layer normalization as well as raw "
        "TensorFlow tutorial model",
        source="v2 section 4, Table 6",
        table=PUBLIC,
        judge=partial(
            no_worse,
            PUBLIC,
            [(cifar10_dpsgd_bn.BN, other) for other in ("LN-TF-tutorial, as short", "TF-tutorial, as short")],
            beside=[(cifar10_dpsgd_bn.BN, "DPSGD (LN-TF-tutorial)")],  # trained longer
        ),
    ),
    Claim(
        name="CIFAR-10: batch norm helps DPSGD most on the same features",
        asks="whether it is batch norm that helps in private training, and not the public network that had it",
        source="after v2 Table 6",
        table=PUBLIC,
        judge=partial(no_worse, PUBLIC, cifar10_dpsgd_bn.SAME_FEATURES, same_features=True),
    ),
    Claim(
        name="CIFAR-10: so does batch norm that is private",
        asks="whether batch norm over each example and the public images helps more than layer norm",
        source="v2 Table 6, made private",
        table=PUBLIC,
        judge=partial(no_worse, PUBLIC, [("BN-TF-tutorial, each example with public", "LN-TF-tutorial, as short")]),
    ),
    Claim(
        name="CIFAR-10: the light VGG loses less",
        says="it leads to a much lower gap for finite privacy budgets",
        source="v2 section 4, Table 6",
        table=PUBLIC,
        judge=_smaller_gap,
    ),
    Claim(
        name="CIFAR-10: the light VGG needs batch norm in the layers that train privately",
        asks="whether the light VGG's linear layers stay untrained in private without batch norm, on convolutions that "
        "had it in public, too; of the network v2 says that without batch norm it “is not feasible to train”",
        source="after v2 section 4, Table 6",
        table=PUBLIC,
        judge=_needs_batch_norm,
    ),
    Claim(
        name="CIFAR-10: the BN-VGG row, with a guarantee",
        asks="whether the best row that has a guarantee reaches what is printed of BN-VGG, which has none",
        source="v2 Table 6",
        table=PUBLIC,
        judge=partial(
            best_reached,
            PUBLIC,
            [row for row in cifar10_dpsgd_bn.ROWS if row not in UNSOUND],
            cifar10_dpsgd_bn.BN_VGG,
        ),
    ),
    Claim(
        name="CIFAR-10: SI-DPSGD is more accurate than DPSGD at the same claimed ε",
        says="SI-DPSGD results in better accuracies than DPSGD on TensorFlow tutorial model",
        source="v1 section 5, Table 5",
        table=SI,
        judge=partial(
            no_worse,
            SI,
            [("SI-DPSGD (TF-tutorial)", cifar10_si_dpsgd.PLAIN)],
            columns=cifar10_dpsgd_bn.COLUMNS,  # where DPSGD is printed
            alike=False,  # one from scratch, one on features: few epochs, also of the pretraining, hurt both
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
