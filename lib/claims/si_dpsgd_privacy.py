"""v1: the privacy of SI-DPSGD, of one step by its lemma 4.1 and of the whole by its accountant."""

from lib import accounting, report
from lib import store as stored
from lib.claims import Claim, Verdict, verdict
from lib.store import Store

TABLE = "mnist_si_dpsgd"
V1_DEFAULTS = {"noise_multiplier": 7.1, "sampling_prob": 32 / 60_000, "steps": 18_750}  # v1's code, MNIST
LEMMA = (1.0, 10.0)  # ε of one step


def _one_step(tier: str, store: Store) -> Verdict:
    """Whether the formula bounds a step's ε, by the exact one, for v1's neighbours, which differ in a point that is
    replaced; beside it, for the sensitivity C/L of its proof."""
    judged, beside = [], []
    for z in (V1_DEFAULTS["noise_multiplier"], *(accounting.classical_gaussian(epsilon=e, delta=1e-5) for e in LEMMA)):
        claimed = accounting.classical_gaussian(noise_multiplier=z, delta=1e-5)
        for parts, relation, told_of in (
            (judged, "replace_one", "a replaced point"),
            (beside, "add_or_remove_one", "a point left out"),
        ):
            true = accounting.analytic_gaussian(noise_multiplier=z, delta=1e-5, neighbouring_relation=relation)
            text = f"z = {z:.3g}, δ = 1e-5: ε = {claimed:.3g} is claimed, and {report.at_least(true)} is exact"
            parts.append((true <= claimed, f"{text} of {told_of}"))
    return verdict(judged, beside=beside)


def _same_privacy(tier: str, store: Store) -> Verdict:
    claimed = accounting.epsilon(**V1_DEFAULTS, accountant="rdp_2020")
    exact = accounting.si_dpsgd_epsilon(**V1_DEFAULTS)
    delta = accounting.si_dpsgd_delta(epsilon=claimed, **V1_DEFAULTS)
    evidence = (
        f"v1's MNIST defaults claim ε = {claimed:.3g}; θ_T alone, for a linear loss and a constant step size, has "
        f"exactly ε = {exact:.3g} at the same δ, and δ = {delta:.3g} at the claimed ε"
    )
    found = stored.audit("v1")
    audited = {name: found[f"{name}, last iterate"]["many_runs"] for name in ("SI-DPSGD", "DPSGD")}
    attack = (
        f"an attack on the last iterate shows ε ≥ {report.at_least(audited['SI-DPSGD'])} with 95 % confidence, "
        f"and of DPSGD with the same noise ε ≥ {report.at_least(audited['DPSGD'])}"
    )
    return verdict([(exact <= claimed, evidence), (audited["SI-DPSGD"] <= claimed, attack)])


CLAIMS = (
    Claim(
        name="SI-DPSGD has the privacy of DPSGD",
        says="since our method is a variant of Gaussian mechanisms, we may utilize the well-developed moments "
        "accountant … to guarantee that the training process ensures (ε, δ)-DP",
        source="v1 section 4, after lemma 4.1",
        table=TABLE,
        judge=_same_privacy,
        headline=True,
    ),
    Claim(
        name="A step of SI-DPSGD has the ε of the classical formula",
        says="Each iteration of algorithm 1 is (ε, δ) differentially private for each δ > 0",
        source="v1 lemma 4.1, with ε = √(2 ln(1.25/δ))/z",
        table=TABLE,
        judge=_one_step,
    ),
)
