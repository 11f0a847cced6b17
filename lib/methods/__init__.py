"""Training methods: one file, one method.

A method couples everything that its privacy depends on, so that wrong combinations cannot be written.  The trainer
knows this interface and never a method's name:

``batches(examples, generator)``   one epoch's index tensors
``backward(model, x, y)``          leaves in every parameter's ``grad`` what the optimiser is to follow
``privacy(examples, steps)``       the record's privacy block: what is claimed, proven and audited

A method file defines ``build(run) -> Method``.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from lib import registry
from lib.run import Run


class Method(Protocol):
    """The interface above, as a type."""

    def batches(self, examples: int, generator: torch.Generator) -> Iterator[Tensor]: ...

    def backward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor: ...

    def privacy(self, examples: int, steps: int) -> dict[str, Any]: ...


def build(run: Run) -> Method:
    """The method in ``lib/methods/<run.method>.py``, set up for ``run``."""
    return registry.load("methods", run.method).build(run)
