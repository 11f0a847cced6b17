"""One forward pass, one backward pass to the layers' outputs, and from there norms and the clipped sum.

A layer's per-example gradient is a contraction of its input with the gradient of its output (:mod:`lib.grads.rules`).
Neither pass is done per example, and no example's gradient is formed where its norm can be had for less.
"""

import warnings
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.modules.module import _global_forward_hooks

from lib.grads import reference, uses
from lib.grads.groups import Groups
from lib.grads.looks import Loss
from lib.grads.rules import least_dims, rule_for
from lib.grads.trials import keep_in_order
from lib.grads.uses import NotSupportedError


@dataclass
class Calls:
    """What one layer saw: its inputs, and where its outputs are in the graph, for every time it was called.

    The place in the graph, not the tensor: that may be changed in place afterwards, as by ``ReLU(inplace=True)``.
    A layer that sees r rows for every example, one example's after another's, was called r times.
    """

    name: str
    layer: nn.Module
    inputs: list[Tensor] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    outputs: list[GradientEdge] = field(default_factory=list)
    shapes: list[torch.Size] = field(default_factory=list)


def clipped_sum(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, groups: Groups) -> tuple[dict[str, Tensor], Tensor]:
    """Sums of the clipped gradients, and the norms (B, groups) before clipping.

    A model is handed to the reference, with a warning, if it has trainable parameters in a layer that has no rule, or a
    parameter that two layers share or that is used otherwise than by calling its layer; if a layer is called with one
    example, within a transform, or without gradients alone; and if an example's loss depends on other examples or on
    how many there are.
    """
    try:
        return by_layers(model, loss, x, y, groups)
    except NotSupportedError as reason:
        warnings.warn(f"{reason}; its gradients come from the slow reference implementation", stacklevel=3)
        return reference.clipped_sum(model, loss, x, y, groups)


def by_layers(
    model: nn.Module, loss: Loss, x: Tensor, y: Tensor, groups: Groups, *, joint: bool = False
) -> tuple[dict[str, Tensor], Tensor]:
    """The same, or ``NotSupportedError``; ``joint``: losses may depend on other examples, if no gradient does."""
    calls, losses = forward(model, trained_layers(model), loss, x, y)
    if losses.requires_grad and not joint:
        uses.check_alone(model, loss, x, y, losses, [(call.name, call.layer, call.outputs) for call in calls])
    calls = [call for call in calls if call.outputs]
    if not (calls and losses.requires_grad):  # what is trained has no part in the losses
        return {}, losses.new_zeros(len(y), len(groups.names))
    outputs = [output for call in calls for output in call.outputs]
    gradients = iter(torch.autograd.grad(losses.sum(), outputs, allow_unused=True))
    contractions, squares = {}, {}
    for call in calls:
        of_call = [next(gradients) for _ in call.outputs]
        of_call = [losses.new_zeros(s) if g is None else g for s, g in zip(call.shapes, of_call, strict=True)]
        prefix = f"{call.name}." if call.name else ""
        inputs, of_call = (
            _by_row(call.name, _in_full(call.layer, values), len(y)) for values in (call.inputs, of_call)
        )
        for name, contraction in rule_for(call.layer)(call.layer, inputs, of_call).items():
            if prefix + name in groups.of:
                contractions[prefix + name] = contraction
                squares[prefix + name] = contraction.squares()
    norms = groups.norms(squares)
    finite = norms.isfinite().all(dim=1)
    if not finite.all():  # 0 × NaN is NaN, so weights cannot take such an example out of a sum
        if finite.any():
            by_example = x.unflatten(0, (len(y), -1))
            of_finite = by_layers(model, loss, by_example[finite].flatten(0, 1), y[finite], groups, joint=joint)
            return of_finite[0], norms
        return {name: torch.zeros_like(model.get_parameter(name)) for name in contractions}, norms
    factors = groups.factors(norms)
    return {name: c.weighted_sum(factors[:, groups.of[name]]) for name, c in contractions.items()}, norms


def _in_full(layer: nn.Module, calls: list[Tensor]) -> list[Tensor]:
    """In the precision of the layer's parameters, which a model's own autocast lowers: a sum of half would be off."""
    dtype = next(layer.parameters(recurse=False)).dtype
    return [call.to(dtype) if call.is_floating_point() else call for call in calls]


def _by_row(name: str, calls: list[Tensor], examples: int) -> list[Tensor]:
    """The calls (B·r, …) as r calls (B, …) each."""
    if all(len(call) == examples for call in calls):
        return calls
    if any(len(call) % examples for call in calls):
        rows = [len(call) for call in calls]
        raise ValueError(f"{name}: expected the same number of rows for each of {examples} examples; got {rows}")
    return [row for call in calls for row in call.unflatten(0, (examples, -1)).unbind(1)]


def trained_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Those that have trainable parameters of their own, by name."""
    return {name: m for name, m in model.named_modules() if any(p.requires_grad for p in m.parameters(recurse=False))}


def check_layers(model: nn.Module, layers: dict[str, nn.Module]) -> None:
    """``NotSupportedError`` for a trained layer that has no rule, and for a parameter that two of them share."""
    for name, layer in layers.items():
        own = {parameter for parameter, _ in layer.named_parameters(recurse=False)}
        if rule_for(layer) is None or not own <= {"weight", "bias"}:
            raise NotSupportedError(
                f"{name or 'the model'} ({type(layer).__name__}) has no rule for per-example gradients"
            )
        if not {"forward", "_conv_forward"}.isdisjoint(vars(layer)):
            raise NotSupportedError(f"{name or 'the model'} has another forward than its class")
        if isinstance(layer, nn.Embedding) and (layer.scale_grad_by_freq or layer.max_norm is not None):
            raise NotSupportedError(
                f"{name or 'the model'} (Embedding with scale_grad_by_freq or max_norm) has no rule for that"
            )
    if any(layer._is_full_backward_hook is False for layer in model.modules()):
        raise NotSupportedError("a layer has a backward hook of the old kind, which may change its gradients")
    if _global_forward_hooks:
        raise NotSupportedError("a global forward hook may change what layers put out")
    named = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    if len(named) > len(list(model.named_parameters())):
        raise NotSupportedError("a parameter is shared by two layers")


def forward(
    model: nn.Module, layers: dict[str, nn.Module], loss: Loss, x: Tensor, y: Tensor
) -> tuple[list[Calls], Tensor]:
    """What each of the ``layers`` saw in one pass, and its losses (B,); ``NotSupportedError`` if that is not all."""
    check_layers(model, layers)
    calls, constant = {layer: Calls(name, layer) for name, layer in layers.items()}, set()
    own = {layer: dict(layer.named_parameters(recurse=False)) for layer in layers.values()}

    def remember(layer: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor], output: Tensor) -> None:
        call, (given,) = calls[layer], (*inputs, *named.values())
        if not torch.is_grad_enabled():  # a pass for constants, as of the public examples, has no part in the loss
            constant.add(layer)
            return
        if given.dim() < least_dims(layer):
            raise NotSupportedError(f"{call.name or 'the model'} is called with one example, and not with a batch")
        if any(getattr(layer, name) is not parameter for name, parameter in own[layer].items()):
            raise NotSupportedError(f"{call.name or 'the model'} is called with other parameters than its own")
        call.inputs.append(given.detach())
        call.versions.append(given._version)
        try:
            call.outputs.append(get_gradient_edge(output))
        except RuntimeError as error:  # within a transform of torch.func
            raise NotSupportedError(f"{call.name or 'the model'} has no place in the graph ({error})") from error
        call.shapes.append(output.shape)

    # Before other hooks, which may change the output.
    handles = [layer.register_forward_hook(remember, prepend=True, with_kwargs=True) for layer in layers.values()]
    handles += keep_in_order(model)
    try:
        losses = loss(model(x), y)
    finally:
        for handle in handles:
            handle.remove()
    if losses.shape != y.shape[:1]:
        raise ValueError(f"loss: expected one for each of {len(y)} examples, ({len(y)},); got {tuple(losses.shape)}")
    for call in calls.values():
        if [x._version for x in call.inputs] != call.versions:
            raise ValueError(f"{call.name}: expected its input unchanged; got one changed in place after it was used")
        if not call.outputs and call.layer in constant:  # or its gradient is found in a pass of its own
            raise NotSupportedError(f"{call.name} is only called without gradients")
    if losses.requires_grad:
        uses.check_elsewhere(model, loss, losses, [(call.name, call.layer, call.outputs) for call in calls.values()])
    return list(calls.values()), losses
