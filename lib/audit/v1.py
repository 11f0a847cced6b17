"""The white-box attack at the MNIST settings of v1's code, on SI-DPSGD and on DPSGD with the same noise.

python -m lib.audit v1
"""

from dataclasses import replace
from typing import Any

from lib import accounting
from lib.audit.bounds import CONFIDENCE
from lib.audit.canaries import attack
from lib.run import Run

EXAMPLES = CANARIES = 60_000
SI_DPSGD = Run(
    dataset="mnist",
    model="lenet5",
    method="si_dpsgd",
    sampler="poisson",
    accountant="rdp_2020",
    optimizer="sgd",
    lr=0.1,
    clip_norm=3.1,
    noise_multiplier=7.1,
    batch_size=32,
    epochs=10,
)
ATTACKS = {  # name → run, what is released
    "SI-DPSGD, last iterate": (SI_DPSGD, "last"),
    "SI-DPSGD, all iterates": (SI_DPSGD, "transcript"),
    "SI-DPSGD as its code tests it, at µ_T": (replace(SI_DPSGD, test_at="mu"), "last"),
    "DPSGD, last iterate": (replace(SI_DPSGD, method="dpsgd"), "last"),
    "DPSGD, all iterates": (replace(SI_DPSGD, method="dpsgd"), "transcript"),
}


def measure() -> dict[str, dict[str, Any]]:
    """{attack: {"claimed", "one_run", "many_runs", "canaries", "confidence"}}."""
    results = {}
    for name, (run, released) in ATTACKS.items():
        found = attack(run, examples=EXAMPLES, canaries=CANARIES, released=released)
        claimed = accounting.epsilon(
            noise_multiplier=run.noise_multiplier,
            sampling_prob=run.batch_size / EXAMPLES,
            steps=run.epochs * (EXAMPLES // run.batch_size),
            accountant=run.accountant,
        )
        shown = {"one_run": found.one_run(), "many_runs": found.many_runs()}
        results[name] = {"claimed": claimed, **shown, "canaries": CANARIES, "confidence": CONFIDENCE}
    return results
