"""bc: what batch clipping and layerwise clipping cost in privacy, by Gaussian DP."""

from collections.abc import Sequence
from functools import partial

from lib import accounting, report
from lib import store as stored
from lib.accounting import pld
from lib.claims import Claim, Part, Verdict, verdict
from lib.store import Store

EXAMPLES, BATCH_SIZE, EPOCHS, LAYERS = 54_000, 64, 50, 8  # bc B.1: BN-LeNet-5 on MNIST
SIGMAS = (2.5, 1.5)
DELTAS = (1e-3, 1e-5, 1e-7, 1e-9)
SAME = 0.005  # relative differences that do not count: of two digits, and of rounding
GRID = 0.001  # by which PLD is above a pair's ε at most: on a grid five times finer it has 2e-4 less
BC = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
CLOSE = 1.05  # a factor that does not count, of an expansion
FAR = 10.0  # times bc's σ, where its expansion "for large σ" is good


def _trained(times: int = 1) -> dict[str, float]:
    """The sampling probability and the steps of bc's epochs over so many ``times`` its data."""
    return {"sampling_prob": BATCH_SIZE / EXAMPLES / times, "steps": round(EPOCHS * EXAMPLES * times / BATCH_SIZE)}


def _z(sigma: float, layers: int = 1) -> float:
    """bc's σ counts noise in units of 2C, and C is clipped to in each of so many layers."""
    return 2 * sigma / layers**0.5


def _at_usual_deltas(
    sigma: float, layers: int, counted: str, *, times: int = 1, deltas: Sequence[float] = DELTAS
) -> list[Part]:
    """Whether the limit that bc quotes, "asymptotically" (bc B.1), is an upper bound at each of ``deltas``.

    It is where PLD's upper bound is no larger, or by less than :data:`SAME`, a fraction of what the two digits of
    bc's µ leave open.  It is not where a single pair of data sets has more: one example turns each mean around
    that it is in, which is as far apart as an example of Poisson batches with half the noise.
    """
    z, parts = _z(sigma, layers), []
    for delta in deltas:
        how = {**_trained(times), "delta": delta}
        limit, most = (accounting.epsilon(noise_multiplier=z, **BC, **how, accountant=by) for by in ("clt", "pld"))
        above = 2 * pld.ROUNDING * how["steps"]  # δ, as the upper bound lies where it is smaller by half of that
        least = (1 - GRID) * accounting.epsilon(noise_multiplier=z / 2, **how | {"delta": delta + above})
        ok = True if most <= limit * (1 + SAME) else False if least > limit * (1 + SAME) else None
        ends = f"at least {report.at_least(least)} and at most {report.at_most(most)}"
        text = f"ε = {limit:.3g} in the limit, {ends} by PLD"
        text += f" (a bound to within {100 * SAME:g} %)" if ok and most > limit else ""
        parts.append((ok, f"{counted}, δ = {delta:g}: {text}"))
    return parts


def _in_the_tail(sigma: float, layers: int, counted: str) -> list[Part]:
    """As a guarantee, one at every δ at once, G_µ may be exceeded there (:func:`lib.accounting.gdp_exceeded`)."""
    z = _z(sigma, layers)
    mu = accounting.limit_mu(accounting.Event(z, **_trained(), **BC))
    found = accounting.gdp_exceeded(mu=mu, noise_multiplier=z / 2, **_trained())
    if not found:
        return []
    text = "{}, in the tail: at ε = {:g} δ is {:.1e} of one pair of data sets at least, and {:.1e} of G_{:.2f}"
    return [(False, text.format(counted, *found, mu))]


def _guarantee(sigma: float, tier: str, store: Store) -> Verdict:
    """Of 8 layers, as bc counts; beside it 16, and the tail."""
    counted = {LAYERS: "8 modules as layers", 16: "their 16 tensors as layers, as bc counts ResNet-18's 62"}
    usual = {layers: _at_usual_deltas(sigma, layers, words) for layers, words in counted.items()}
    tails = [part for layers, words in counted.items() for part in _in_the_tail(sigma, layers, words)]
    return verdict(usual[LAYERS], beside=usual[16] + tails)


def _of_more_data(tier: str, store: Store) -> Verdict:
    """With 15 times the data a batch is so rare that the limit, in which many take part, is too small.

    So many steps' rounding is a quarter of δ = 1e-9, and other processors round otherwise.
    """
    return verdict(_at_usual_deltas(1.5, LAYERS, f"{15 * EXAMPLES:,} examples", times=15, deltas=DELTAS[:-1]))


def _root_of_layers(tier: str, store: Store) -> Verdict:
    """Whether µ is √L times that of one layer at bc's own σ; beside it at a σ that is large."""

    def part(sigma: float) -> Part:
        one, all_of_them = (
            accounting.limit_mu(accounting.Event(_z(sigma, layers), **_trained(), **BC)) for layers in (1, LAYERS)
        )
        root = LAYERS**0.5
        text = f"σ = {sigma:g}: µ = {all_of_them:.3g} of {LAYERS} layers, {all_of_them / one:.2f} times that of one"
        return all_of_them <= one * root * CLOSE, f"{text} (√{LAYERS} = {root:.2f})"

    return verdict([part(sigma) for sigma in SIGMAS], beside=[part(FAR * SIGMAS[0])])


def _same_guarantee(tier: str, store: Store) -> Verdict:
    """Whether one replaced example moves what either clips by 2C at most; beside it, Poisson samples and one left out,
    where batch clipping has twice the sensitivity."""
    clipped, single = stored.audit("batch_clipping"), stored.audit("sensitivity")["LeNet-5"]
    batch, individual = clipped["BC"]["multiple"], max(found["multiple"] for found in single.values())
    text = f"one replaced example moves the clipped mean by {batch:.2f} C, and the sum of clipped gradients by "
    text += f"{individual:.2f} C, in a search; 2 C is allowed"
    ic, bc = (report.at_most(accounting.epsilon(noise_multiplier=_z(2.5) / moved, **_trained())) for moved in (1, 2))
    poisson = f"Poisson samples, one left out: {clipped['BC without BN']['multiple']:.2f} C of batch clipping and 1 C "
    poisson += f"at most of individual clipping, so at σ = 2.5 and δ = 1e-5 ε = {bc} and {ic}"
    return verdict([(max(batch, individual) <= 2 * (1 + SAME), text)], beside=[(bc == ic, poisson)])


def _factor_two(tier: str, store: Store) -> Verdict:
    """Whether an example that is left out moves what batch clipping clips by C at most, as it does of single ones; and
    beside it, whether the factor goes where an example is replaced, as bc defines neighbours."""
    found = stored.audit("batch_clipping")["BC without BN"]
    text = f"one of two examples left out moves the clipped mean by {found['multiple']:.2f} C ({found['how']})"
    replaced, left_out = (
        accounting.epsilon(noise_multiplier=_z(2.5), **_trained(), neighbouring_relation=relation)
        for relation in ("replace_one", "add_or_remove_one")
    )
    told = f"individual clipping, Poisson samples, σ = 2.5, δ = 1e-5: ε = {report.at_most(replaced)} where one example "
    told += f"is replaced, as in bc's neighbours, {report.at_most(left_out)} where it is left out"
    return verdict(
        [(found["multiple"] <= 1 + SAME, f"{text}, where C is allowed without the factor")],
        beside=[(replaced <= left_out, told)],
    )


CLAIMS = (
    Claim(
        name="Batch clipping has the guarantee of individual clipping",
        says="(the original) DPSGD with IC given by (2) and (the new) DPSGD with BC given by (3) offer the exact same "
        "DP guarantee",
        source="bc section 1; batches of exactly m, one example replaced",
        table="bc_equal_epsilon",
        judge=_same_guarantee,
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
        asks="whether the “G0.52-DP guarantee” holds at δ of 1e-3 to 1e-9, as closely as its digits tell; at every δ "
        "it does not, see beside",
        source="bc B.1",
        table="bc_noise",
        judge=partial(_guarantee, 2.5),
    ),
    Claim(
        name="Gaussian DP with about µ = 1.99 at σ = 1.5, at usual δ",
        asks="whether “≈ G1.99-DP” holds at δ of 1e-3 to 1e-9, as closely as its digits tell",
        source="bc B.1",
        table="bc_noise",
        judge=partial(_guarantee, 1.5),
    ),
    Claim(
        name="Gaussian DP with µ = 0.51 of a data set 15 times as large",
        says="For a factor 15 larger dataset we would be able to improve G1.99-DP to the better G0.51-DP guarantee",
        source="bc B.1; at δ of 1e-3 to 1e-7",
        table="bc_noise",
        judge=_of_more_data,
    ),
    Claim(
        name="At bc's own σ, too, layerwise clipping costs a factor of √L in µ",
        asks="whether it does at σ of 1.5 and 2.5, what bc derives “for large σ”: that “µ in a Gµ-DP "
        "guarantee for ALC scales with √L”",
        source="after bc B.2",
        table="bc_noise",
        judge=_root_of_layers,
    ),
)
