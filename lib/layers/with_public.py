"""A network together with public examples: f(x ∪ X̂), of which the outputs for x are wanted (v2 algorithm 1).

Whose statistics normalise a private example x_i decides whether clipping its gradient bounds anything:

==============  ========================================================================================================
statistics      training
==============  ========================================================================================================
mixed           of all x in the batch and X̂, as v2 prints it, or of ``shared_by`` of them after another and X̂.
                **Every gradient depends on every private example** that shares its statistics
per_example     of x_i and X̂ alone, for each i: v2's test phase, in training too
public          of X̂ alone
==============  ========================================================================================================

At test ``mixed`` is ``per_example``, as in v2: outputs are then post-processing of the parameters, x_i and X̂.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lib.layers.public_batch_norm import PublicBatchNorm, Rows

STATISTICS = ("mixed", "per_example", "public")
CHUNK = {"cpu": 512, "cuda": 8192}  # rows in one pass without gradients; time and memory only


class WithPublic(nn.Module):
    """x (B, …) → outputs (B, K) of ``model``, whose :class:`PublicBatchNorm` layers see the public examples (M, …).

    ``gradient``: whether gradients flow through the statistics, the public examples' activations included; then all
    rows are in the graph, B·(1 + M) of them for ``per_example`` and ``public``.  Otherwise statistics are constants:
    one pass without gradients finds them, one of x alone uses them, and what a layer draws before a norm, as dropout
    does, is drawn in each.  ``shared_by``: of ``mixed``, how many private examples share statistics, the last of a pass
    perhaps fewer; 0 for all.  Up to the first such layer a pass for statistics has every public row once, behind it
    once for each group, so nothing may lead around that layer.  Raises ``ValueError`` for unknown statistics, less than
    0 that share them, a model without such layers, no public examples, and no x.
    """

    def __init__(
        self, model: nn.Module, public: Tensor, *, statistics: str, gradient: bool = False, shared_by: int = 0
    ) -> None:
        super().__init__()
        if statistics not in STATISTICS:
            raise ValueError(f"statistics: expected one of {', '.join(STATISTICS)}; got {statistics!r}")
        if shared_by < 0:
            raise ValueError(f"shared_by: expected at least 1, or 0 for all; got {shared_by}")
        self.model, self.statistics, self.gradient, self.shared_by = model, statistics, gradient, shared_by
        self._norms = [layer for layer in model.modules() if isinstance(layer, PublicBatchNorm)]
        if not self._norms or not len(public):
            missing = "PublicBatchNorm layers in the model" if len(public) else "public examples"
            raise ValueError(f"WithPublic: expected {missing}; got none")
        self.register_buffer("public", public, persistent=False)
        self._held: list[tuple[Tensor, Tensor]] | None = None
        self._holding = False

    @property
    def joint(self) -> bool:
        """Whether an example's output depends on the private examples beside it."""
        return self.statistics == "mixed" and self.training

    def forward(self, x: Tensor) -> Tensor:
        if not len(x):
            raise ValueError("x: expected at least one example beside the public ones; got none")
        whole = len(x) - len(x) % self.sharing(len(x))
        if whole < len(x):
            return torch.cat([self(x[:whole]), self(x[whole:])])
        if self.gradient and torch.is_grad_enabled():
            groups = len(x) // self.sharing(len(x))
            rows = Rows(groups, len(x) // groups, len(self.public), self.statistics == "public")
            own = x.unflatten(0, (groups, -1))
            everything = torch.cat([own, self.public.expand(groups, *self.public.shape)], 1).flatten(0, 1)
            with self._layers(rows=rows):
                return self.model(everything).unflatten(0, (groups, -1))[:, : rows.private].flatten(0, 1)
        given = self._constants(x)
        with self._layers(given=given):
            return self.model(x)

    def sharing(self, examples: int) -> int:
        """How many of so many private examples have the same statistics; 1 where each has its own, or public ones."""
        return max(1, min(self.shared_by or examples, examples)) if self.joint else 1

    @torch.no_grad()
    def _constants(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Each layer's mean and variance: (1, C) where they are of public examples alone, else (B, C)."""
        public = len(self.public)
        if self.statistics == "public":
            found = self._held or self._found(self.public, Rows(1, 0, public, True))
            self._held = found if self._holding else None
            return found
        size = self.sharing(len(x))
        parts = [
            self._found(torch.cat([part, self.public]), Rows(len(part) // size, size, public, False))
            for part in x.split(size * max(1, CHUNK[x.device.type] // (size + public)))
        ]
        return [
            tuple(torch.cat(of_parts).repeat_interleave(size, 0) for of_parts in zip(*layer, strict=True))
            for layer in zip(*parts, strict=True)
        ]

    def _found(self, rows: Tensor, layout: Rows) -> list[tuple[Tensor, Tensor]]:
        with self._layers(rows=layout):
            self.model(rows)
            found = [layer.found for layer in self._norms]
        if None in found:
            raise RuntimeError("PublicBatchNorm: expected one call in a pass; got a layer that the model does not call")
        return found

    @contextmanager
    def _layers(self, *, rows: Rows | None = None, given: list[tuple[Tensor, Tensor]] | None = None) -> Iterator[None]:
        for layer, of_layer in zip(self._norms, given or [None] * len(self._norms), strict=True):
            layer.rows, layer.given = rows, of_layer
        try:
            yield
        finally:
            for layer in self._norms:
                layer.rows = layer.given = layer.found = None


@contextmanager
def held_statistics(model: nn.Module) -> Iterator[None]:
    """Inside, where the parameters do not change, statistics that do not depend on x are found once."""
    layers = [layer for layer in model.modules() if isinstance(layer, WithPublic)]
    for layer in layers:
        layer._holding = True
    try:
        yield
    finally:
        for layer in layers:
            layer._holding, layer._held = False, None
