"""How far one example moves what batch clipping releases, in units of the noise that hides it.

    python -m lib.audit batch_clipping

measures it on fresh networks of :mod:`lib.tables.bc_equal_epsilon`, batches of two of MNIST's images, and stores it
under ``results/audits``.  Each tensor's change is divided by the standard deviation of its noise at z = 1.  Clipped
once, scaled or not, the gradient may move by 2 where an example is replaced; layer by layer by 2 in each of L layers,
2 √L together.  A search finds lower bounds.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lib import tables
from lib.audit.meter import sensitivity
from lib.grads import clipped_mean
from lib.methods.batch_clipping import BatchClipping
from lib.methods.dpsgd import cross_entropy
from lib.train import Training

TABLE, EPSILON = "bc_equal_epsilon", 2.0
ROWS = ("BC", "BC, multiplication factors", "BC, ALC")
EXAMPLES = 2  # of a batch: one of them can turn their mean around
SEARCH = {"clip_norm": 1.0, "classes": 10, "examples": EXAMPLES, "ascent": 30}


def measure() -> dict[str, dict[str, Any]]:
    """{row: {"multiple", "how", "layers"}}."""
    table, results = tables.load(TABLE), {}
    for row in ROWS:
        training = Training(table.cell(row, EPSILON, seed=0, tier="cpu", lr=1.0), torch.device("cpu"))
        training.attach()
        model, method = training.model, training.method
        method.prepare(model, training.data[1])
        x, y = training.examples(torch.arange(EXAMPLES))
        found = sensitivity(in_units_of_noise(method), model.train(), x, y, **SEARCH)
        results[row] = {"multiple": found.multiple, "how": found.how, "layers": len(method.groups(model, 0).names)}
    return results


def in_units_of_noise(method: BatchClipping) -> Callable[[nn.Module, Tensor, Tensor], dict[str, Tensor]]:
    """What ``method`` releases of a batch at its first step, each tensor ÷ its noise at z = 1."""

    def summed(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        groups = method.groups(model, 0)
        parts = groups.parts(clipped_mean(model, cross_entropy, x, y, groups))
        return {name: part / groups.reach(name) for name, part in parts.items()}

    return summed
