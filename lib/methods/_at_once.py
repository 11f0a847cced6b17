"""How many examples are gone through at once: fewer where a GPU's memory turns out to be too small for them."""

from collections.abc import Callable
from typing import TypeVar

import torch

MICROBATCH = {"cpu": 256, "cuda": 4096}  # memory and time; no influence on the result
T = TypeVar("T")


class AtOnce:
    """Half as many whenever memory ran out."""

    def __init__(self) -> None:
        self._halvings = 0

    def fit(self, size: Callable[[int], int], go: Callable[[int], T]) -> T:
        """``go(size(h))`` after so many halvings h as it takes, from now on, for memory not to run out.

        ``torch.OutOfMemoryError`` where a halving makes ``size`` no smaller.
        """
        while True:
            tried = size(self._halvings)
            try:
                return go(tried)
            except torch.OutOfMemoryError:
                self._halvings += 1
                if size(self._halvings) == tried:
                    raise
