"""A batch in chunks whose temporary tensors stay small."""

from collections.abc import Iterator

import torch
from torch import Tensor

# Small enough for memory that the allocator keeps: on a CPU a fresh tensor of 30 MB costs more in page faults than in
# arithmetic.  A GPU wants few, large kernels instead.
CHUNK_BYTES = {"cpu": 2**23, "cuda": 2**28}


def chunks(examples: int, bytes_each: int, device: torch.device) -> Iterator[slice]:
    """Slices over a batch of ``examples``, of at least one each, such that no chunk's temporary exceeds the limit."""
    size = max(1, CHUNK_BYTES.get(device.type, CHUNK_BYTES["cuda"]) // max(1, bytes_each))
    return (slice(start, min(start + size, examples)) for start in range(0, examples, size))


def bytes_of(values: Tensor) -> int:
    """Memory of one example of ``values`` (B, …)."""
    return values[0].numel() * values.element_size()
