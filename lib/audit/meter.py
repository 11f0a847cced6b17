"""The sensitivity meter: how far can one example move the sum that the noise is to hide?

One step on D and on a neighbour D', before noise, and a search over the example in which they differ.  What it finds is
a lower bound: more than the declared sensitivity is a broken method, less proves nothing.

    >>> from functools import partial
    >>> from lib.grads import clipped_sum
    >>> loss = partial(torch.nn.functional.cross_entropy, reduction="none")
    >>> summed = lambda model, x, y: clipped_sum(model, loss, x, y, clip_norm=0.1)[0]
    >>> model, x, y = torch.nn.Linear(2, 3), torch.rand(4, 2), torch.arange(4) % 3
    >>> sensitivity(summed, model, x, y, clip_norm=0.1).multiple <= 2.0001
    True
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Summed = Callable[[nn.Module, Tensor, Tensor], dict[str, Tensor]]

SCALES = (-1.0, 0.0, 0.1, 10.0, 100.0)
STEPS = (0.1, 1.0, 10.0)  # of the ascent, in units of the inputs' standard deviation


@dataclass(frozen=True)
class Measured:
    """The largest change found.

    ``multiple``: ‖Σ ĝ(D) − Σ ĝ(D')‖ ÷ C.  ``how``: which example, changed how.  ``buffers``: those of the model that
    the step leaves different for D and D', as running averages: released with the model, and no noise hides them.
    """

    multiple: float
    how: str
    buffers: tuple[str, ...]


def sensitivity(
    summed: Summed,
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    clip_norm: float,
    neighbouring_relation: str = "replace_one",
    classes: int | None = None,
    examples: int = 2,
    ascent: int = 20,
    seed: int = 0,
) -> Measured:
    """Search for the largest change of ``summed(model, x, y)``, the sum of clipped gradients by parameter name.

    ``examples`` of the batch x (B, …), y (B,) are changed, one at a time.  Replaced: by every label (``classes`` K; by
    default those in ``y``) with the input scaled, blank, noise or another example's; then the best of these climbs,
    ``ascent`` random steps that are kept when they help.  Removed, under "add_or_remove_one": they are left out.  The
    model, in the mode in which it came, is left as it was, and what it draws is the same for D and D'.  Raises
    ``ValueError`` for a model that draws where an example is removed: then those after it draw something else.
    """
    if neighbouring_relation not in ("replace_one", "add_or_remove_one"):
        raise ValueError(
            f"neighbouring_relation: expected one of replace_one, add_or_remove_one; got {neighbouring_relation!r}"
        )
    meter = _Meter(summed, model, x, y, clip_norm)
    if neighbouring_relation == "add_or_remove_one" and meter.draws:
        raise ValueError("neighbouring_relation: expected replace_one for a model that draws; got add_or_remove_one")
    draws = torch.Generator().manual_seed(seed)
    for i in torch.randperm(len(x), generator=draws)[:examples].tolist():
        if neighbouring_relation == "add_or_remove_one":
            kept = torch.arange(len(x), device=x.device) != i
            meter.measure(x[kept], y[kept], f"example {i} removed")
            continue
        best = None
        for label in range(classes or int(y.max()) + 1):
            for name, image in _candidates(x, i, draws):
                found = meter.replaced(i, image, label, f"example {i} {name}, label {label}")
                best = max(best or (found, image, label), (found, image, label), key=lambda candidate: candidate[0])
        found, image, label = best
        for step in range(ascent):
            noise = torch.randn(image.shape, generator=draws, dtype=x.dtype).to(x.device)
            moved = image + STEPS[step % len(STEPS)] * x.std() * noise
            higher = meter.replaced(i, moved, label, f"example {i} after {step + 1} steps up, label {label}")
            if higher > found:
                found, image = higher, moved
    return meter.largest


def _candidates(x: Tensor, i: int, draws: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """Inputs in the place of x_i, with a name each; x_i itself, for another label, is the first."""
    yield "itself", x[i]
    for scale in SCALES:
        yield f"times {scale:g}", scale * x[i]
    yield "as noise", x.std() * torch.randn(x[i].shape, generator=draws, dtype=x.dtype).to(x.device)
    yield "as another", x[(i + 1) % len(x)]


class _Meter:
    """Remembers the sum and the buffers of D, and the neighbour that is furthest from it."""

    def __init__(self, summed: Summed, model: nn.Module, x: Tensor, y: Tensor, clip_norm: float) -> None:
        self.summed, self.model, self.x, self.y, self.clip_norm = summed, model, x, y, clip_norm
        self.largest = Measured(0.0, "nothing changed", ())
        self._sum, self._buffers = self._step(x, y)

    @property
    def draws(self) -> bool:
        """Whether the sum depends on torch's generators."""
        other, _ = self._step(self.x, self.y, seed=1)
        return any(not torch.equal(value, self._sum[name]) for name, value in other.items())

    def replaced(self, i: int, image: Tensor, label: int, how: str) -> float:
        x, y = self.x.clone(), self.y.clone()
        x[i], y[i] = image, label
        return self.measure(x, y, how)

    def measure(self, x: Tensor, y: Tensor, how: str) -> float:
        """The distance to D's sum, ÷ C."""
        total, buffers = self._step(x, y)
        squares = sum((value - self._sum[name]).double().square().sum() for name, value in total.items())
        multiple = float(squares.sqrt()) / self.clip_norm
        moved = {name for name, value in buffers.items() if not torch.equal(value, self._buffers[name])}
        if multiple > self.largest.multiple or not moved <= set(self.largest.buffers):
            best = (multiple, how) if multiple > self.largest.multiple else (self.largest.multiple, self.largest.how)
            self.largest = Measured(*best, tuple(sorted(moved | set(self.largest.buffers))))
        return multiple

    def _step(self, x: Tensor, y: Tensor, seed: int = 0) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """On a copy of the model, and so of generators that its layers have, all of which begin anew."""
        model = copy.deepcopy(self.model)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            for layer in model.modules():
                if isinstance(getattr(layer, "generator", None), torch.Generator):
                    layer.generator = torch.Generator(layer.generator.device).manual_seed(seed)
            total = self.summed(model, x, y)
        return {n: v.detach() for n, v in total.items()}, {n: b.detach().clone() for n, b in model.named_buffers()}
