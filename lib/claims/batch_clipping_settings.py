"""bc's figures 6 to 12: what batch size, clip norm and noise do to accuracy under batch clipping, and without it."""

from collections.abc import Sequence
from functools import partial

from lib import report, tables
from lib.claims import MISSING, Claim, Part, Verdict, above, cells, head, limited, loses_less, told, verdict
from lib.claims.batch_clipping import about
from lib.store import Store
from lib.tables import Column, Row, bc_clip_norm, bc_sgd

LITTLE_NOISE, MUCH_NOISE, _, LENET = bc_clip_norm.ROWS
C = bc_clip_norm.TABLE.columns
DROPS = {(0.02, 0.4): 15.0, (0.4, 1.2): 10.0}  # 2σ, from and to, and the points that bc's convnet loses
STABLE = (0.2, 0.5, 0.9)  # C: where bc's range begins, and others up to its end
SLOWLY = 0.9  # of a norm that is left an epoch later: bc's own factor for what it lets fall, η and C
SIGMAS = (0.02, 1.0)  # 2σ: hardly any noise, and that with which bc has convnet at 35 to 40 % and resnet-18 at 20 %


def _best(
    name: str,
    row: Row,
    best: Column,
    others: Sequence[Column],
    tier: str,
    store: Store,
    *,
    beside: Sequence[Column] = (),
) -> Verdict:
    """Whether the row is more accurate in the column ``best`` than in each of ``others``; ``beside``, those that bc
    gives no number of."""
    found, printed = cells(name, tier, store), tables.load(name).printed

    def of(column: Column) -> str:
        beside_it = f" (printed {printed[row, column].text})" if (row, column) in printed else ""
        return f"{head(name, column)} {told(found[row, column])}{beside_it}"

    def compared(columns: Sequence[Column]) -> list[Part]:
        parts = []
        for column in columns:
            ok, why = above(found[row, best], found[row, column], of=len(columns))
            parts.append(limited((ok, f"{row}: {of(best)}, {of(column)}{why}"), tier))
        return parts

    return verdict(compared(others), beside=compared(beside))


def _drops(tier: str, store: Store) -> Verdict:
    """Whether noise costs convnet about as many points as bc's; "%" is taken for points of accuracy."""
    name, row, parts = "bc_noise", "convnet, C = .14", []
    found = cells(name, tier, store)
    for (less, more), points in DROPS.items():
        one, other = found[row, less], found[row, more]
        ok, why = about(points, one, other, tier)
        gap = f", {one['mean'] - other['mean']:.2f} less" if one["n"] and other["n"] else ""
        of_two = f"{head(name, less)} {told(one)}, {head(name, more)} {told(other)}{gap}"
        parts.append((ok, f"{row}: {of_two}, where bc has about {points:g}{why}"))
    return verdict(parts)


def _stable(tier: str, store: Store) -> Verdict:
    """Whether accuracy stays about what it is where bc's range of C begins, by what bc rounds "≈ 5 %" to."""
    name, parts = "bc_clip_norm", []
    found = cells(name, tier, store)
    for column in STABLE[1:]:
        one, other = found[LITTLE_NOISE, column], found[LITTLE_NOISE, STABLE[0]]
        ok, why = about(0.0, one, other, tier)
        of_two = f"{head(name, column)} {told(one)}, {head(name, STABLE[0])} {told(other)}"
        parts.append((ok, f"{LITTLE_NOISE}: {of_two}{why}"))
    return verdict(parts)


def _slowly(tier: str, store: Store) -> Verdict:
    """Whether most tensors' gradient norms fall, and by no more than a tenth an epoch, in the mean over all epochs."""
    parts, frame = {}, report.gradient_norms(tables.load("bc_gradient_norms"), tier, store)
    for row in bc_sgd.TABLE.rows:
        of_row = frame[frame["row"] == row]
        norms = of_row.pivot_table(index="tensor", columns="epoch", values="norm")  # in the mean over seeds
        epochs = len(norms.columns)
        if epochs < 2:
            parts[row] = None, f"{row}: {MISSING}"
            continue
        factor = (norms.iloc[:, -1] / norms.iloc[:, 0]) ** (1 / (epochs - 1))
        slowly, faster = factor.between(SLOWLY, 1, inclusive="left").sum(), (factor < SLOWLY).sum()
        fall = f"{slowly} fall by at most {1 - SLOWLY:.0%} an epoch and {faster} faster, {(factor >= 1).sum()} do not"
        text = f"{row}: of {len(factor)} tensors {fall}, in {epochs} epochs ({of_row['seed'].nunique()})"
        parts[row] = limited((bool(slowly > len(factor) / 2), text), tier)
    return verdict([parts.pop("resnet-18")], beside=list(parts.values()))


def _sensitive(tier: str, store: Store) -> Verdict:
    """Whether noise costs convnet fewer points than ResNet-18."""
    rows = ("convnet, C = .14", "resnet-18, C = .095")
    part = loses_less("bc_noise", cells("bc_noise", tier, store), *rows, SIGMAS)
    return verdict([limited(part, tier)])


CLAIMS = (
    Claim(
        name="Smaller batches are more accurate without privacy",
        says="smaller batch sizes yield better accuracy",
        source="bc A.1, Figure 8",
        table="bc_sgd",
        judge=partial(_best, "bc_sgd", "convnet", 64, (1024,), beside=bc_sgd.TABLE.columns[1:-1]),
    ),
    Claim(
        name="The norms of the layers' gradients fall slowly",
        says="most layer gradient norms only slowly decrease from epoch to epoch",
        source="bc 3.3, Figure 1, of resnet-18",
        table="bc_gradient_norms",
        judge=_slowly,
    ),
    Claim(
        name="BN-LeNet-5: large batches are less accurate under batch clipping",
        says="the test accuracy decreases from 50.38% to 45.11% when we increase the batch size from m = 64 to "
        "m = 1024",
        source="bc A.2, Figure 12a",
        table="bc_batch_size",
        judge=partial(_best, "bc_batch_size", "BN-LeNet-5, σ = 2.5, C = .2", 64, (1024,)),
    ),
    Claim(
        name="Little noise: accuracy increases up to C = 0.2",
        says="the test accuracy increases significantly for 0 < C ≤ 0.2",
        source="bc A.1, Figure 6",
        table="bc_clip_norm",
        judge=partial(_best, "bc_clip_norm", LITTLE_NOISE, 0.2, [c for c in C if c < 0.2]),
    ),
    Claim(
        name="Little noise: accuracy is stable from C = 0.2 to 0.9",
        says="is stable with some fluctuations for 0.2 < C < 0.9",
        source="bc A.1, Figure 6",
        table="bc_clip_norm",
        judge=_stable,
    ),
    Claim(
        name="Little noise: accuracy decreases beyond C = 0.9",
        says="decreases slightly for C > 0.9",
        source="bc A.1, Figure 6",
        table="bc_clip_norm",
        judge=partial(_best, "bc_clip_norm", LITTLE_NOISE, 0.9, [c for c in C if c > 0.9]),
    ),
    Claim(
        name="Large noise: accuracy decreases from C = 0.1 on",
        says="the test accuracy decreases for C > 0.1",
        source="bc A.1, Figure 7",
        table="bc_clip_norm",
        judge=partial(_best, "bc_clip_norm", MUCH_NOISE, 0.1, [c for c in C if c > 0.1]),
    ),
    Claim(
        name="BN-LeNet-5 is most accurate with C = 0.2",
        says="we achieve the best test accuracy 84.80% for C = 0.2",
        source="bc A.2, Figure 11",
        table="bc_clip_norm",
        judge=partial(_best, "bc_clip_norm", LENET, 0.2, [c for c in C if c != 0.2]),
    ),
    Claim(
        name="Noise costs convnet 15 points, then 10",
        says="the testing accuracy drops ≈ 15% when we increase σ from 0.01 to 0.2 and decreases ≈ 10% more from "
        "σ = 0.2 to σ = 0.6",
        source="bc A.1, Figure 9b",
        table="bc_noise",
        judge=_drops,
    ),
    Claim(
        name="ResNet-18 is more sensitive to noise than convnet",
        says="the deep resnet-18 network is more sensitive to the added Gaussian noise than the lightweight convnet "
        "network",
        source="bc A.1, Figures 5 and 9b",
        table="bc_noise",
        judge=_sensitive,
    ),
)
