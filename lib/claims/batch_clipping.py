"""bc: batch against individual clipping, adaptive layerwise against full-gradient clipping; and both at equal ε."""

from collections.abc import Sequence
from math import hypot

from lib import accounting, tables
from lib.claims import Claim, Part, Verdict, above, cells, head, limited, spread, told, verdict
from lib.store import Store
from lib.tables import Column, Row

CLEAR = 5.0  # points by which "converges" is above "does not"
TOO_EARLY = 20.0  # accuracy, twice chance, below which the runs were too short to tell
ABOUT = 2.5  # points from 5 that still round to bc's "≈ 5 %"
FALLING = 0.9  # the column of bc_ic_vs_bc that is bc's main setting: a falling step size
MNIST = {"sampling_prob": 64 / 54_000, "steps": 42_188, "delta": 1e-5}  # bc B.1: m = 64, 50 epochs
BC = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
Pairs = Sequence[tuple[Row, Row]]
IC_PAIRS = (
    ("resnet-18, BC", "resnet-18, IC"),
    ("resnet-18 without BN, BC", "resnet-18 without BN, IC"),
    ("convnet without BN, BC", "convnet without BN, IC"),
)


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

    Open for a pair of which neither is above :data:`TOO_EARLY`.  ``beside``: pairs that bc does not speak of.
    """
    judged = _told(name, pairs, column, tier, store, margin)
    return verdict(judged, beside=_told(name, beside, column, tier, store, margin))


def _told(name: str, pairs: Pairs, column: Column, tier: str, store: Store, margin: float) -> list[Part]:
    found, parts = cells(name, tier, store), []
    for better, worse in pairs:
        one, other = found[better, column], found[worse, column]
        ok, why = above(one, other, margin)
        if ok is not None and max(one["mean"], other["mean"]) <= TOO_EARLY:
            ok, why = None, " (too early to tell)"
        where = f" at {head(name, column)}" if tables.load(name).column == "epsilon" else ""
        after = f" after {one['epochs']:g} epochs" if one["n"] else ""
        parts.append((ok, f"{better}{where} {told(one)}{after}, {worse} {told(other)}{why}"))
    return parts


def _about_five(tier: str, store: Store) -> Verdict:
    """Whether convnet gains about 5 points by batch norm, which is the network that bc says it of."""
    found = cells("bc_batch_norm", tier, store)
    one, other = found["convnet", 64], found["convnet without BN", 64]
    ok, why = None, ""
    if one["n"] and other["n"]:
        off, error = abs(one["mean"] - other["mean"] - 5.0), 2 * hypot(spread(one), spread(other))
        within, beyond = off + error <= ABOUT, off - error > ABOUT
        ok, why = limited(within, tier) if within or beyond else (None, f" (to within {error:.1f} points)")
    after = f" after {one['epochs']:g} epochs" if one["n"] else ""
    beside = _told("bc_batch_norm", [("BN-LeNet-5", "LeNet-5 without BN")], 64, tier, store, 0.0)
    text = f"convnet {told(one)}{after}, convnet without BN {told(other)}{why}"
    return verdict([(ok, text)], beside=beside)


def _guarantee(sigma: float) -> Verdict:
    """Whether the limit that bc quotes is at least the ε that is proven for its 8 layers; and what 16 would cost."""
    told_of = {8: "8 modules as layers", 16: "their 16 tensors as layers, as bc counts ResNet-18's 62"}
    parts = []
    for layers, counted in told_of.items():
        how = {"noise_multiplier": 2 * sigma / layers**0.5, **MNIST, **BC}
        limit, proven = (accounting.epsilon(**how, accountant=name) for name in ("clt", "pld"))
        parts.append((proven <= limit, f"{counted}: ε = {limit:.2f} in the limit, {proven:.2f} proven by PLD"))
    return verdict(parts[:1], beside=parts[1:])


def _layerwise(tier: str, store: Store) -> Verdict:
    """bc A.4 speaks of resnet-18; the smaller networks are told beside it."""
    name = "bc_alc_vs_fgc"
    networks = [row.removesuffix(", ALC") for row in tables.load(name).rows if row.endswith(", ALC")]
    pairs = [(f"{network}, ALC", f"{network}, FGC, same {what}") for network in networks for what in "σε"]
    of_bc = [pair for pair in pairs if pair[0].startswith("resnet-18")]
    return _above(name, of_bc, 64, tier, store, beside=[pair for pair in pairs if pair not in of_bc])


def _at_equal_epsilon(pairs: Pairs, tier: str, store: Store) -> Verdict:
    name = "bc_equal_epsilon"
    columns = tables.load(name).columns
    return verdict([part for c in columns for part in _told(name, pairs, c, tier, store, 0.0)])


CLAIMS = (
    Claim(
        name="Batch clipping converges, individual clipping does not",
        says="We observe that BC converges while IC does not",
        source="bc 4.3 and A.3",
        table="bc_ic_vs_bc",
        judge=lambda tier, store: _above("bc_ic_vs_bc", IC_PAIRS, FALLING, tier, store, margin=CLEAR),
    ),
    Claim(
        name="The enhanced clip norms beat Zhang's",
        says="DPSGD with BC and our enhanced ALC offers a better performance compared to DPSGD with BC and the ALC "
        "method of [22]",
        source="bc 4.4",
        table="bc_ic_vs_bc",
        judge=lambda tier, store: _above(
            "bc_ic_vs_bc",
            [("resnet-18, BC", "resnet-18, BC, Zhang's")],
            FALLING,
            tier,
            store,
            beside=[("convnet, BC", "convnet, BC, Zhang's")],
        ),
    ),
    Claim(
        name="Layerwise beats full-gradient clipping, even at discounted noise",
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
        name="G_0.52 at σ = 2.5",
        says="G0.52-DP guarantee",
        source="bc B.1",
        table="bc_noise",
        judge=lambda tier, store: _guarantee(2.5),
    ),
    Claim(
        name="G_1.99 at σ = 1.5",
        says="≈ G1.99-DP",
        source="bc B.1",
        table="bc_noise",
        judge=lambda tier, store: _guarantee(1.5),
    ),
    Claim(
        name="At equal ε: batch clipping against individual clipping",
        says="DPSGD with IC given by (2) and (the new) DPSGD with BC given by (3) offer the exact same DP guarantee … "
        "BC outperforms IC in practice",
        source="bc section 1",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon(
            [("BC", "IC without BN"), ("BC without BN", "IC without BN")], tier, store
        ),
    ),
    Claim(
        name="At equal ε: layerwise against full-gradient clipping",
        says="ALC outperforms FGC",
        source="bc A.4",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon([("BC, ALC", "BC")], tier, store),
    ),
    Claim(
        name="At equal ε: four groups against single layers",
        says="it is advantageous to group layers that have similar clipping constant",
        source="bc B.2, not run there",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon([("BC, ALC, four groups", "BC, ALC")], tier, store),
    ),
    Claim(
        name="At equal ε: multiplication factors against layerwise clipping",
        says="we have the original DP guarantee without √L penalty",
        source="bc B.2, not run there",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon([("BC, multiplication factors", "BC, ALC")], tier, store),
    ),
    Claim(
        name="At equal ε: fixing converged weights",
        says="This allows us to use even smaller clipping constants per layer",
        source="bc 3.4, not run there",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon([("BC, converged weights fixed", "BC")], tier, store),
    ),
)
