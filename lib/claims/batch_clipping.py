"""bc: batch against individual clipping, adaptive layerwise against full-gradient clipping; its Gaussian DP."""

from collections.abc import Sequence
from itertools import product

from lib import accounting, report, tables
from lib import store as stored
from lib.claims import Claim, Part, Verdict, above, cells, clear, head, limited, told, verdict
from lib.store import Store
from lib.tables import Column, Row

CLEAR = 5.0  # points by which "converges" is above "does not"
TOO_EARLY = 20.0  # accuracy, twice chance, below which the runs were too short to tell
ABOUT = 2.5  # points from 5 that still round to bc's "≈ 5 %"
FALLING = 0.9  # the column of bc_ic_vs_bc that is bc's main setting: a falling step size
MNIST = {"sampling_prob": 64 / 54_000, "steps": 42_188}  # bc B.1: m = 64, 50 epochs
DELTAS = (1e-3, 1e-5, 1e-7, 1e-9)
SAME = 0.005  # relative differences that do not count: of two digits, and of rounding
GRID = 0.001  # by which PLD is above a pair's ε at most: on a grid five times finer it has 2e-4 less
BC = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
Pairs = Sequence[tuple[Row, Row]]
BC_EITHER_C, IC_EITHER_C = ((f"resnet-18, {kind}", f"resnet-18, {kind}, C = .095") for kind in ("BC", "IC"))
WITHOUT_BN = [(f"{network} without BN, BC", f"{network} without BN, IC") for network in ("convnet", "resnet-18")]


def _above(
    name: str,
    pairs: Pairs,
    column: Column,
    tier: str,
    store: Store,
    *,
    margin: float = 0.0,
    beside: Pairs = (),
) -> Verdict:
    """Whether in every pair the first row is at least ``margin`` points above the second.

    Open for a pair of which neither is above :data:`TOO_EARLY`, and where a ``margin`` is not reached in the first few
    of bc's epochs.
    ``beside``: pairs that bc does not speak of.
    """
    judged = pairs_told(name, pairs, column, tier, store, margin, of=len(pairs))
    if margin:
        judged = [limited(part, tier) for part in judged]
    return verdict(judged, beside=pairs_told(name, beside, column, tier, store, margin))


def pairs_told(
    name: str, pairs: Pairs, column: Column, tier: str, store: Store, margin: float = 0.0, *, of: int = 1
) -> list[Part]:
    """For each pair: whether the first row is ``margin`` points above the second, and the evidence."""
    found, parts = cells(name, tier, store), []
    for better, worse in pairs:
        one, other = found[better, column], found[worse, column]
        ok, why = above(one, other, margin, of=of)
        if ok is not None and max(one["mean"], other["mean"]) <= TOO_EARLY:
            ok, why = None, " (too early to tell)"
        where = f" at {head(name, column)}" if tables.load(name).column == "epsilon" else ""
        after = f" after {one['epochs']:g} epochs" if one["n"] else ""
        parts.append((ok, f"{better}{where} {told(one)}{after}, {worse} {told(other)}{why}"))
    return parts


def _best_above(
    ones: Sequence[Row], others: Sequence[Row], tier: str, store: Store, *, margin: float = 0.0, beside: Pairs = ()
) -> Verdict:
    """Whether the best of ``ones`` is at least ``margin`` points above the best of ``others``, so that each has the
    better of bc's two C; all other pairs are told beside.

    The better of two is ahead of a third by chance more often than one is: that it is must be clear at 5 % ÷ 2.
    """
    name = "bc_ic_vs_bc"
    found = cells(name, tier, store)
    if unknown := [row for row in (*ones, *others) if not found[row, FALLING]["n"]]:
        return verdict([(None, f"{row} {told(found[row, FALLING])}") for row in unknown])
    best, other = pair = tuple(max(rows, key=lambda row: found[row, FALLING]["mean"]) for rows in (ones, others))
    beside = [*(p for p in product(ones, others) if p != pair), *beside]
    one, next_to = found[best, FALLING], found[other, FALLING]
    if not clear(one["mean"] - next_to["mean"] - margin, one, next_to, of=len(ones)):
        rest = pairs_told(name, [pair, *beside], FALLING, tier, store, margin)
        return verdict([(None, f"{best}, the better of two, not told from {other} at 5 % ÷ {len(ones)}")], beside=rest)
    return _above(name, [pair], FALLING, tier, store, margin=margin, beside=beside)


def _about_five(tier: str, store: Store) -> Verdict:
    """Whether convnet gains about 5 points by batch norm, which is the network that bc says it of."""
    found = cells("bc_batch_norm", tier, store)
    one, other = found["convnet", 64], found["convnet without BN", 64]
    ok, why = None, ""
    if one["n"] and other["n"]:
        off = abs(one["mean"] - other["mean"] - 5.0)
        apart = clear(off - ABOUT, one, other)
        ok, why = limited((off <= ABOUT, ""), tier) if apart else (None, f" (not told apart from 5 ± {ABOUT:g} points)")
    after = f" after {one['epochs']:g} epochs" if one["n"] else ""
    beside = pairs_told("bc_batch_norm", [("BN-LeNet-5", "LeNet-5 without BN")], 64, tier, store)
    text = f"convnet {told(one)}{after}, convnet without BN {told(other)}{why}"
    return verdict([(ok, text)], beside=beside)


def _guarantee(sigma: float) -> Verdict:
    """Whether the limit that bc quotes, G_µ for 8 layers, "asymptotically" (bc B.1), is an upper bound at usual δ.

    It is where PLD's upper bound is no larger, or by less than :data:`SAME`, a fraction of what the two digits of
    bc's µ leave open.  It is not where a single pair of data sets has more: one example turns each mean around
    that it is in, which is as far apart as an example of Poisson batches with half the noise.  Beside it 16 layers, and
    the tail: as a guarantee, one at every δ at once, G_µ is exceeded there (:func:`lib.accounting.gdp_exceeded`).
    """
    told_of = {8: "8 modules as layers", 16: "their 16 tensors as layers, as bc counts ResNet-18's 62"}
    judged, beside = [], []
    for layers, counted in told_of.items():
        z = 2 * sigma / layers**0.5
        for delta in DELTAS:
            how = {**MNIST, "delta": delta}
            limit, most = (accounting.epsilon(noise_multiplier=z, **BC, **how, accountant=by) for by in ("clt", "pld"))
            least = (1 - GRID) * accounting.epsilon(noise_multiplier=z / 2, **how)
            ok = True if most <= limit * (1 + SAME) else False if least > limit * (1 + SAME) else None
            ends = f"at least {report.at_least(least)} and at most {report.at_most(most)}"
            text = f"ε = {limit:.3g} in the limit, {ends} by PLD"
            text += f" (a bound to within {100 * SAME:g} %)" if ok and most > limit else ""
            (judged if layers == 8 else beside).append((ok, f"{counted}, δ = {delta:g}: {text}"))
        mu = accounting.limit_mu(accounting.Event(z, **MNIST, **BC))
        if found := accounting.gdp_exceeded(mu=mu, noise_multiplier=z / 2, **MNIST):
            text = "{}, in the tail: at ε = {:g} δ is {:.1e} of one pair of data sets at least, and {:.1e} of G_{:.2f}"
            beside.append((False, text.format(counted, *found, mu)))
    return verdict(judged, beside=beside)


def _factor_two(tier: str, store: Store) -> Verdict:
    """Whether an example that is left out moves what batch clipping clips by C at most, as it does of single ones."""
    found = stored.audit("batch_clipping")["BC without BN"]
    text = f"one of two examples left out moves the clipped mean by {found['multiple']:.2f} C ({found['how']})"
    return verdict([(found["multiple"] <= 1 + SAME, f"{text}, where C is allowed without the factor")])


def _layerwise(tier: str, store: Store) -> Verdict:
    """bc A.4 speaks of resnet-18; the smaller networks are told beside it."""
    name = "bc_alc_vs_fgc"
    networks = [row.removesuffix(", ALC") for row in tables.load(name).rows if row.endswith(", ALC")]
    pairs = [(f"{network}, ALC", f"{network}, FGC, same {what}") for network in networks for what in "σε"]
    of_bc = [pair for pair in pairs if pair[0].startswith("resnet-18")]
    return _above(name, of_bc, 64, tier, store, beside=[pair for pair in pairs if pair not in of_bc])


CLAIMS = (
    Claim(
        name="Batch clipping is ahead of individual clipping",
        asks="whether it is at least 5 points more accurate after as many epochs, each with the better of bc's two C, "
        "where bc says that “BC converges while IC does not”",
        source="after bc 4.3; under IC batch norm is instance norm",
        table="bc_ic_vs_bc",
        judge=lambda tier, store: _best_above(BC_EITHER_C, IC_EITHER_C, tier, store, margin=CLEAR),
        headline=True,
    ),
    Claim(
        name="Without batch norm, too, batch clipping outperforms individual clipping",
        says="batch clipping outperforms individual clipping for convnet without BNLs",
        source="bc A.3; of resnet-18 its figures 16 and 17",
        table="bc_ic_vs_bc",
        judge=lambda tier, store: _above("bc_ic_vs_bc", WITHOUT_BN, FALLING, tier, store),
    ),
    Claim(
        name="The enhanced clip norms beat Zhang's",
        says="By tuning the initial/fixed master clipping constant C, DPSGD with BC and our enhanced ALC offers a "
        "better performance compared to DPSGD with BC and the ALC method of [22]",
        source="bc 4.4",
        table="bc_ic_vs_bc",
        judge=lambda tier, store: _best_above(
            BC_EITHER_C, ["resnet-18, BC, Zhang's"], tier, store, beside=[("convnet, BC", "convnet, BC, Zhang's")]
        ),
    ),
    Claim(
        name="ResNet-18: layerwise beats full-gradient clipping, even at discounted noise",
        says="we also run the same experiment for FGC with discounted noise multiplier σ̄ = σ/√L … ALC outperforms FGC",
        source="bc A.4",
        table="bc_alc_vs_fgc",
        judge=_layerwise,
    ),
    Claim(
        name="Batch norm gives about 5 points under batch clipping",
        says="we achieve ≈ 5% higher test accuracy",
        source="bc A.3",
        table="bc_batch_norm",
        judge=_about_five,
    ),
    Claim(
        name="Poisson sampling takes the factor 2 away",
        asks="whether it does of batch clipping, too, what bc says of individual clipping, that a Poisson process "
        "“removes the factor 2 and leads to better DP”",
        source="after bc section 1",
        table="bc_equal_epsilon",
        judge=_factor_two,
    ),
    Claim(
        name="Gaussian DP with µ = 0.52 at σ = 2.5, at usual δ",
        asks="whether the “G0.52-DP guarantee” holds at δ of 1e-3 to 1e-9; at every δ it does not, see beside",
        source="bc B.1",
        table="bc_noise",
        judge=lambda tier, store: _guarantee(2.5),
    ),
    Claim(
        name="Gaussian DP with about µ = 1.99 at σ = 1.5, at usual δ",
        asks="whether “≈ G1.99-DP” holds at δ of 1e-3 to 1e-9, as closely as its digits tell",
        source="bc B.1",
        table="bc_noise",
        judge=lambda tier, store: _guarantee(1.5),
    ),
)
