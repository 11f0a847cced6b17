"""Whether torch may round float32 numbers before it multiplies them, to TF32 on a GPU or to bfloat16 on some CPUs.

A clipped sum of rounded numbers can be a thousandth longer than its norm was found to be, so nothing that is clipped is
computed that way.  torch has two kinds of switches for it, and will not answer the older where they disagree: both are
set.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import backends

# Each has its own switch of the newer kind; a GPU's convolutions have TF32 by default.
_PLACES = (
    *(backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn),
    *(backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn),
)


def is_allowed() -> bool:
    """Whether torch may round, anywhere, to TF32 or to bfloat16."""
    return not {"tf32", "bf16"}.isdisjoint(place.fp32_precision for place in _PLACES)


def forbid() -> None:
    """From now on torch multiplies float32 numbers as they are."""
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = False
    for place in _PLACES:
        place.fp32_precision = "ieee"


@contextmanager
def forbidden() -> Iterator[None]:
    """Inside, torch multiplies float32 numbers as they are; afterwards its switches are what they were."""
    before = [place.fp32_precision for place in _PLACES]
    matmul, cudnn = "highest", False
    with suppress(RuntimeError):  # the two kinds disagree, and the newer one counts
        matmul = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = backends.cudnn.allow_tf32
    forbid()
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        backends.cudnn.allow_tf32 = cudnn
        for place, precision in zip(_PLACES, before, strict=True):
            place.fp32_precision = "none"  # what torch.backends.fp32_precision says
            if place.fp32_precision != precision:
                place.fp32_precision = precision
