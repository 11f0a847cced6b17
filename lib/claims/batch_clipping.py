"""bc: batch against individual clipping, adaptive layerwise against full-gradient clipping; and both at equal ε."""

from collections.abc import Iterable

from lib import accounting, tables
from lib.claims import Claim, Verdict, cells, told, verdict
from lib.store import Store
from lib.tables import Column, Row

CLEAR = 5.0  # points by which "converges" is above "does not"
TOO_EARLY = 20.0  # accuracy, twice chance, below which the runs were too short to tell who converges
ABOUT_5 = 2.5  # points that still round to bc's "≈ 5 %"
FALLING = 0.9  # the column of bc_ic_vs_bc that is bc's main setting: a falling step size
MNIST = {"sampling_prob": 64 / 54_000, "steps": 42_188, "delta": 1e-5}  # bc B.1: m = 64, 50 epochs
BC = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
IC_PAIRS = (
    ("resnet-18, BC", "resnet-18, IC"),
    ("resnet-18 without BN, BC", "resnet-18 without BN, IC"),
    ("convnet without BN, BC", "convnet without BN, IC"),
)
ZHANG_PAIRS = (("resnet-18, BC", "resnet-18, BC, Zhang's"), ("convnet, BC", "convnet, BC, Zhang's"))
BN_PAIRS = (("convnet", "convnet without BN"), ("BN-LeNet-5", "LeNet-5 without BN"))


def _above(
    name: str,
    pairs: Iterable[tuple[Row, Row]],
    columns: Iterable[Column],
    margin: float,
    tier: str,
    store: Store,
    *,
    converged: float = 0.0,
) -> Verdict:
    """Whether in every pair the first row is at least ``margin`` points above the second, in every column.

    Open for a pair that is not run, or whose better row is not above ``converged``.
    """
    found, parts = cells(name, tier, store), []
    for column in columns:
        for better, worse in pairs:
            one, other = found[better, column], found[worse, column]
            known = one["n"] and other["n"] and max(one["mean"], other["mean"]) > converged
            where = f" at ε = {column:g}" if tables.load(name).column == "epsilon" else ""
            after = f" after {one['epochs']:g} epochs" if one["n"] else ""
            evidence = f"{better}{where} {told(one)}{after}, {worse} {told(other)}"
            parts.append((one["mean"] >= other["mean"] + margin if known else None, evidence))
    return verdict(parts)


def _guarantee(sigma: float) -> Verdict:
    """Whether the limit that bc quotes is at least the ε that is proven for its 8 layers; and what 16 would cost."""
    told_of = {8: "8 modules as layers", 16: "their 16 tensors as layers, as bc counts ResNet-18's 62"}
    parts = []
    for layers, counted in told_of.items():
        how = {"noise_multiplier": 2 * sigma / layers**0.5, **MNIST, **BC}
        limit, proven = (accounting.epsilon(**how, accountant=name) for name in ("clt", "pld"))
        ok = proven <= limit or layers != 8
        parts.append((ok, f"{counted}: ε = {limit:.2f} in the limit, {proven:.2f} proven by PLD"))
    return verdict(parts)


def _layerwise(tier: str, store: Store) -> Verdict:
    networks = [row.removesuffix(", ALC") for row in tables.load("bc_alc_vs_fgc").rows if row.endswith(", ALC")]
    pairs = [(f"{network}, ALC", f"{network}, FGC, same {what}") for network in networks for what in "σε"]
    return _above("bc_alc_vs_fgc", pairs, (64,), 0.0, tier, store)


def _at_equal_epsilon(better: Row, worse: Row, tier: str, store: Store) -> Verdict:
    name = "bc_equal_epsilon"
    return _above(name, [(better, worse)], tables.load(name).columns, 0.0, tier, store)


CLAIMS = (
    Claim(
        name="Batch clipping converges, individual clipping does not",
        says="We observe that BC converges while IC does not",
        source="bc 4.3 and A.3",
        table="bc_ic_vs_bc",
        judge=lambda tier, store: _above("bc_ic_vs_bc", IC_PAIRS, (FALLING,), CLEAR, tier, store, converged=TOO_EARLY),
    ),
    Claim(
        name="The enhanced clip norms beat Zhang's",
        says="DPSGD with BC and our enhanced ALC offers a better performance compared to DPSGD with BC and the ALC "
        "method of [22]",
        source="bc 4.4",
        table="bc_ic_vs_bc",
        judge=lambda tier, store: _above("bc_ic_vs_bc", ZHANG_PAIRS, (FALLING,), 0.0, tier, store),
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
        judge=lambda tier, store: _above("bc_batch_norm", BN_PAIRS, (64,), ABOUT_5, tier, store),
    ),
    Claim(
        name="G_0.52 at σ = 2.5",
        says="a much improved G0.52-DP guarantee",
        source="bc B.1",
        table="bc_noise",
        judge=lambda tier, store: _guarantee(2.5),
    ),
    Claim(
        name="G_1.99 at σ = 1.5",
        says="a better balance of ≈ 67% test accuracy with ≈ G1.99-DP",
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
        judge=lambda tier, store: _at_equal_epsilon("BC", "IC", tier, store),
    ),
    Claim(
        name="At equal ε: layerwise against full-gradient clipping",
        says="ALC outperforms FGC",
        source="bc A.4",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon("BC, ALC", "BC", tier, store),
    ),
    Claim(
        name="At equal ε: four groups against single layers",
        says="it is advantageous to group layers that have similar clipping constant",
        source="bc B.2, not run there",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon("BC, ALC, four groups", "BC, ALC", tier, store),
    ),
    Claim(
        name="At equal ε: multiplication factors against layerwise clipping",
        says="we have the original DP guarantee without √L penalty",
        source="bc B.2, not run there",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon("BC, multiplication factors", "BC, ALC", tier, store),
    ),
    Claim(
        name="At equal ε: fixing converged weights",
        says="This allows us to use even smaller clipping constants per layer",
        source="bc 3.4, not run there",
        table="bc_equal_epsilon",
        judge=lambda tier, store: _at_equal_epsilon("BC, converged weights fixed", "BC", tier, store),
    ),
)
