"""What a training step costs, as ratios within one process: ``make bench``.

The variants take turns, step by step, so that a machine whose speed drifts slows all of them; quoted are the median
ratio to the first variant and its quartiles.  One file of this folder is one bench, with ``measure(device, …)``.

Even ratios depend on a processor's instructions, so those of AVX2 and of AVX-512 are stored beside each other.  One
processor tells both, as :data:`LIMITS` in the environment keep it to some of its instructions:

    ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 python -m lib.bench private_step
"""

import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib import environment, registry, tf32
from lib.methods import Method
from lib.store import BENCHMARKS, check_writable, measured, write_measured

Step = Callable[[], None]
Make = Callable[[int, torch.device], Step]  # of a batch size
Numbers = dict[str, float]
WARM_UP = 3
LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
RESET_PEAK = Path("/proc/self/clear_refs")


class NotHereError(Exception):
    """Why a bench can tell nothing on this machine."""


def step_of(method: Method, model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Step:
    """One training step by ``method``, always on the same batch."""

    def once() -> None:
        method.backward(model, x, y, 0)
        method.update(model, optimizer)

    return once


def ratios(steps: dict[str, Step], *, rounds: int, batch_size: int) -> dict[str, Numbers]:
    """Median and quartiles of each variant's time over that of the first one in the same round; milliseconds; and the
    ``batch_size``, which is told beside them."""
    seconds = {name: [] for name in steps}
    for round_ in range(WARM_UP + rounds):
        for name, once in steps.items():
            started = time.perf_counter()
            once()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if round_ >= WARM_UP:
                seconds[name].append(time.perf_counter() - started)
    result = {}
    base = next(iter(seconds.values()))
    for name, taken in seconds.items():
        low, middle, high = np.quantile(np.divide(taken, base), [0.25, 0.5, 0.75])
        result[name] = {"ratio": middle, "low": low, "high": high, "milliseconds": 1e3 * float(np.median(taken))}
        result[name]["batch_size"] = batch_size
    return result


def peak_memory(makes: dict[str, Make], size: int, device: torch.device) -> dict[str, Numbers]:
    """{variant: numbers}: MiB that a step needs beyond what is held before it, and the ratio to the first variant's.

    On a CPU it is what the process holds at most, so every step runs in a fresh one.  There are no numbers on a CPU
    where the system is not Linux.
    """
    if device.type != "cuda" and not RESET_PEAK.exists():
        return {name: {} for name in makes}
    found = {name: _peak_of_one(make, size, device) for name, make in makes.items()}
    base = next(iter(found.values()))
    return {name: {"mebibytes": mebibytes, "memory": mebibytes / base} for name, mebibytes in found.items()}


def _peak_of_one(make: Make, size: int, device: torch.device) -> float:
    if device.type == "cuda":
        return _peak(make, size, device)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak, make, size, device).result()


def _peak(make: Make, size: int, device: torch.device) -> float:
    make(2, device)()  # what the libraries set up at their first call is there before
    once = make(size, device)
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        once()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    RESET_PEAK.write_text("5")
    before = _resident_peak()
    once()
    return _resident_peak() - before


def _resident_peak() -> float:
    """MiB, since the last reset; Linux alone tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**10


def kind(device: torch.device) -> str:
    """``cuda``, or what torch makes of the processor: ``avx2``, ``avx512``, ``default``."""
    capability = torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else device.type
    return capability.lower().replace(" ", "_")


def write(name: str, results: dict[str, Any], device: torch.device, *, seconds: float, started: datetime) -> Path:
    """Store a bench's ``results`` under ``results/benchmarks``, with the machine they were measured on."""
    env = environment.describe(device, started=started, seconds=seconds)
    env["limits"] = {limit: os.environ[limit] for limit in LIMITS if limit in os.environ}
    return write_measured(BENCHMARKS / f"{name}-{kind(device)}.json", results, env)


def kinds(name: str) -> list[str]:
    """Those that a bench is stored of."""
    return sorted(path.stem.removeprefix(f"{name}-") for path in BENCHMARKS.glob(f"{name}-*.json"))


def stored(name: str, kind: str) -> dict[str, Any]:
    """``results`` and ``env`` of a stored bench; ``ValueError`` listing what is stored if it is not."""
    if kind not in kinds(name):
        found = sorted(path.stem for path in BENCHMARKS.glob("*.json"))
        stored_of_it = f"processor: expected one of {', '.join(kinds(name))} for bench {name!r}; got {kind!r}"
        none_of_it = f"bench: expected one of {', '.join(found) or 'none, as none is stored'}; got {name}-{kind}"
        raise ValueError(stored_of_it if kinds(name) else none_of_it)
    return measured(BENCHMARKS / f"{name}-{kind}.json", f"python -m lib.bench {name}")


def text(results: dict[str, dict[str, Numbers]]) -> str:
    """A line for each network, with its batch size, and variant."""
    return "\n".join(
        f"{network + ', ' + str(n['batch_size']):25} {variant:24} "
        f"× {n['ratio']:.2f} [{n['low']:.2f}, {n['high']:.2f}]  {n['milliseconds']:6.0f} ms"
        + (f"  memory × {n['memory']:.2f}, {n['mebibytes']:5.0f} MiB" if "memory" in n else "")
        for network, variants in results.items()
        for variant, n in variants.items()
    )


def run(names: list[str] | None = None) -> None:
    """Measure and store the named benches, all by default; what cannot be stored is refused before any is measured."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    benches = {name: registry.load("bench", name) for name in names or registry.names("bench")}
    check_writable(BENCHMARKS)
    tf32.forbid()  # as in training
    for name, bench in benches.items():
        started, clock = datetime.now(UTC), time.perf_counter()
        try:
            results = bench.measure(device)
        except NotHereError as reason:
            print(f"{name}: not measured here, and what is stored stays: {reason}", flush=True)
            continue
        print(text(results), flush=True)
        print(write(name, results, device, seconds=time.perf_counter() - clock, started=started), flush=True)
