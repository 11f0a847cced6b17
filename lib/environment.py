"""Where a record was made: code version, machine, cost.  Recorded, never hashed into a run's id."""

import ctypes
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from lib import tf32

_REPOSITORY = Path(__file__).resolve().parent.parent
_GLIBC = platform.libc_ver()[0] == "glibc"
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of malloc.h
_MOST = 2**31 - 1  # bytes: what an int of C holds


def describe(
    device: torch.device,
    *,
    started: datetime,
    seconds: float,
    data: str = "",
    data_sha256: str = "",
    public_sha256: str = "",
    together: int = 1,
    precision: str = "float32",
) -> dict[str, Any]:
    """The ``env`` block of a record; peak memory in MiB, of the GPU or, on the CPU, of the whole process.

    ``together``: how many runs shared it all; ``seconds`` are this one's part.
    """
    return {
        "git_commit": _COMMIT,
        "dirty": _DIRTY,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine() + " CPU",
        "seconds": round(seconds, 1),
        "peak_memory_mib": round(_peak_memory(device) / 2**20),
        "started": started.isoformat(timespec="seconds"),
        "data": data,
        "data_sha256": data_sha256,
        "public_sha256": public_sha256,
        "flags": {
            "threads": torch.get_num_threads(),
            "tf32": tf32.is_allowed(),
            "together": together,
            "precision": precision,
            "flush_denormal": _flushes_denormal(),
            # AVX2, AVX512, …: even ratios of time depend on it
            "cpu_capability": torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else None,
            # How it is made and added, see lib.gaussian; records without it added one float32 draw, or two ("draws")
            "noise": "float64",
        },
    }


def computes_in_bfloat16() -> bool:
    """Whether this machine does: a processor that has to emulate it is up to twenty times slower than in float32."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return False
    # On x86 that op is content with AVX-512, whose first processors emulate it.
    return platform.machine() not in ("x86_64", "AMD64") or torch.cpu._is_avx512_bf16_supported()


@contextmanager
def set_up(threads: int) -> Iterator[None]:
    """Inside, torch has so many threads, and takes for 0 what is denormal; afterwards both are what they were.

    Saturated gates have gradients of 1e-40, which a CPU multiplies 100 times slower than it takes them for 0.
    """
    before, flushed = torch.get_num_threads(), _flushes_denormal()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(flushed)


def _flushes_denormal() -> bool:
    return bool((torch.tensor([1e-40]) * 1.0 == 0.0).item())


def keep_freed_memory() -> None:
    """The process keeps what it frees, for its next step: glibc's default is to hand it back to the kernel.

    Every step needs the same hundreds of MiB; to have them handed out anew, zeroed page by page, can take a good part
    of it (:mod:`lib.bench.kept_memory`).  Other allocators are left as they are.
    """
    if _GLIBC:
        # Large blocks are not mapped one by one; a threshold for that of more than 32 MiB older versions refuse.
        for option, value in ((_TRIM_THRESHOLD, _MOST), (_MMAP_MAX, 0)):
            ctypes.CDLL(None).mallopt(option, value)


def give_back_memory() -> None:
    """Hand back to the kernel what was kept: a worker that has grown between two runs passes for one that leaks."""
    if _GLIBC:
        ctypes.CDLL(None).malloc_trim(0)


def reset_peak_memory(device: torch.device) -> None:
    """Count the GPU's peak memory from here on; the CPU's cannot be reset."""
    if device.type == "cuda":
        torch.cuda.init()  # which a device with a number does not do by itself
        torch.cuda.reset_peak_memory_stats(device)


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # macOS counts bytes, Linux kilobytes


def _version() -> tuple[str | None, bool | None]:
    """Commit of the code, and whether files of ``lib`` differ from it or are new; (None, None) outside a checkout."""
    git = ["git", "--no-optional-locks", "-C", str(_REPOSITORY)]  # it would rewrite the index, beside a commit too
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "--", "lib"], check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return commit, changed != b""


_COMMIT, _DIRTY = _version()  # while this is imported: a run that ends hours later was made by this code
