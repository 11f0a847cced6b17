"""How many examples are gone through at once: fewer where a GPU's memory turns out to be too small for them."""

from collections.abc import Callable
from typing import TypeVar

import torch

MICROBATCH = {"cpu": 256, "cuda": 4096}  # memory and time; no influence on the result
T = TypeVar("T")


class AtOnce:
    """Half as many as before whenever memory ran out, from then on."""

    def __init__(self) -> None:
        self._halvings = 0

    def __call__(self, most: int) -> int:
        """Of ``most``, what is left of them by now; it may be none."""
        return most >> self._halvings

    def fit(self, size: Callable[[], int], go: Callable[[int], T]) -> T:
        """``go(size())``, once more with what ``size`` has become where memory ran out.

        ``torch.OutOfMemoryError`` where ``size`` cannot be smaller.
        """
        while True:
            tried = size()
            try:
                return go(tried)
            except torch.OutOfMemoryError:
                self._halvings += 1
                if size() == tried:
                    raise
