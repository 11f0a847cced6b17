"""Whether layers' inputs and output gradients tell all of a model's per-example gradients, and each example's apart.

A model, or one built alike, is looked at until a pass has shown it, :data:`~lib.grads.looks.LOOKS` times at most, and
again at the 2nd, 4th, 8th … pass, then at one half of the examples without the other; what is found to be mixed stays
so.
"""

from collections import Counter
from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn.modules.batchnorm import _BatchNorm

from lib.grads import looks
from lib.grads.looks import Loss
from lib.grads.mixing import Uses, mixed, sets_of
from lib.grads.trials import Trial, refuse_kept, trial


class NotSupportedError(Exception):
    """Why the gradients of a model cannot be had from its layers' inputs and output gradients."""


def check_kept(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> None:
    """``ValueError`` for a model that keeps something of x (B·r, …) in a buffer, and for a loss that reaches the
    model's parameters otherwise than by its outputs.  B is at least 1.

    As with a penalty on the weights: that part of the gradient is of no example's, and would be left out.
    """
    if (look := looks.of(model, loss, "kept")).over:
        return
    one = _tried(model, x.unflatten(0, (len(y), -1))[0])
    check_buffers(model, x, one)
    if one is None:
        look.take(conclusive=False)
        return
    if isinstance(one.outputs, Tensor) and loss(one.outputs, y[:1]).requires_grad:
        raise ValueError(
            "loss: expected a function of the model's outputs and the labels alone; got one of its parameters, too, "
            "whose gradient is no example's (weight decay is the optimiser's)"
        )
    look.take(conclusive=len(y) > 1)


def check_buffers(model: nn.Module, x: Tensor, fewer: Trial | None = None) -> None:
    """``ValueError`` for a model that keeps something of what it sees, x (B, …), in a buffer other than batch norm's.

    How many there are is something, too: it shows in a trial of ``fewer``.  Batch norm's running averages are the
    caller's to account for.
    """
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)]
    averages = {f"{name}.{of_layer}" for name, layer in layers for of_layer, _ in layer.named_buffers()}
    whole, *others = _tried(model, x), _tried(model, torch.zeros_like(x)), fewer
    for other in others:
        # Of fewer examples a model draws other numbers, which it may keep.
        if whole and other and not (whole.drew and other is fewer):
            refuse_kept(whole, other, but=averages)


def _tried(model: nn.Module, x: Tensor) -> Trial | None:
    """None of a model that cannot be copied, or does not take x."""
    try:
        return trial(model, x)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError):  # torch's words for either, and Python's
        return None


def check_elsewhere(model: nn.Module, loss: Loss, losses: Tensor, layers: Uses) -> None:
    """``NotSupportedError`` for a parameter that is in the graph of ``losses`` more often than its layer was called.

    What a layer's rule knows of is its calls: of a weight that is used otherwise, too, by another layer or in a
    gradient that the model takes, a part of the gradient would be missing, and so would its clipping.
    """
    look = looks.of(model, loss, "elsewhere")
    if look.over and not look.again:
        return
    used, nodes = _graph(losses, {output.node for _, _, outputs in layers for output in outputs})
    for name, layer, outputs in layers:
        called = sum(output.node in nodes for output in outputs)
        for parameter_name, parameter in layer.named_parameters(recurse=False):
            if parameter.requires_grad and used[parameter] != called:
                raise NotSupportedError(
                    f"{name or 'the model'}.{parameter_name} is used otherwise than by calling its layer"
                )
    look.take(conclusive=True)


def check_alone(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, losses: Tensor, layers: Uses) -> None:
    """``NotSupportedError`` where rows of the ``layers`` are not of one example alone.

    An example's rows are taken to lie together.  Where time comes first, or where the model looks at the whole batch,
    they are not its own, and clipping their gradient bounds no example's.  That shows in the gradients of some
    examples' losses, or, where none flows from row to row, in rows and losses of theirs that change when all others are
    made alike, or are left out.  What a pass cannot show, as a last layer of zeros hides gradients before it, the next
    ones may; and rows may change places in a later batch, as texts that are sorted by length do.

    Raises ``ValueError`` as :func:`check_buffers` does.
    """
    if len(losses) < 2 or not any(outputs for _, _, outputs in layers):
        return
    look = looks.of(model, loss, "alone")
    if not look.found:
        if not look.over:
            look.found, conclusive = mixed(model, loss, x, y, losses, layers, sets_of(len(losses)))
            look.take(conclusive=conclusive)
        elif look.again:
            half = torch.randperm(len(losses), generator=torch.Generator().manual_seed(look.asked)) % 2 == 0
            look.found, _ = mixed(model, loss, x, y, losses, layers, [half, ~half])
    if look.found:
        raise NotSupportedError(look.found)


def _graph(losses: Tensor, calls: Collection[Node]) -> tuple[Counter[Tensor], set[Node]]:
    """How often each parameter is used in the graph, itself or what is made of it alone, and the graph's nodes.

    A weight is transposed, and noise added to it, before it is used: what is used is that, however often.
    """
    seen, ahead = {losses.grad_fn}, [losses.grad_fn]
    while ahead:
        for node, _ in ahead.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                ahead.append(node)
    made_of: dict[Node, Tensor | None] = dict.fromkeys((*calls, losses.grad_fn))
    for node in seen:
        path = []
        while node not in made_of:
            path.append(node)
            before = [earlier for earlier, _ in node.next_functions if earlier is not None]
            if len(before) != 1:  # a parameter, or made of several
                made_of[node] = getattr(node, "variable", None)
            else:
                (node,) = before
        made_of |= dict.fromkeys(path, made_of[node])
    edges = (later for node in seen if made_of[node] is None for later, _ in node.next_functions if later is not None)
    return Counter(made_of[later] for later in edges if made_of[later] is not None), seen
