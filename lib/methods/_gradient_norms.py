"""The norms of the layers' gradients on public examples, which bc clips by.

The network is in evaluation mode, its batch norm with the statistics of the public examples: an example then has a
gradient of its own, and no running average of private batches gets into the clip norms.
"""

import math

from torch import Tensor, nn

from lib.grads import Groups, clipped_sum
from lib.layers import statistics_of
from lib.methods import Public
from lib.methods._at_once import MICROBATCH, AtOnce
from lib.methods.dpsgd import cross_entropy


class GradientNorms:
    """‖∇_h f(w; ξ)‖ for every parameter tensor h and the first ``examples`` public ξ, and their means so far."""

    def __init__(self, examples: int) -> None:
        self.examples, self._at_once = examples, AtOnce()
        self.means: dict[str, list[float | None]] = {}  # "<layer's class> <tensor>" → a value for each measurement

    def measure(self, model: nn.Module, public: Public) -> dict[str, Tensor]:
        """``{parameter name: norms (n,)}``, of the examples where all are finite."""
        (inputs, labels), names = public, [name for name, p in model.named_parameters() if p.requires_grad]
        x, y = inputs[: self.examples], labels[: self.examples]
        each = Groups(model, dict.fromkeys(names, math.inf))

        def found(size: int) -> dict[str, Tensor]:
            return clipped_sum(model, cross_entropy, x, y, clip_norm=each, microbatch_size=size)[1]

        with statistics_of(model, inputs):
            norms = self._at_once.fit(lambda halvings: max(1, MICROBATCH[x.device.type] >> halvings), found)
        finite = sum(norm.isfinite() for norm in norms.values()) == len(norms)
        norms = {name: norm[finite] for name, norm in norms.items()}
        for name, norm in norms.items():
            kind = type(model.get_submodule(name.rpartition(".")[0])).__name__
            self.means.setdefault(f"{kind} {name}", []).append(float(norm.mean()) if len(norm) else None)
        return norms
