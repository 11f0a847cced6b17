"""How far one example moves what batch clipping releases, in units of the noise that hides it.

    python -m lib.audit batch_clipping

measures it on fresh networks of :mod:`lib.tables.bc_equal_epsilon`, batches of two of MNIST's images, and stores it
under ``results/audits``.  Each tensor's change is divided by the standard deviation of its noise at z = 1.  Clipped
once, scaled or not, the gradient may move by 2 where an example is replaced; layer by layer by 2 in each of L layers,
2 √L together.  Where one is left out, as under Poisson sampling, it may move by 2, too, and not by 1, as the sum of
examples clipped by themselves does.  A search finds lower bounds.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lib import tables
from lib.audit.meter import sensitivity
from lib.grads import clipped_mean
from lib.layers import NoisyLinear
from lib.methods.batch_clipping import BatchClipping
from lib.methods.dpsgd import cross_entropy
from lib.train import Training

TABLE, EPSILON = "bc_equal_epsilon", 2.0
ROWS = ("BC", "BC, multiplication factors", "BC, ALC")
LEFT_OUT = "BC without BN"  # batch norm has no batch of one
DIM = (1.0, 0.5, 0.1, 0.0)  # factors on the first example's pixels: the other turns a shorter gradient around
SURE = 20.0  # added to two of the logits: whichever of the two labels comes, the gradient points the other way
EXAMPLES = 2  # of a batch: one of them can turn their mean around
SEARCH = {"clip_norm": 1.0, "classes": 10, "examples": EXAMPLES, "ascent": 30}


def measure() -> dict[str, dict[str, Any]]:
    """{row: {"multiple", "how", "layers"}}, and of ``LEFT_OUT`` where one of two examples is."""
    results = {}
    for row in ROWS:
        model, method, x, y = _first_step(row)
        found = sensitivity(in_units_of_noise(method), model, x, y, **SEARCH)
        results[row] = {"multiple": found.multiple, "how": found.how, "layers": len(method.groups(model, 0).names)}
    return results | {LEFT_OUT: left_out()}


def left_out() -> dict[str, Any]:
    """The furthest that one example moves the clipped mean of two by being left out: {"multiple", "how", "layers"}."""
    model, method, x, _ = _first_step(LEFT_OUT)
    *_, last = (layer for layer in model.modules() if isinstance(layer, NoisyLinear))
    with torch.no_grad():
        last.bias[:2] += SURE
    how = {"clip_norm": 1.0, "neighbouring_relation": "add_or_remove_one", "examples": EXAMPLES}
    tried = []
    for factor in DIM:
        dimmed, labels = torch.stack([factor * x[0], x[0]]), torch.arange(EXAMPLES)
        found = sensitivity(in_units_of_noise(method), model, dimmed, labels, **how)
        tried.append((found.multiple, f"{found.how}, of an image and {factor:g} times it under another label"))
    multiple, words = max(tried)
    return {"multiple": multiple, "how": words, "layers": len(method.groups(model, 0).names)}


def _first_step(row: str) -> tuple[nn.Module, BatchClipping, Tensor, Tensor]:
    """A fresh network of the row, its method, and the first examples."""
    training = Training(tables.load(TABLE).cell(row, EPSILON, seed=0, tier="cpu", lr=1.0), torch.device("cpu"))
    training.attach()
    training.method.prepare(training.model, training.data[1])
    return training.model.train(), training.method, *training.examples(torch.arange(EXAMPLES))


def in_units_of_noise(method: BatchClipping) -> Callable[[nn.Module, Tensor, Tensor], dict[str, Tensor]]:
    """What ``method`` releases of a batch at its first step, each tensor ÷ its noise at z = 1."""

    def summed(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        groups = method.groups(model, 0)
        parts = groups.parts(clipped_mean(model, cross_entropy, x, y, groups))
        return {name: part / groups.reach(name) for name, part in parts.items()}

    return summed
