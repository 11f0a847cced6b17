"""Whether a pass uses parameters otherwise than by calling the layers that they belong to."""

from collections import Counter
from collections.abc import Iterable
from weakref import WeakSet

from torch import Tensor, nn

_checked: WeakSet[nn.Module] = WeakSet()


def elsewhere(model: nn.Module, losses: Tensor, calls: Iterable[tuple[str, nn.Module, int]]) -> str | None:
    """Which parameter is in the graph of ``losses`` more often than its layer was called, if one is; in words.

    ``calls``: (name, layer, how often it was called) of every trained layer.  What its rule knows of is those calls: of
    a weight that another layer uses too, a part of the gradient would be missing, and so would its clipping.  A model
    is looked at in its first pass alone.
    """
    if model in _checked:
        return None
    used = _uses(losses)
    for name, layer, called in calls:
        for parameter_name, parameter in layer.named_parameters(recurse=False):
            if used[parameter] > called:
                return f"{name or 'the model'}.{parameter_name} is used otherwise than by calling its layer"
    _checked.add(model)
    return None


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
