"""Whether layers' inputs and output gradients tell all of a model's per-example gradients, and each example's apart.

A model is looked at in its first pass alone, and again when others of its parameters are trained.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

_checked: WeakKeyDictionary[nn.Module, set[tuple[str, frozenset[Tensor]]]] = WeakKeyDictionary()


def elsewhere(model: nn.Module, losses: Tensor, calls: Iterable[tuple[str, nn.Module, int]]) -> str | None:
    """Which parameter is in the graph of ``losses`` more often than its layer was called, if one is; in words.

    ``calls``: (name, layer, how often it was called) of every trained layer.  What its rule knows of is those calls: of
    a weight that another layer uses too, a part of the gradient would be missing, and so would its clipping.
    """
    if _known(model, "elsewhere"):
        return None
    used = _uses(losses)
    for name, layer, called in calls:
        for parameter_name, parameter in layer.named_parameters(recurse=False):
            if used[parameter] > called:
                return f"{name or 'the model'}.{parameter_name} is used otherwise than by calling its layer"
    _remember(model, "elsewhere")
    return None


def across(model: nn.Module, losses: Tensor, outputs: Sequence[tuple[str, GradientEdge]]) -> str | None:
    """Of which layer's ``outputs``, (name, where in the graph), one loss of B depends on rows that are not its
    example's, if it does; in words.

    An example's rows are taken to lie together.  Where time comes first, or where a layer looks at the whole batch,
    they are not its own, and clipping their gradient bounds no example's.  One loss in the middle is looked at.
    """
    if len(losses) < 2 or not outputs or _known(model, "across"):
        return None
    names, edges = zip(*outputs, strict=True)
    k = len(losses) // 2
    gradients = torch.autograd.grad(losses[k], edges, retain_graph=True, allow_unused=True)
    for name, gradient in zip(names, gradients, strict=True):
        if gradient is None or len(gradient) % len(losses):
            continue
        gradient = gradient.nan_to_num(0.0, 0.0, 0.0)  # 0 × NaN, of another example, is NaN
        by_example = gradient.unflatten(0, (len(losses), -1))
        if by_example[:k].any() or by_example[k + 1 :].any():
            return f"a row of {name or 'the model'} is not of one example alone"
    _remember(model, "across")
    return None


def _known(model: nn.Module, question: str) -> bool:
    return (question, _trained(model)) in _checked.get(model, ())


def _remember(model: nn.Module, question: str) -> None:
    _checked.setdefault(model, set()).add((question, _trained(model)))


def _trained(model: nn.Module) -> frozenset[Tensor]:
    return frozenset(parameter for parameter in model.parameters() if parameter.requires_grad)


def _uses(losses: Tensor) -> Counter[Tensor]:
    """How many edges of the graph lead to each parameter."""
    found: Counter[Tensor] = Counter()
    seen, ahead = set(), [losses.grad_fn]
    while ahead:
        for node, _ in ahead.pop().next_functions:
            if hasattr(node, "variable"):
                found[node.variable] += 1
            elif node is not None and node not in seen:
                seen.add(node)
                ahead.append(node)
    return found
