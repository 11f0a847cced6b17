"""A run whose examples are there or not: the library's own training steps, on data that the attacker chose."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from lib import methods
from lib.generators import generator
from lib.methods import Method
from lib.run import Run
from lib.train import optimizer_of


def coins(run: Run, count: int) -> Tensor:
    """Which of the canaries are included, (m,), by fair coins from the run's seed."""
    return torch.rand(count, generator=generator(run.seed, "audit")) < 0.5


def train(
    run: Run,
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    present: Tensor,
    observe: Callable[[Method, int], None] = lambda method, step: None,
) -> AbstractContextManager[None]:
    """Train ``model`` by the method of ``run`` on N examples, those not ``present`` (N,) leaving their places empty.

    ``observe(method, step)`` is called after every step, when the parameters are those at which the next gradient is
    taken, and their gradients those that led to them.
    In the context that is returned they are those that are tested.
    """
    method = methods.build(run, len(labels), model)
    optimizer, schedule = optimizer_of(method, model)
    sampling, step = generator(run.seed, "sampling"), 0
    model.train()
    while step < method.steps:
        for batch in method.batches(sampling, step):
            taken = batch[present[batch]]
            method.backward(model, inputs[taken], labels[taken], step)
            method.update(model, optimizer)
            schedule.step()
            observe(method, step)
            step += 1
    return method.tested(model)
