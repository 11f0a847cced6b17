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
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib.grads import looks
from lib.grads.trials import identical

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
    within: tuple[float, float] | None = None,
    classes: int | None = None,
    examples: int = 3,
    ascent: int = 20,
    seed: int = 0,
) -> Measured:
    """Search for the largest change of ``summed(model, x, y)``, the sum of clipped gradients by parameter name.

    ``examples`` of the batch x (B, …), y (B,) are changed, one at a time: one that is drawn, the first and the last, as
    a model may treat the ends of a batch otherwise, then others that are drawn.  Replaced: by every label (``classes``
    K; by default those in ``y``) with the input scaled, blank, noise or another example's (of whole numbers, as of
    words, drawn from those in ``x``); then the best of these climbs, ``ascent`` random steps that are kept when they
    help.  All of it stays ``within`` (lowest, highest) values that an input can have, say (0, 1) for pixels.  Removed,
    under "add_or_remove_one": they are left out.  The model, in the mode in which it came, is left as it was, and what
    it draws is the same for D and D' (but where a gradient of D' is not finite all others' are found once more, with
    other draws, so dropout can be flagged for nothing).  A sum that is not finite for one of them is infinitely far.

    ``summed`` is what noise of z·C is added to; a mean over the batch is multiplied by its size first.
    Raises ``ValueError`` for a clip norm that is not positive, no examples, a ``summed`` that returns something else,
    and for a model that draws where an example is removed: then those after it draw something else.
    """
    if not 0 < clip_norm < math.inf:
        raise ValueError(f"clip_norm: expected a finite number of more than 0; got {clip_norm!r}")
    if examples < 1 or not len(x):
        raise ValueError(f"examples: expected at least 1, of a batch that has some; got {examples} of {len(x)}")
    if neighbouring_relation not in ("replace_one", "add_or_remove_one"):
        raise ValueError(
            f"neighbouring_relation: expected one of replace_one, add_or_remove_one; got {neighbouring_relation!r}"
        )
    if within and not within[0] <= x.min() <= x.max() <= within[1]:
        raise ValueError(f"within: expected bounds that x keeps to; got {within} of {x.min():g} to {x.max():g}")
    meter = _Meter(summed, model, x, y, clip_norm)
    if neighbouring_relation == "add_or_remove_one" and meter.draws:
        raise ValueError("neighbouring_relation: expected replace_one for a model that draws; got add_or_remove_one")
    draws = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(len(x), generator=draws).tolist()
    for i in list(dict.fromkeys([drawn[0], 0, len(x) - 1, *drawn]))[:examples]:
        if neighbouring_relation == "add_or_remove_one":
            kept = torch.arange(len(x), device=x.device) != i
            meter.measure(x[kept], y[kept], f"example {i} removed")
            continue
        best = None
        for label in range(classes or int(y.max()) + 1):
            for name, image in _candidates(x, i, draws) if x.is_floating_point() else _drawn(x, i, draws):
                image = image.clamp(*within) if within else image
                found = meter.replaced(i, image, label, f"example {i} {name}, label {label}")
                best = max(best or (found, image, label), (found, image, label), key=lambda candidate: candidate[0])
        found, image, label = best
        for step in range(ascent):
            moved = _moved(image, x, STEPS[step % len(STEPS)], draws)
            moved = moved.clamp(*within) if within else moved
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


def _drawn(x: Tensor, i: int, draws: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """The same where inputs are whole numbers, words say, which have no scale."""
    yield "itself", x[i]
    yield "all the first", x.min().expand_as(x[i])
    yield "all the last", x.max().expand_as(x[i])
    yield "drawn", _values(x, x[i].shape, draws)
    yield "as another", x[(i + 1) % len(x)]


def _values(x: Tensor, shape: torch.Size, draws: torch.Generator) -> Tensor:
    """So many of the values in x, at random."""
    return x.flatten()[torch.randint(x.numel(), shape, generator=draws).to(x.device)]


def _moved(image: Tensor, x: Tensor, step: float, draws: torch.Generator) -> Tensor:
    """A random step away; of whole numbers a part of them is drawn again."""
    if not x.is_floating_point():
        again = (torch.rand(image.shape, generator=draws) < step / (1 + step)).to(x.device)
        return torch.where(again, _values(x, image.shape, draws), image)
    noise = torch.randn(image.shape, generator=draws, dtype=x.dtype).to(x.device)
    return image + step * x.std() * noise


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
        multiple = math.inf if math.isnan(multiple) else multiple
        moved = {name for name, value in buffers.items() if not identical(value, self._buffers[name])}
        if multiple > self.largest.multiple or not moved <= set(self.largest.buffers):
            best = (multiple, how) if multiple > self.largest.multiple else (self.largest.multiple, self.largest.how)
            self.largest = Measured(*best, tuple(sorted(moved | set(self.largest.buffers))))
        return multiple

    def _step(self, x: Tensor, y: Tensor, seed: int = 0) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """On a copy of the model, and so of generators that its layers have, all of which begin anew.

        It is one model to what looks at it, as it is in training, and not a new one every time.
        """
        model = copy.deepcopy(self.model)
        looks.share(looks.found(self.model), model)
        devices = {value.device for value in (x, *model.state_dict().values()) if value.device.type == "cuda"}
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            for layer in model.modules():
                if isinstance(getattr(layer, "generator", None), torch.Generator):
                    layer.generator = torch.Generator(layer.generator.device).manual_seed(seed)
            total = self.summed(model, x, y)
        if not (isinstance(total, Mapping) and total and all(isinstance(value, Tensor) for value in total.values())):
            raise ValueError(f"summed: expected what returns {{parameter name: tensor}}; got {type(total).__name__}")
        return {n: v.detach() for n, v in total.items()}, {n: b.detach().clone() for n, b in model.named_buffers()}
