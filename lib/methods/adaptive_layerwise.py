"""Adaptive layerwise clipping (bc 3.2, 3.3, B.2): batch clipping with clip norms that follow the layers' gradients.

Before every epoch the expected gradient norm e_h of every layer h is measured on public examples.  With M = max_h e_h:

``enhanced``                 every layer is clipped by itself to C_h = C·e_h/M (bc's)
``zhang``                    the same with C_h = C·e_h; C = 1 is Zhang's
``multiplication_factors``   layer h is multiplied by m_h = M/e_h, the whole is clipped to C, noised, and divided again
                             (bc B.2, never run there)

Each layer's noise is z·C_h, so that each is a Gaussian mechanism of its own, and L of them make one with z/√L; clipping
the whole once costs no √L.  A layer is what ``layers`` says: a parameter tensor (bc counts ResNet-18's 62), a module
with parameters of its own (as bc counts BN-LeNet-5's 8; it has 16 tensors), or one of four groups of tensors with
similar norms (bc B.2).  C may fall from epoch to epoch (``clip_norm_decay``).
"""

import math
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor, nn

from lib.grads import Group, Groups
from lib.methods import Public
from lib.methods._gradient_norms import GradientNorms
from lib.methods.batch_clipping import SETTINGS as OF_BATCH_CLIPPING
from lib.methods.batch_clipping import BatchClipping, check_mini_sets
from lib.run import Run

SETTINGS = OF_BATCH_CLIPPING | {"gradient_norm_examples", "layers", "adaptive_clipping"}
SMALLEST = 1e-6  # of e_h ÷ M: a clip norm must be more than 0


class AdaptiveLayerwise(BatchClipping):
    """The method of the module's page, set up for one run."""

    def __init__(self, run: Run, examples: int, model: nn.Module) -> None:
        self._scaled = run.adaptive_clipping == "multiplication_factors"
        layers = 1 if self._scaled else _count(model, run.layers)
        super().__init__(run, examples, model, layers=layers)
        self._norms = GradientNorms(run.gradient_norm_examples)
        self.expected: dict[Group, float] = {}  # e_h

    def prepare(self, model: nn.Module, public: Public | None) -> None:
        super().prepare(model, public)
        norms = self._norms.measure(model, public)
        examples = len(next(iter(norms.values())))
        layers = _layers(norms, self.run.layers) if examples else []
        found = {group: _mean_norm(norms, group) for group in layers}
        largest = max(found.values(), default=0.0)
        if 0.0 < largest < math.inf:
            self.expected = {group: max(e, SMALLEST * largest) for group, e in found.items()}
        elif not self.expected:  # later on e_h stays what it was
            raise ValueError(
                f"gradient_norm_examples: expected some with a gradient that is finite and not 0 before the first "
                f"epoch; got {examples} that are finite, the largest norm {largest:g}"
            )

    def groups(self, model: nn.Module, step: int) -> Groups:
        clip_norm, largest = self.clip_norm(step), max(self.expected.values())
        if self._scaled:
            scales = {name: largest / e for group, e in self.expected.items() for name in group}
            return Groups(model, clip_norm, scales)
        unit = largest if self.run.adaptive_clipping == "enhanced" else 1.0
        return Groups(model, {group: clip_norm * e / unit for group, e in self.expected.items()})

    def history(self) -> dict[str, Any]:
        return {"gradient_norms": self._norms.means}


def _count(model: nn.Module, layers: str) -> int:
    """L, known before anything is measured."""
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    return min(4, len(names)) if layers == "four_groups" else len(_layers(dict.fromkeys(names), layers))


def _layers(norms: dict[str, Tensor], layers: str) -> list[tuple[str, ...]]:
    """The parameter tensors of every layer."""
    if layers == "four_groups":
        # Groups of similar norms: few clip norms fit all, whether the norms differ by 2 or by 1,000.
        logs = np.log([max(float(norm.mean()), 1e-30) for norm in norms.values()]).reshape(-1, 1)
        keys = fcluster(linkage(logs, "ward"), 4, "maxclust") if len(logs) > 1 else [1]
    else:
        keys = [name.rpartition(".")[0] if layers == "modules" else name for name in norms]
    members: dict[Any, list[str]] = {}
    for name, key in zip(norms, keys, strict=True):
        members.setdefault(key, []).append(name)
    return [tuple(of_layer) for of_layer in members.values()]


def _mean_norm(norms: dict[str, Tensor], group: tuple[str, ...]) -> float:
    """The mean over examples of the norm of the group's tensors together."""
    return float(sum(norms[name].square() for name in group).sqrt().mean())


def build(run: Run, examples: int, model: nn.Module) -> AdaptiveLayerwise:
    check_mini_sets(run)
    if not run.gradient_norm_examples:
        raise ValueError("gradient_norm_examples: expected at least 1 for method 'adaptive_layerwise'; got 0")
    return AdaptiveLayerwise(run, examples, model)
