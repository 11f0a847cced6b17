"""A model tried out on other examples, on a copy, and what two trials differ in."""

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Trial:
    """Outputs of a pass, the inputs of every call of the named layers, all buffers after it, and whether it drew."""

    outputs: Tensor
    names: list[str]
    inputs: list[Tensor]
    buffers: dict[str, Tensor]
    drew: bool


@torch.enable_grad()  # without, some layers take another way; but nothing needs a gradient here
def trial(model: nn.Module, x: Tensor, layers: Iterable[str] = ()) -> Trial:
    """Of a copy, so that the model, its buffers and generators stay as they are, and draws are the same every time."""
    with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
        tried, names, inputs = copy.deepcopy(model).requires_grad_(False), [], []
        for name in layers:

            def remember(_: nn.Module, given: tuple[Tensor, ...], named: dict[str, Tensor], name: str = name) -> None:
                if torch.is_grad_enabled():  # a pass for constants, as of public examples, has rows of its own
                    names.append(name)
                    inputs.extend(value.detach() for value in (*given, *named.values()))

            tried.get_submodule(name).register_forward_pre_hook(remember, with_kwargs=True)
        before = _generator_states(x.device)
        outputs = tried(x)
        drew = not all(map(torch.equal, before, _generator_states(x.device)))
    outputs = outputs.detach() if isinstance(outputs, Tensor) else outputs  # a copy's forward may be another's
    return Trial(outputs, names, inputs, dict(tried.named_buffers()), drew)


def _generator_states(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])


def refuse_kept(one: Trial, other: Trial, *, but: Collection[str] = ()) -> None:
    """``ValueError`` for a buffer that is another in two trials, on different examples."""
    for name, buffer in one.buffers.items():
        if name in but:
            continue
        kept = other.buffers[name]
        if buffer.shape != kept.shape or not torch.isclose(buffer, kept, rtol=0.0, atol=0.0, equal_nan=True).all():
            raise ValueError(
                f"{name}: expected a buffer that does not depend on the examples; got one that keeps something of what "
                "it sees, which would be released with the model, and nothing accounts for it"
            )


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
