"""A run in progress, on disk: what a killed one goes on from, bit for bit on the same device.

The file is one line of JSON, then the pickled :class:`~lib.train.Training`, whole: no method can forget to name a part
of its state.  The line says what the file belongs to and is checked before anything is unpickled.  **Unpickling runs
code, and a private run's checkpoint holds what must never be released**: the state of the generators that draw its
noise, and SI-DPSGD's means.  It is a note of this machine to itself, not a file to exchange.
"""

import hashlib
import io
import json
import os
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch

from lib.run import Run

EVERY = 60.0  # seconds between two checkpoints of a run
_LIB = Path(__file__).resolve().parent.parent
# The code that a training's course depends on; a checkpoint made by another is not gone on from.
CODE = (
    *("data", "generators.py", "grads", "layers", "methods", "models", "pca.py", "preprocessing.py", "run"),
    *("sampling.py", "schedules.py", "train"),
)


class CheckpointError(Exception):
    """A checkpoint that cannot be gone on from; the message names the file and what was expected."""


class Checkpoint:
    """The checkpoint of ``run`` on ``device``, at ``path``."""

    def __init__(self, path: Path, run: Run, device: torch.device) -> None:
        self.path, self._last = path, time.monotonic()
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        self._belongs = {"run": run.id, "code": _code(), "torch": torch.__version__, "device": kind}
        self._device = device

    def load(self) -> Any | None:
        """The training as it was, or None if there is no checkpoint.

        Raises ``CheckpointError`` for one of another run, code, torch or device, and for a damaged one.
        """
        if not self.path.exists():
            return None
        head, _, payload = self.path.read_bytes().partition(b"\n")
        try:
            found = json.loads(head)
            digest = found.pop("sha256")
        except (ValueError, AttributeError, KeyError):
            found, digest = None, None
        if digest != hashlib.sha256(payload).hexdigest():
            raise self._refused("a whole file", "a damaged one")
        for name, expected in self._belongs.items():
            if found.get(name) != expected:
                raise self._refused(f"{name} {expected}", found.get(name))
        return torch.load(io.BytesIO(payload), map_location=self._device, weights_only=False)

    def _refused(self, expected: str, got: str) -> CheckpointError:
        advice = "move it away to train this run from the start"
        return CheckpointError(f"{self.path}: expected a checkpoint with {expected}; got {got}; {advice}")

    def save_if_due(self, training: Any) -> None:
        """:meth:`save`, if the last was :data:`EVERY` seconds ago."""
        if time.monotonic() - self._last >= EVERY:
            self.save(training)

    def save(self, training: Any) -> None:
        """Replace the file, whole or not at all.  A disk that is full ends no training: there is a warning."""
        buffer = io.BytesIO()
        torch.save(training, buffer)
        payload = buffer.getvalue()
        head = json.dumps(self._belongs | {"sha256": hashlib.sha256(payload).hexdigest()})
        part = _part(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(head.encode() + b"\n" + payload)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as error:
            part.unlink(missing_ok=True)
            warnings.warn(f"{self.path}: not written, so a killed run starts again: {error}", stacklevel=2)
        self._last = time.monotonic()


def remove(path: Path) -> None:
    """The run of the checkpoint at ``path`` is finished and stored."""
    path.unlink(missing_ok=True)
    _part(path).unlink(missing_ok=True)


def _part(path: Path) -> Path:
    """Where a checkpoint is written before it takes its place; a killed writer's is written over by the next."""
    return path.with_name(f".{path.name}.part")


@cache
def _code() -> str:
    """Twelve digits of a hash of :data:`CODE`."""
    digest = hashlib.sha256()
    for name in CODE:
        place = _LIB / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(_LIB).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
