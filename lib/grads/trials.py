"""A model tried out on other examples, on a copy, and what two trials differ in."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.utils.hooks import RemovableHandle


@dataclass(frozen=True)
class Trial:
    """Outputs of a pass, the inputs of every call of the named layers and where its outputs are in the graph, all
    buffers and parameters after it, and whether it drew."""

    outputs: Tensor
    names: list[str]
    inputs: list[Tensor]
    edges: list[GradientEdge]
    kept: dict[str, Tensor]
    drew: bool

    def gradients(self, losses: Tensor) -> list[Tensor | None]:
        """Of the sum of ``losses``, made of ``outputs``, in every call's outputs."""
        if not (self.edges and losses.requires_grad):
            return []
        return list(torch.autograd.grad(losses.sum(), self.edges, retain_graph=True, allow_unused=True))


@torch.enable_grad()  # without, some layers take another way
def trial(
    model: nn.Module, x: Tensor, layers: Sequence[str] = (), *, gradients: bool = False, drawing: bool = True
) -> Trial:
    """Of a copy, so that the model, its buffers and generators stay as they are, and draws are the same every time.

    ``gradients``: whether they can be had, which keeps the graph.  ``drawing``: or in evaluation mode, where dropout
    draws nothing.
    """
    with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
        tried, names, inputs, edges = copy.deepcopy(model), [], [], []
        if not {*map(id, model.parameters())}.isdisjoint(map(id, tried.parameters())):
            raise TypeError("a part of it is its own copy")
        if not gradients:
            tried.requires_grad_(False)
        if not drawing:
            tried.eval()
        keep_in_order(tried)
        for name in layers:

            def remember(_: nn.Module, given: tuple[Tensor, ...], named: dict[str, Tensor], name: str = name) -> None:
                if torch.is_grad_enabled():  # a pass for constants, as of public examples, has rows of its own
                    names.append(name)
                    inputs.extend(value.detach() for value in (*given, *named.values()))

            def place(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
                if torch.is_grad_enabled():
                    edges.append(get_gradient_edge(output))

            tried.get_submodule(name).register_forward_pre_hook(remember, with_kwargs=True)
            if gradients:
                tried.get_submodule(name).register_forward_hook(place, prepend=True)
        before = _generator_states(x.device)
        outputs = tried(x)
        drew = not all(map(torch.equal, before, _generator_states(x.device)))
    if isinstance(outputs, Tensor) and not gradients:  # a copy's forward may be another's
        outputs = outputs.detach()
    kept = dict(tried.named_buffers()) | {name: parameter.detach() for name, parameter in tried.named_parameters()}
    return Trial(outputs, names, inputs, edges, kept, drew)


def keep_in_order(model: nn.Module) -> list[RemovableHandle]:
    """Of a batch of one, torch 2.15 takes a gradient that is not contiguous for another when it goes back through."""

    def in_order(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(torch.Tensor.contiguous)

    by_channel = [layer for layer in model.modules() if isinstance(layer, _BatchNorm | _InstanceNorm)]
    return [layer.register_forward_hook(in_order) for layer in by_channel]


def _generator_states(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])


def refuse_kept(one: Trial, other: Trial, *, but: Collection[str] = ()) -> None:
    """``ValueError`` for a buffer or parameter that is another in two trials, on different examples."""
    for name, buffer in one.kept.items():
        if name in but:
            continue
        if not identical(buffer, other.kept[name]):
            raise ValueError(
                f"{name}: expected a buffer or parameter that does not depend on the examples; got one that keeps "
                "something of what it sees, which would be released with the model, and nothing accounts for it"
            )


def identical(one: Tensor, other: Tensor) -> bool:
    """Whether all numbers are the same, and what is none is none in both."""
    return one.shape == other.shape and bool(torch.isclose(one, other, rtol=0.0, atol=0.0, equal_nan=True).all())


def rows_of(value: Tensor, examples: int) -> Tensor | None:
    """Those of every example, (B, r, …), if each has as many."""
    return value.unflatten(0, (examples, -1)) if value.dim() and len(value) % examples == 0 else None


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two results of the same draws are, but for rounding, which is relative to the largest."""
    if torch.equal(one, other):  # as they mostly are, and nothing is copied for it
        return True
    if one.shape != other.shape or not one.is_floating_point():
        return False
    largest = one.nan_to_num(0.0, 0.0, 0.0).abs().max().item() if one.numel() else 0.0
    rtol = 1e-3 if one.is_cuda else 1e-5  # a GPU may compute with fewer digits than it keeps
    return bool(torch.isclose(one, other, rtol=rtol, atol=1e-5 * largest, equal_nan=True).all())
