"""Training methods: one file, one method.

A method couples everything that its privacy depends on (which examples form a batch, what is done to their gradients,
how much noise is added and where) with the account of it, so that wrong combinations cannot be written.  The trainer
knows :class:`Method` and never a method's name.  A method file defines ``build(run, examples, model) -> Method`` and
``SETTINGS``, the fields of a run that mean something to it and not to every method, if it has such.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice
from typing import Any, Self

import torch
from torch import Tensor, nn

from lib import registry, schedules
from lib.run import Run
from lib.sampling import Sampler

Public = tuple[Tensor, Tensor]  # inputs (M, …) and labels (M,)
Batch = tuple[Tensor, Tensor]  # inputs (B, …) and labels (B,)


class Method(ABC):
    """One run's method, over a training set of ``examples``.

    ``steps`` may be fewer than the run's epochs hold: a privacy budget can end the training.  ``groups`` of examples
    take turns, see :class:`~lib.sampling.Sampler`.  ``mixed_precision``: whether :meth:`backward` may run under
    ``torch.autocast``: what bounds one example's part is found in float32 even then, or nothing is bounded.
    """

    mixed_precision = False

    def __init__(self, run: Run, examples: int, *, groups: int = 1) -> None:
        self.run = run
        self.sampler = Sampler(run.sampler, examples, run.batch_size, groups)
        self.steps = run.epochs * self.sampler.steps_per_epoch

    def batches(self, generator: torch.Generator, step: int) -> Iterator[Tensor]:
        """The batches, as tensors of indices, of the epoch that ``step`` is in, from ``step`` on.

        ``generator`` as it was when the epoch began; the last epoch ends with ``steps``.
        """
        done = step % self.sampler.steps_per_epoch
        return islice(self.sampler.epoch(generator, step - done), done, self.steps - (step - done))

    def lr_factor(self, step: int) -> float:
        """What the run's step size is multiplied by at ``step``."""
        run, per_epoch = self.run, self.sampler.steps_per_epoch
        return schedules.factor(
            run.lr_schedule,
            step,
            steps=run.epochs * per_epoch,
            steps_per_epoch=per_epoch,
            decay=run.lr_decay,
            decay_epochs=run.lr_decay_epochs,
        )

    def prepare(self, model: nn.Module, public: Public | None) -> None:  # noqa: B027  most have nothing to prepare
        """Called before every epoch, with the run's public examples as the model takes them."""

    def history(self) -> dict[str, Any]:
        """What was measured before every epoch, for the record: name → values by epoch."""
        return {}

    @abstractmethod
    def backward(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor | None:
        """Leave in every parameter's ``grad`` what the optimiser is to follow at ``step`` = 0, 1, …

        Returns the batch's mean loss, still on the device, or None where the loss is private.
        """

    @classmethod
    def backward_together(
        cls, methods: Sequence[Self], models: Sequence[nn.Module], batches: Sequence[Batch], step: int
    ) -> list[Tensor | None]:
        """:meth:`backward` of each: here one after the other, elsewhere in one pass for all of them, to rounding.

        The runs differ in nothing but what :func:`may_differ` says, so the methods are of one class and equally long.
        """
        each = zip(methods, models, batches, strict=True)
        return [method.backward(model, x, y, step) for method, model, (x, y) in each]

    def update(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Change the parameters."""
        _lay_out_gradients(model)
        optimizer.step()

    def tested(self, model: nn.Module) -> AbstractContextManager[None]:
        """Inside, the model's parameters are those that are tested."""
        return nullcontext()

    @abstractmethod
    def privacy(self) -> dict[str, Any]:
        """The record's privacy block: what is claimed, proven and audited."""


def _lay_out_gradients(model: nn.Module) -> None:
    """Have every gradient lie in memory as its parameter does.

    torch's optimisers take that for granted (pytorch/pytorch#149367).  Their fused steps go through both in the order
    of memory, and on a CPU do not look whether it is one: of a convolution of images with channels last, the
    gradient's entries would be added to other weights than their own.
    """
    for parameter in model.parameters():
        gradient = parameter.grad
        if gradient is not None and gradient.stride() != parameter.stride():
            parameter.grad = torch.empty_like(parameter).copy_(gradient)


def build(run: Run, examples: int, model: nn.Module) -> Method:
    """The method in ``lib/methods/<run.method>.py``, set up for ``run`` of ``model`` on ``examples`` training examples.

    Raises ``ValueError`` for settings that the method does not have or cannot do, and for a file that builds none.
    """
    expected = f"lib/methods/{run.method}.py: expected build(run, examples, model) that returns a Method"
    make = getattr(registry.load("methods", run.method), "build", None)
    registry.check_call(expected, make, run, examples, model)
    refuse(run, *sorted(frozenset().union(*map(_settings, registry.names("methods"))) - _settings(run.method)))
    method = make(run, examples, model)
    if not isinstance(method, Method):
        raise ValueError(f"{expected}; got {method!r}")
    return method


@cache
def _settings(method: str) -> frozenset[str]:
    said = getattr(registry.load("methods", method), "SETTINGS", frozenset())
    if isinstance(said, str) or not set(said) <= set(Run.__dataclass_fields__):
        raise ValueError(f"lib/methods/{method}.py: SETTINGS: expected names of Run's fields; got {said!r}")
    return frozenset(said)


def may_differ(run: Run) -> tuple[str, ...]:
    """The fields in which runs may differ from ``run`` and have their gradients found with its; none if it is alone.

    A method file says it in a function of this name, if its :meth:`Method.backward_together` is one pass.
    """
    said = getattr(registry.load("methods", run.method), "may_differ", lambda run: ())
    return said(run)


def refuse(run: Run, *fields: str) -> None:
    """``ValueError`` if one of ``fields`` is set: a setting that is silently ignored would falsify the record."""
    defaults = {name: field.default for name, field in Run.__dataclass_fields__.items()}
    for name in fields:
        if getattr(run, name) != defaults[name]:
            raise ValueError(
                f"{name}: expected {defaults[name]!r} for method {run.method!r}; got {getattr(run, name)!r}"
            )
