"""abadi: what the moments accountant gains over strong composition."""

from lib import accounting
from lib.claims import Claim, Verdict, verdict
from lib.store import Store

EXAMPLE = {"noise_multiplier": 4.0, "sampling_prob": 0.01, "steps": 10_000, "delta": 1e-5}  # abadi section 3.1
PRINTED = {"moments": 1.26, "strong_composition": 9.34}


def _much_smaller(tier: str, store: Store) -> Verdict:
    """Whether both numbers are what is printed, to its digits; and what today's accountants make of the example."""
    parts = []
    for name, printed in PRINTED.items():
        epsilon = accounting.epsilon(**EXAMPLE, accountant=name)
        parts.append((round(epsilon, 2) == printed, f"{name.replace('_', ' ')}: ε = {epsilon:.4f}, printed {printed}"))
    others = ", ".join(f"{accounting.epsilon(**EXAMPLE, accountant=name):.3f} by {name}" for name in ("rdp", "pld"))
    return verdict(parts, beside=[(True, f"today {others}")])


CLAIMS = (
    Claim(
        name="The moments accountant gains over strong composition",
        says="we have ε ≈ 1.26 using the moments accountant. As a comparison, we would get a much larger ε ≈ 9.34 "
        "using the strong composition theorem",
        source="abadi section 3.1",
        table="mnist_si_dpsgd",
        judge=_much_smaller,
        headline=True,
    ),
)
