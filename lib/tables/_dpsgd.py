"""What the exhibits with a column for every ε have in common: each method's settings, and the regimes of ε.

DPSGD has a step size that falls to 0.  SI-DPSGD, whose noise is scaled by the step size of the moment, has a constant
one (v1 leaves η_t open), no momentum, as in v1's algorithm 1, and the clip norm and accountant of v1's code.
"""

from dataclasses import replace
from typing import Any

from lib.run import Run

METHODS = {
    "dpsgd": {"clip_norm": 0.5, "momentum": 0.9, "lr_schedule": "linear", "accountant": "pld"},
    "si_dpsgd": {"clip_norm": 3.1, "accountant": "rdp_2020"},
}


def private(method: str, epsilon: float) -> dict[str, Any]:
    """The fields of a run that say how ``method`` keeps to ``epsilon``."""
    return {"method": method, "sampler": "poisson", "optimizer": "sgd", "epsilon": epsilon} | METHODS[method]


def small_batches(method: str, epsilon: float | None, lr: float, *, up_to: float, batch_size: int) -> dict[str, Any]:
    """Batch size and step size of SI-DPSGD down from ε = ``up_to``, a tenth of ``lr``; else nothing.

    Its weights carry the noise of one step, however many there are, and at the same claimed ε that is the smaller the
    smaller batches are.  DPSGD's adds up from step to step, so there large ones suit it.
    """
    small = method == "si_dpsgd" and epsilon is not None and epsilon <= up_to
    return {"batch_size": batch_size, "lr": lr / 10} if small else {}


def without_momentum(run: Run) -> Run:
    """``run`` with steps as long as momentum 0.9 makes them in the long run."""
    return replace(run, momentum=0.0, lr=10 * run.lr)


def regime(epsilon: float | None, as_at_1: float = 1.0) -> int:
    """Which of a tier's sizes is meant; ``as_at_1``: the smallest ε that has those of ε = 1."""
    return 0 if epsilon is None else 1 if epsilon >= 3 else 2 if epsilon >= as_at_1 else 3 if epsilon >= 0.5 else 4
