"""Per-example gradients: their norms, and the sum of the clipped ones.

For examples i = 1 … B with gradients g_i of their own losses, and clip norm C,

    ``clipped_sum = Σ_i g_i · min(1, C / ‖g_i‖)``        (abadi, Algorithm 1; a sum, not a mean)

    >>> import torch
    >>> from functools import partial
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> loss = partial(torch.nn.functional.cross_entropy, reduction="none")
    >>> total, norms = clipped_sum(model, loss, torch.eye(2), torch.tensor([0, 1]), clip_norm=0.1)
    >>> total["weight"].shape, norms.shape
    (torch.Size([2, 2]), torch.Size([2]))

Two implementations of one interface: ``reference`` (:mod:`lib.grads.reference`, ``vmap(grad)``, right for any model
that ``vmap`` takes) and ``fast`` (:mod:`lib.grads.fast`, one forward and one backward to the layers' outputs).  A
third, ``joint`` (:mod:`lib.grads.joint`), is for losses that depend on each other, which nobody should want: it has to
be asked for.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from lib import tf32
from lib.grads import fast, joint, reference, uses
from lib.grads.fast import trained_layers as trained_layers
from lib.grads.groups import Group as Group
from lib.grads.groups import Groups
from lib.grads.looks import Loss
from lib.grads.mini_set import clipped_mean as clipped_mean
from lib.grads.uses import check_buffers as check_buffers
from lib.layers import WithPublic

IMPLEMENTATIONS = {"fast": fast.clipped_sum, "reference": reference.clipped_sum, "joint": joint.clipped_sum}


def clipped_sum(
    model: nn.Module,
    loss: Loss,
    x: Tensor,
    y: Tensor,
    *,
    clip_norm: float | Mapping[Group, float] | Groups,
    implementation: str = "fast",
    microbatch_size: int | None = None,
) -> tuple[dict[str, Tensor], Tensor | dict[Group, Tensor]]:
    """``({parameter name: Σ_i clipped g_i}, ‖g_i‖ before clipping (B,))``; the model's ``grad`` fields are not touched.

    x (B·r, …) has r rows for every example, one example's after another's, y (B, …) one; ``joint`` takes r = 1 alone.
    ``loss(outputs, y) -> (B,)``, one loss per example, of which g_i is the gradient.  ``clip_norm``: C > 0
    (``math.inf``: no clipping), or one for each group of parameters, ``{module or parameter name, or a tuple of them:
    C_h}``; then each group is clipped by itself and the norms come as ``{group: (B,)}``.  Or
    :class:`~lib.grads.groups.Groups`, with scales for the norms.  ``microbatch_size``, in examples, bounds the memory
    and changes nothing else, but for ``joint``, where examples share statistics with no others than those of their
    microbatch.

    An example with a non-finite gradient counts as zero; its norm is returned as it is.  An empty batch gives zeros.
    What the model draws, as dropout does, is drawn anew for every microbatch, once more where one of its gradients is
    not finite, and in the reference is the same for all of its examples.  Autocast and TF32 are off inside, and where a
    model has its own autocast, gradients are clipped and summed in full all the same: a bound of half precision is
    none.  Norms are products of float32 squares: the bound needs inputs of layers that are no longer than 1e15, beside
    which output gradients of 1e-19 count as 0.  Raises ``ValueError`` for a clip norm that is not positive, groups that
    leave a parameter out, parameters of half or of mixed precision, an unknown implementation, rows that cannot be
    shared out among the examples, a model that keeps something of what it sees in a buffer, hooks on parameters'
    gradients, and for batch norm on batch statistics, where no example has a gradient of its own; of private and public
    examples together, ``joint`` takes it.

    How a model uses its parameters, and whether an example's gradient is its own, is looked at in the first passes, at
    the 2nd, 4th, 8th … after them, and when flags (bools and words), hooks or what is trained change.  Not watched are
    a *number*, list or function that changes what the model does, what a draw mixes in some passes alone, and what a
    model keeps in a plain attribute.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(f"implementation: expected one of {', '.join(IMPLEMENTATIONS)}; got {implementation!r}")
    if microbatch_size is not None and microbatch_size < 1:
        raise ValueError(f"microbatch_size: expected None or at least 1; got {microbatch_size}")
    for name, value in {"x": x, "y": y}.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a tensor; got {type(value).__name__}")
    _refuse_batch_statistics(model, allowed=WithPublic if implementation == "joint" else ())
    groups = clip_norm if isinstance(clip_norm, Groups) else Groups(model, clip_norm)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if hooked := [name for name, p in parameters.items() if p._backward_hooks or p._post_accumulate_grad_hooks]:
        raise ValueError(f"{hooked[0]}: expected no hook on it, which no example's gradient goes through; got one")
    if groups.of.keys() != parameters.keys():
        raise ValueError("groups: expected those of the parameters that are trained; got others'")
    if torch.is_inference_mode_enabled():
        raise RuntimeError("clipped_sum: expected to be called outside of torch.inference_mode, which has no gradients")
    norms = [torch.zeros(0, len(groups.names), dtype=next(iter(parameters.values())).dtype, device=x.device)]
    total = {}
    rows, size = _rows(x, y, most=1 if implementation == "joint" else None), microbatch_size or max(len(y), 1)
    with torch.enable_grad(), torch.autocast(x.device.type, enabled=False), tf32.forbidden():
        for part_x, part_y in zip(x.split(size * rows), y.split(size), strict=True):
            if len(part_y):
                uses.check_kept(model, loss, part_x, part_y)
                part, part_norms = IMPLEMENTATIONS[implementation](model, loss, part_x, part_y, groups)
                norms.append(part_norms)
                for name, value in part.items():
                    total[name] = total[name].add_(value) if name in total else value
    total = {name: total[name] if name in total else torch.zeros_like(p) for name, p in parameters.items()}
    return total, groups.named(torch.cat(norms))


def _rows(x: Tensor, y: Tensor, *, most: int | None) -> int:
    """How many rows of x every example has."""
    rows = max(1, len(x) // max(len(y), 1))
    if len(x) != rows * len(y) or (most and rows > most):
        raise ValueError(
            f"x: expected {'one row' if most else 'as many rows'} for each of {len(y)} examples; got {len(x)}"
        )
    return rows


def _refuse_batch_statistics(model: nn.Module, allowed: type[nn.Module] | tuple[()]) -> None:
    for name, module in model.named_modules():
        batch_norm = isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)
        if isinstance(module, _InstanceNorm) and module.training and module.track_running_stats:
            raise ValueError(
                f"{name or type(module).__name__}: its running averages would be of private examples, which nothing "
                "accounts for; use track_running_stats=False"
            )
        joint = isinstance(module, WithPublic) and module.joint
        if (batch_norm or joint) and not isinstance(module, allowed):
            raise ValueError(
                f"{name or type(module).__name__}: batch norm on batch statistics makes every example's gradient "
                "depend on all others, so clipping each bounds nothing; use layer or group norm, batch norm with "
                "public statistics, or frozen statistics (module.eval())"
            )
