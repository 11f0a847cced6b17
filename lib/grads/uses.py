"""Whether layers' inputs and output gradients tell all of a model's per-example gradients, and each example's apart.

A model is looked at until a pass has shown it, :data:`LOOKS` times at most, and again with another loss, and when
others of its parameters are trained or its modes change.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node
from torch.nn.modules.batchnorm import _BatchNorm

LOOKS = 10  # a last layer of zeros moves with the first step; of some models most examples never have a gradient
NOT_ALONE = "a row of {} is not of one example alone"
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
        outputs = _trial(model, x.unflatten(0, (len(y), -1))[0]).outputs
    except (RuntimeError, TypeError):  # torch's words for what cannot be copied, or does not take one example
        return
    if isinstance(outputs, Tensor) and loss(outputs, y[:1]).requires_grad:
        raise ValueError(
            "loss: expected a function of the model's outputs and the labels alone; got one of its parameters, too, "
            "whose gradient is no example's (weight decay is the optimiser's)"
        )
    _remember(model, loss, "loss")


def check_buffers(model: nn.Module, x: Tensor) -> None:
    """``ValueError`` for a model that keeps something of what it sees, x (B, …), in a buffer other than batch norm's.

    Batch norm's running averages are the caller's to account for.
    """
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)]
    averages = {f"{name}.{of_layer}" for name, layer in layers for of_layer, _ in layer.named_buffers()}
    try:
        trials = [_trial(model, rows) for rows in (x, torch.zeros_like(x))]
    except RuntimeError:  # torch's words for what cannot be copied
        return
    _refuse_kept(*trials, but=averages)


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
    they are not its own, and clipping their gradient bounds no example's.  That shows in the gradients of some
    examples' losses, or, where none flows from row to row, in rows and losses of theirs that change when all others are
    made alike.  What a pass cannot show, as a last layer of zeros hides gradients before it, the next ones may.

    Raises ``ValueError`` for a model that keeps something of what it sees in a buffer.
    """
    if len(losses) < 2 or not any(outputs for _, _, outputs in layers) or _known(model, loss, "across"):
        return None
    place = torch.arange(len(losses), device=losses.device)
    # Whose rows are looked at, not the others': every second one's, and the first half's, and the other way round.
    sides = [side for half in (place % 2 == 0, 2 * place < len(losses)) for side in (half, ~half)]
    outputs = [output for _, _, of_layer in layers for output in of_layer]
    seen = {name: not of_layer for name, _, of_layer in layers}
    for mine in sides:
        found = iter(torch.autograd.grad(losses[mine].sum(), outputs, retain_graph=True, allow_unused=True))
        for name, _, of_layer in layers:
            for gradient in filter(lambda found: found is not None, islice(found, len(of_layer))):
                rows = _rows(gradient.nan_to_num(0.0, 0.0, 0.0), len(losses))  # 0 × NaN
                if rows is None or rows[~mine].any():
                    return NOT_ALONE.format(name or "the model")
                seen[name] |= bool(rows.any())
    by_example, names = x.unflatten(0, (len(losses), -1)), [name for name, _, _ in layers]
    conclusive = all(seen.values())
    try:
        trial = _trial(model, x, names)
        for mine in sides:
            alike = torch.where(mine.view(-1, *[1] * (by_example.dim() - 1)), by_example, by_example[mine][:1])
            if reason := _differs(trial, _trial(model, alike.flatten(0, 1), names), mine, lambda o: loss(o, y)):
                return reason
            conclusive &= not torch.equal(by_example, alike)
    except torch.OutOfMemoryError:
        raise  # the reference would need more
    except RuntimeError as error:
        return f"its examples cannot be tried out on a copy ({error})"
    _remember(model, loss, "across", looks=LOOKS if conclusive else 1)
    return None


@dataclass(frozen=True)
class Trial:
    """Outputs of a pass, the inputs of every call of the named layers, and all buffers after it."""

    outputs: Tensor
    names: list[str]
    inputs: list[Tensor]
    buffers: dict[str, Tensor]


@torch.enable_grad()  # without, some layers take another way; but nothing needs a gradient here
def _trial(model: nn.Module, x: Tensor, layers: Iterable[str] = ()) -> Trial:
    """Of a copy, so that the model, its buffers and generators stay as they are, and draws are the same every time."""
    with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
        tried, names, inputs = copy.deepcopy(model).requires_grad_(False), [], []
        for name in layers:

            def remember(_: nn.Module, given: tuple[Tensor, ...], named: dict[str, Tensor], name: str = name) -> None:
                if torch.is_grad_enabled():  # a pass for constants, as of public examples, has rows of its own
                    names.append(name)
                    inputs.extend(value.detach() for value in (*given, *named.values()))

            tried.get_submodule(name).register_forward_pre_hook(remember, with_kwargs=True)
        outputs = tried(x)
    outputs = outputs.detach() if isinstance(outputs, Tensor) else outputs  # a copy's forward may be another's
    return Trial(outputs, names, inputs, dict(tried.named_buffers()))


def _differs(one: Trial, other: Trial, mine: Tensor, losses_of: Callable[[Tensor], Tensor]) -> str | None:
    """What of the examples that are ``mine`` (B,), the same in both trials, is not, in words."""
    _refuse_kept(one, other)
    comparable = one.names == other.names  # not where fewer calls are made of shorter texts
    for name, *inputs in zip(one.names, one.inputs, other.inputs, strict=True) if comparable else ():
        rows = [_rows(of_trial, len(mine)) for of_trial in inputs]
        if any(of_trial is None for of_trial in rows) or not _same(*(of_trial[mine] for of_trial in rows)):
            return NOT_ALONE.format(name or "the model")
    if not _same(*(losses_of(trial.outputs)[mine] for trial in (one, other))):
        return "an example's loss depends on the examples beside it, and is another without them"
    return None


def _refuse_kept(one: Trial, other: Trial, *, but: Collection[str] = ()) -> None:
    for name, buffer in one.buffers.items():
        if name not in but and not torch.isclose(buffer, other.buffers[name], rtol=0.0, atol=0.0, equal_nan=True).all():
            raise ValueError(
                f"{name}: expected a buffer that does not depend on the examples; got one that keeps something of what "
                "it sees, which would be released with the model, and nothing accounts for it"
            )


def _rows(value: Tensor, examples: int) -> Tensor | None:
    """Those of every example, (B, r, …), if each has as many."""
    return value.unflatten(0, (examples, -1)) if len(value) % examples == 0 else None


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two results of the same draws are, but for rounding, which is relative to the largest."""
    if one.shape != other.shape or not one.is_floating_point():
        return torch.equal(one, other)
    largest = one.nan_to_num(0.0, 0.0, 0.0).abs().max().item() if one.numel() else 0.0
    return bool(torch.isclose(one, other, rtol=1e-3, atol=1e-5 * largest, equal_nan=True).all())


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
