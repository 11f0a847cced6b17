"""Whether layers' inputs and output gradients tell all of a model's per-example gradients, and each example's apart.

A model is looked at until a pass has shown it, :data:`LOOKS` times at most, and again with another loss, and when
others of its parameters are trained or its modes change.
"""

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

LOOKS = 10  # a last layer of zeros moves with the first step; of some models most examples never have a gradient
_looks: WeakKeyDictionary[nn.Module, Counter[Hashable]] = WeakKeyDictionary()

Loss = Callable[[Tensor, Tensor], Tensor]
Uses = Sequence[tuple[str, nn.Module, Sequence[GradientEdge]]]  # of trained layers: name, layer, where its outputs are


def check_loss(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> None:
    """``ValueError`` for a loss that reaches the model's parameters otherwise than by its outputs.

    As with a penalty on the weights: that part of the gradient is of no example's, and would be left out.
    """
    if not len(y) or _known(model, loss, "loss"):
        return
    try:
        outputs = _outputs(model, x.unflatten(0, (len(y), -1))[0])
    except (RuntimeError, TypeError):  # torch's words for what cannot be copied, or does not take one example
        return
    if isinstance(outputs, Tensor) and loss(outputs, y[:1]).requires_grad:
        raise ValueError(
            "loss: expected a function of the model's outputs and the labels alone; got one of its parameters, too, "
            "whose gradient is no example's (weight decay is the optimiser's)"
        )
    _remember(model, loss, "loss")


def elsewhere(model: nn.Module, loss: Loss, losses: Tensor, layers: Uses) -> str | None:
    """Which parameter is in the graph of ``losses`` more often than its layer was called, if one is; in words.

    What a layer's rule knows of is its calls: of a weight that another layer uses too, a part of the gradient would be
    missing, and so would its clipping.
    """
    if _known(model, loss, "elsewhere"):
        return None
    used, nodes = _graph(losses)
    for name, layer, outputs in layers:
        called = sum(output.node in nodes for output in outputs)
        for parameter_name, parameter in layer.named_parameters(recurse=False):
            if used[parameter] > called:
                return f"{name or 'the model'}.{parameter_name} is used otherwise than by calling its layer"
    _remember(model, loss, "elsewhere")
    return None


def across(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, losses: Tensor, layers: Uses) -> str | None:
    """Why rows of the ``layers`` are not of one example alone, if they are not; in words.

    An example's rows are taken to lie together.  Where time comes first, or where the model looks at the whole batch,
    they are not its own, and clipping their gradient bounds no example's.  That shows in the gradients of the first
    example's loss, or, where none flows from row to row, in a loss that changes when all others are made like it.  What
    this pass cannot show, as a last layer of zeros hides what is before it, the next ones may.
    """
    if len(losses) < 2 or not any(outputs for _, _, outputs in layers) or _known(model, loss, "across"):
        return None
    seen = True
    for name, _, outputs in layers:
        gradients = torch.autograd.grad(losses[0], outputs, retain_graph=True, allow_unused=True) if outputs else ()
        gradients = [gradient.nan_to_num(0.0, 0.0, 0.0) for gradient in gradients if gradient is not None]  # 0 × NaN
        for gradient in gradients:
            rows, left_over = divmod(len(gradient), len(losses))
            if left_over or gradient[rows:].any():
                return f"a row of {name or 'the model'} is not of one example alone"
        seen &= not outputs or any(bool(gradient.any()) for gradient in gradients)
    by_example = x.unflatten(0, (len(losses), -1))
    others_alike = by_example[:1].expand_as(by_example)
    try:
        first, changed = (loss(_outputs(model, of.flatten(0, 1)), y)[0] for of in (by_example, others_alike))
    except torch.OutOfMemoryError:
        raise  # the reference would need more
    except RuntimeError as error:
        return f"its examples cannot be tried out on a copy ({error})"
    if not torch.isclose(first, changed, rtol=1e-3, atol=1e-5, equal_nan=True):
        return "an example's loss depends on the examples beside it, and is another without them"
    _remember(model, loss, "across", looks=LOOKS if seen and not torch.equal(by_example, others_alike) else 1)
    return None


@torch.no_grad()
def _outputs(model: nn.Module, x: Tensor) -> Tensor:
    """Of a copy, so that the model, its buffers and generators stay as they are, and draws are the same every time."""
    with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
        return copy.deepcopy(model)(x)


def _known(model: nn.Module, loss: Loss, question: str) -> bool:
    return _looks.get(model, Counter())[_state(model, loss, question)] >= LOOKS


def _remember(model: nn.Module, loss: Loss, question: str, *, looks: int = LOOKS) -> None:
    _looks.setdefault(model, Counter())[_state(model, loss, question)] += looks


def _state(model: nn.Module, loss: Loss, question: str) -> Hashable:
    trained = frozenset(parameter for parameter in model.parameters() if parameter.requires_grad)
    modes = tuple(
        (name, value)
        for layer in model.modules()
        for name, value in vars(layer).items()
        if isinstance(value, bool | str)
    )
    return question, _identity(loss), trained, modes


def _identity(value: object) -> Hashable:
    """Of functions that are made anew for every step the same, if they are.

    Of other objects a weak reference: it keeps no model alive, and is not that of a later one in the same place.
    """
    if isinstance(value, partial):
        return "partial", _identity(value.func), _identity(value.args), _identity(tuple(value.keywords.items()))
    if isinstance(value, tuple):
        return tuple(map(_identity, value))
    if code := getattr(value, "__code__", None):
        held = tuple(cell.cell_contents for cell in value.__closure__ or ())
        given = (value.__defaults__, getattr(value, "__self__", None))
        return code, _identity(held), _identity(given), repr(value.__kwdefaults__)
    try:
        found = ref(value)
        hash(found)
    except TypeError:  # numbers, words, lists
        return type(value), repr(value)
    return found


def _graph(losses: Tensor) -> tuple[Counter[Tensor], set[Node]]:
    """How many edges of the graph lead to each parameter, and the other nodes."""
    found: Counter[Tensor] = Counter()
    seen, ahead = {losses.grad_fn}, [losses.grad_fn]
    while ahead:
        for node, _ in ahead.pop().next_functions:
            if hasattr(node, "variable"):
                found[node.variable] += 1
            elif node is not None and node not in seen:
                seen.add(node)
                ahead.append(node)
    return found, seen
