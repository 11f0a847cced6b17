"""Which examples form a batch."""

from collections.abc import Iterator

import torch
from torch import Tensor


def shuffled_epoch(examples: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """One pass over ``examples`` in a fresh random order: index tensors of ``batch_size``.

    The examples left over after the last full batch sit this epoch out, so that every step is of one size.
    Raises ``ValueError`` if not even one batch can be filled.
    """
    if not 1 <= batch_size <= examples:
        raise ValueError(f"batch_size: expected 1 to {examples}, the size of the training set; got {batch_size}")
    order = torch.randperm(examples, generator=generator, device=generator.device)
    return iter(order[: examples - examples % batch_size].split(batch_size))
