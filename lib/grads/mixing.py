"""Whether examples meet in a pass: in a layer's rows, in the losses, or in the backward pass alone."""

import copy
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import combinations, count, islice
from math import comb

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from lib.grads.looks import Loss
from lib.grads.trials import Trial, refuse_kept, rows_of, same, trial

NOT_ALONE = "a row of {} is not of one example alone"
HOW_MANY = "an example's loss depends on how many there are"
BESIDE = "an example's loss depends on the examples beside it, and is another without them"
FEW = 8  # examples whose gradients are tried: of a whole batch they take as much memory as several steps
CANNOT = (RuntimeError, TypeError, AttributeError)  # what a copy raises, or a loss, of what it cannot do
Uses = Sequence[tuple[str, nn.Module, Sequence[GradientEdge]]]  # of trained layers: name, layer, where its outputs are


def mixed(
    model: nn.Module, loss: Loss, x: Tensor, y: Tensor, losses: Tensor, layers: Uses, sides: list[Tensor]
) -> tuple[str | None, bool]:
    """How examples are mixed, if they are, and whether the next pass has nothing more to show.

    ``sides`` (B,): sets of examples whose rows and losses are looked at, when the others' inputs and labels change.
    What trials find in float32 may be rounding, which a channel of next to no variance makes large: then float64 tells.
    """
    sides = [side.to(losses.device) for side in sides]
    names = [name for name, _, _ in layers]
    reason, seen = _flows(losses, layers, sides)
    if reason:
        return reason, True
    try:
        reason, told_apart = _tried(model, loss, x, y, names, sides)
    except torch.OutOfMemoryError:
        raise  # the reference would need more
    except CANNOT as error:
        return f"its examples cannot be tried out on a copy ({error})", True
    if reason:
        with suppress(*CANNOT):  # what cannot be had in float64 stays with what float32 says
            reason, told_apart = _tried(copy.deepcopy(model).double(), loss, _precise(x), _precise(y), names, sides)
    return reason, bool(reason) or (seen and told_apart)


def _precise(values: Tensor) -> Tensor:
    return values.double() if values.is_floating_point() else values


def _tried(
    model: nn.Module, loss: Loss, x: Tensor, y: Tensor, names: list[str], sides: list[Tensor]
) -> tuple[str | None, bool]:
    """What trials on other examples, and on fewer, show, in words; and whether they were others on every side."""
    by_example, told_apart = x.unflatten(0, (len(y), -1)), True
    whole = trial(model, x, names)
    losses_of_all = loss(whole.outputs, y)
    for mine in sides:
        alike, labels = (_alike(values, mine) for values in (by_example, y))
        other = trial(model, alike.flatten(0, 1), names)
        if reason := _differs(whole, other, mine):
            return reason, True
        losses_beside = loss(other.outputs, labels)
        if not same(losses_of_all[mine], losses_beside[mine]):
            return BESIDE, True
        told_apart &= not (torch.equal(by_example, alike) or torch.equal(y, labels))
    fewer = sides[0]
    drawing = not whole.drew
    if whole.drew:  # of fewer examples other numbers would be drawn: the loss is asked, and the model undrawn
        if not same(losses_of_all[fewer], loss(rows_of(whole.outputs, len(y))[fewer].flatten(0, 1), y[fewer])):
            return HOW_MANY, True
        whole = trial(model, x, names, drawing=False)
        losses_of_all = loss(whole.outputs, y)
    few = trial(model, by_example[fewer].flatten(0, 1), names, drawing=drawing)
    if not (whole.drew or few.drew or same(losses_of_all[fewer], loss(few.outputs, y[fewer]))):
        return HOW_MANY, True
    return _tried_back(model, loss, by_example[:FEW].flatten(0, 1), y[:FEW], names), told_apart


def _tried_back(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, names: list[str]) -> str | None:
    """The same of gradients, and of losses that have some, of every other example: beside others, and without."""
    by_example, mine = x.unflatten(0, (len(y), -1)), torch.arange(len(y), device=y.device) % 2 == 0
    alike, labels = (_alike(values, mine) for values in (by_example, y))
    whole, other = (trial(model, values, names, gradients=True) for values in (x, alike.flatten(0, 1)))
    if reason := _backwards(whole, loss(whole.outputs, y), mine, other, loss(other.outputs, labels), mine):
        return reason
    drawing = not whole.drew
    if whole.drew:
        whole = trial(model, x, names, gradients=True, drawing=False)
    few = trial(model, by_example[mine].flatten(0, 1), names, gradients=True, drawing=drawing)
    if whole.drew or few.drew:
        return None
    everyone = torch.ones_like(y[mine], dtype=torch.bool)
    return _backwards(whole, loss(whole.outputs, y), mine, few, loss(few.outputs, y[mine]), everyone)


def _backwards(one: Trial, losses: Tensor, mine: Tensor, other: Trial, others: Tensor, its: Tensor) -> str | None:
    """In words, which rows of the examples ``mine`` have another gradient in the other trial, where they are ``its``.

    Or that their losses are others, as a model may mix only where it is trained.  Gradients are others by 1 % of their
    length, as a number next to the kink of a ReLU may be on its other side in a batch of another size; what is far
    shorter than other layers' gradients is rounding.  None of calls where fewer are made of shorter texts.
    """
    if not same(losses[mine], others[its]):
        return BESIDE
    if one.names != other.names:
        return None
    found = [of.gradients(loss[whose]) for of, loss, whose in ((one, losses, mine), (other, others, its))]
    least = 1e-5 * max((_length(gradient) for gradient in found[0] if gradient is not None), default=0.0)
    for name, gradient, beside in zip(one.names, *found, strict=False):
        if gradient is None or beside is None:
            continue
        rows, besides = rows_of(gradient, len(losses)), rows_of(beside, len(others))
        if rows is None or besides is None or rows.shape[1:] != besides.shape[1:]:
            return NOT_ALONE.format(name or "the model")
        if _length(rows[mine] - besides[its]) > 0.01 * _length(rows[mine]) + least:
            return NOT_ALONE.format(name or "the model")
    return None


def _length(gradient: Tensor) -> float:
    return torch.linalg.vector_norm(gradient.nan_to_num(0.0, 0.0, 0.0)).item()


def _alike(values: Tensor, mine: Tensor) -> Tensor:
    """``values`` (B, …) with those of all others like the first that is ``mine``."""
    return torch.where(mine.view(-1, *[1] * (values.dim() - 1)), values, values[mine][:1])


def sets_of(examples: int) -> list[Tensor]:
    """As few sets of examples (B,) as there can be for any of two to be in one without the other (Sperner 1928).

    Each example is in a half of the k sets, no two in the same: C(k, k/2) ≥ B, 11 for 256.
    """
    k = next(k for k in count(2) if comb(k, k // 2) >= examples)
    halves = list(islice(combinations(range(k), k // 2), examples))
    return [torch.tensor([side in half for half in halves]) for side in range(k)]


def _flows(losses: Tensor, layers: Uses, sides: Iterable[Tensor]) -> tuple[str | None, bool]:
    """Whether the losses of some examples have a gradient in others' rows, or another in their own than beside others'
    losses, as where a backward hook sees the whole batch; in words, and in every layer any."""
    outputs = [output for _, _, of_layer in layers for output in of_layer]
    seen = {name: not of_layer for name, _, of_layer in layers}
    of_all = torch.autograd.grad(losses.sum(), outputs, retain_graph=True, allow_unused=True)
    for mine in sides:
        whole = list(of_all)[::-1]
        found = list(torch.autograd.grad(losses[mine].sum(), outputs, retain_graph=True, allow_unused=True))[::-1]
        for name, _, of_layer in layers:
            for _ in of_layer:
                gradient, beside = found.pop(), whole.pop()
                if gradient is None:
                    continue
                rows = rows_of(gradient, len(losses))
                if rows is None or _nonzero(rows, ~mine) or not same(rows[mine], rows_of(beside, len(losses))[mine]):
                    return NOT_ALONE.format(name or "the model"), False
                seen[name] = seen[name] or _nonzero(rows, mine)
    return None, all(seen.values())


def _nonzero(rows: Tensor, whose: Tensor) -> bool:
    """Whether the rows (B, r, …) of those examples have an entry that is a number, and not 0: NaN is 0 × NaN."""
    touched = rows.any(dim=tuple(range(1, rows.dim()))) & whose  # the few that are copied, if any
    return bool(touched.any() and rows[touched].nan_to_num(0.0, 0.0, 0.0).any())


def _differs(one: Trial, other: Trial, mine: Tensor) -> str | None:
    """Which rows of the examples that are ``mine`` (B,), the same in both trials, are not, in words."""
    refuse_kept(one, other)
    comparable = one.names == other.names  # not where fewer calls are made of shorter texts
    for name, *inputs in zip(one.names, one.inputs, other.inputs, strict=True) if comparable else ():
        rows = [rows_of(of_trial, len(mine)) for of_trial in inputs]
        if any(of_trial is None for of_trial in rows) or not same(*(of_trial[mine] for of_trial in rows)):
            return NOT_ALONE.format(name or "the model")
    return None
