"""Batch norm's statistics taken from examples of one's choice instead of the training batches."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

CHUNK = 1000  # examples in one forward pass; the statistics are averaged over the passes


@contextmanager
def statistics_of(model: nn.Module, x: Tensor) -> Iterator[None]:
    """Inside, ``model`` is in evaluation mode and its batch norm layers hold the statistics of ``x`` (M, …).

    Afterwards every layer's mode and the running averages are what they were.  Without batch norm there is the mode
    alone.
    """
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    modes = {layer: layer.training for layer in model.modules()}
    try:
        model.eval()  # the mode that update_bn returns to
        update_bn(x.chunk(math.ceil(len(x) / CHUNK)), model)
        yield
    finally:
        for layer, training in modes.items():
            layer.training = training
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                buffer.copy_(kept[name])
