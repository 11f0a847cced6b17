"""A private step in a process that keeps the memory it frees, as a sweep's workers do, against one that does not: ours
and Opacus', which make as much of it anew in every step as they hold.

Each of the two has a process of its own, as what an allocator was told cannot be taken back; all steps take turns.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache, partial
from multiprocessing import get_context

import torch

from lib import environment
from lib.bench import Numbers, Step, private_step, ratios

PROCESSES: dict[str, Callable[[], None] | None] = {"given back": None, "kept": environment.keep_freed_memory}


@cache
def _step(variant: str, name: str, size: int, device: torch.device) -> Step:
    return private_step.variants()[variant](name, size, device)


def _once(variant: str, name: str, size: int, device: torch.device) -> None:
    """A step, of a network that is made by the first; it ends when a GPU has done it."""
    _step(variant, name, size, device)()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(
    device: torch.device, networks: dict[str, tuple[int, int]] = private_step.NETWORKS
) -> dict[str, dict[str, Numbers]]:
    """{network: {"variant, given back" | "variant, kept": numbers}}, of the private variants that are fast."""
    results = {}
    variants = [variant for variant in private_step.variants() if variant not in ("non-private", "ours, reference")]
    with ExitStack() as stack:
        pools = {
            process: stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=told))
            for process, told in PROCESSES.items()
        }
        for name, (size, rounds) in networks.items():
            steps = {
                f"{variant}, {process}": partial(_wait, pool, variant, name, size, device)
                for variant in variants
                for process, pool in pools.items()
            }
            results[name] = ratios(steps, rounds=rounds, batch_size=size)
    return results


def _wait(pool: ProcessPoolExecutor, *of: object) -> None:
    pool.submit(_once, *of).result()
