"""A private step in a process that keeps the memory it frees, as a sweep's workers do, against one that does not.

Each variant has a process of its own, as what an allocator was told cannot be taken back, and they take turns.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache, partial
from multiprocessing import get_context

import torch

from lib import environment
from lib.bench import Numbers, Step, private_step, ratios

VARIANTS: dict[str, Callable[[], None] | None] = {"given back": None, "kept": environment.keep_freed_memory}


@cache
def _step(name: str, size: int, device: torch.device) -> Step:
    return private_step.ours("fast", name, size, device)


def _once(name: str, size: int, device: torch.device) -> None:
    """A step, of a network that is made by the first; it ends when a GPU has done it."""
    _step(name, size, device)()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(
    device: torch.device, networks: dict[str, tuple[int, int]] = private_step.NETWORKS
) -> dict[str, dict[str, Numbers]]:
    """{network: {variant: numbers}}."""
    results = {}
    with ExitStack() as stack:
        processes = {
            variant: stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=told))
            for variant, told in VARIANTS.items()
        }
        for name, (size, rounds) in networks.items():
            steps = {
                variant: partial(lambda process, *of: process.submit(_once, *of).result(), process, name, size, device)
                for variant, process in processes.items()
            }
            found = ratios(steps, rounds=rounds)
            results[name] = {variant: numbers | {"batch_size": size} for variant, numbers in found.items()}
    return results
