"""A run in progress, on disk: what a killed one goes on from, bit for bit on a CPU, to rounding on a GPU, where
sums are not always added up in one order.

The file is one line of JSON, then the pickled :class:`~lib.train.Training`, whole: no method can forget to name a part
of its state.  The line says what the file belongs to and is checked before anything is unpickled.  **Unpickling runs
code, and a private run's checkpoint holds what must never be released**: the state of the generators that draw its
noise, and SI-DPSGD's means.  It is a note of this machine to itself, not a file to exchange.
"""

import hashlib
import io
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch

from lib import store
from lib.run import Run
from lib.train import sealed

EVERY = 60.0  # seconds between two checkpoints of a run
_LIB = Path(__file__).resolve().parent.parent
# The code that a training's course depends on; a checkpoint made by another is not gone on from.
CODE = (
    *("accounting", "data", "gaussian.py", "generators.py", "grads", "layers", "methods", "models", "pca.py"),
    *("preprocessing.py", "record.py", "run", "sampling.py", "schedules.py", "tf32.py", "train"),
)


class CheckpointError(Exception):
    """A checkpoint that cannot be gone on from; the message names the file and what was expected."""


class Checkpoint:
    """The checkpoint of ``run`` on ``device``, at ``path``."""

    def __init__(self, path: Path, run: Run, device: torch.device) -> None:
        self.path, self._last = Path(path), time.monotonic()
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        self._belongs = {"run": run.id, "code": _code(), "torch": torch.__version__, "device": kind}

    def load(self) -> Any | None:
        """The training as it was, or None if there is no checkpoint.

        Raises ``CheckpointError`` for one of another run, code, torch or device, and for a damaged one.
        """
        if not self.path.exists():
            return None
        try:
            payload, _ = sealed.read(self.path, self._belongs)
        except sealed.Unsealed as found:
            raise CheckpointError(
                f"{self.path}: expected a checkpoint with {found.expected}; got {found.got}; "
                "move it away to train this run from the start"
            ) from found
        try:  # as it was: on the GPU where it began, if there are several, which is where its generators draw
            return torch.load(io.BytesIO(payload), weights_only=False)
        except torch.OutOfMemoryError:  # of a GPU that somebody else fills: nothing is wrong with the checkpoint
            raise
        except RuntimeError as error:
            raise CheckpointError(
                f"{self.path}: expected the device on which it was made; move it away to train this run from the "
                f"start: {error}"
            ) from error

    def save_if_due(self, training: Any) -> None:
        """:meth:`save`, if the last was :data:`EVERY` seconds ago."""
        if time.monotonic() - self._last >= EVERY:
            self.save(training)

    def save(self, training: Any) -> None:
        """Replace the file, whole or not at all.  A disk that is full ends no training: there is a warning."""
        buffer = io.BytesIO()
        torch.save(training, buffer)
        try:
            sealed.write(self.path, self._belongs, buffer.getvalue(), secret=True)
        except OSError as error:
            warnings.warn(f"{self.path}: not written, so a killed run starts again: {error}", stacklevel=2)
        self._last = time.monotonic()


def remove(path: Path) -> None:
    """The run of the checkpoint at ``path`` is finished and stored."""
    for file in (path, *store.parts(path)):
        file.unlink(missing_ok=True)


@cache
def _code() -> str:
    """Twelve digits of a hash of :data:`CODE`."""
    digest = hashlib.sha256()
    for name in CODE:
        place = _LIB / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(_LIB).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


_code()  # while this is imported: an edit beside a run that is in progress did not make its state
