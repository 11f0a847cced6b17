"""Who is training a run: a file per run in a folder that all workers share, without locks.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> first = Lease.take(folder, "0123456789ab", silent=60)
    >>> Lease.take(folder, "0123456789ab", silent=60) is None
    True
    >>> first.release()
    >>> Lease.take(folder, "0123456789ab", silent=60) is None
    False

A lease is taken by creating a file that must not exist yet, which one of many wins, on network file systems too.  Its
owner touches it while it makes progress.  The lease of an owner that is dead, or silent for too long, is not taken away
but followed by the next one, with a higher number: so no two can take it over at once, and none is deleted that is
somebody else's.  Who has created one looks again, and gives it back if another lives.  Should a silent owner wake up, a
run is trained twice, and stored once (:mod:`lib.store`).
"""

import json
import math
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TOUCH = 1.0  # seconds between two touches at least
# What an owner writes of itself.
OWNER = {"host": str, "pid": int, "parent": int, "began": str | None, "parent_began": str | None}
_SEEN: dict[Path, tuple[float, float]] = {}  # the last touch of each, and when this process first saw it


@dataclass
class Lease:
    """The right to train the run ``run_id``, or to a GPU of that name, until it is released or its owner is silent for
    too long."""

    path: Path
    host: str | None  # None while the owner has not yet written who it is
    pid: int | None
    parent: int | None
    began: str | None = None  # when its process did, and its parent: numbers of processes are used again
    parent_began: str | None = None
    _touched: float = field(default=0.0, repr=False, compare=False)

    @classmethod
    def take(cls, folder: Path, run_id: str, *, silent: float) -> "Lease | None":
        """The lease, or None if somebody has it who was heard of in the last ``silent`` seconds, or may have it."""
        folder.mkdir(parents=True, exist_ok=True)
        named = _named(folder, run_id)
        if any(lease.lives(silent) for lease in _owned(named)):
            return None
        path = folder / f"{run_id}.{1 + max(map(_number, named), default=-1)}.lease"
        lease = cls(path, _here(), os.getpid(), os.getppid(), _began(os.getpid()), _began(os.getppid()))
        try:
            file = path.open("x", encoding="utf-8")
        except FileExistsError:
            return None
        try:
            with file:
                json.dump({name: getattr(lease, name) for name in OWNER}, file)
            found = list(leases(folder, run_id))
        except OSError:  # a full disk: nobody would have it, and all would wait until it is silent for too long
            path.unlink(missing_ok=True)
            raise
        # Two who looked before and after others gave theirs back can create two: whoever sees the other steps back.
        if lease not in found or any(other.lives(silent) for other in found if other != lease):
            if lease._kept():
                path.unlink(missing_ok=True)
            return None
        return lease

    @property
    def run_id(self) -> str:
        return self.path.name.partition(".")[0]

    @property
    def age(self) -> float:
        """Seconds since the owner was last heard of; NaN once the lease is released, or where nobody can tell.

        At least as many as this process has seen no touch: one that is dated in the future would never be silent.
        """
        try:
            touched, now = self.path.stat().st_mtime, time.monotonic()
        except OSError:
            return math.nan
        if self.path not in _SEEN or _SEEN[self.path][0] != touched:
            _SEEN[self.path] = touched, now
        return max(time.time() - touched, now - _SEEN[self.path][1])

    @property
    def dead(self) -> bool:
        """Whether the owner is known not to live any more; on another machine nobody knows."""
        if self.host != _here():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it lives, and is somebody else's
            return False
        return self.began not in (None, _began(self.pid))

    def lives(self, silent: float) -> bool:
        """Whether somebody may have it still: also where its age cannot be told, as it may be another's by now."""
        return not (self.dead or self.age > silent)

    @property
    def of_a_child(self) -> bool:
        """Whether a child process of this one has it."""
        return (self.host, self.parent, self.parent_began) == (_here(), os.getpid(), _began(os.getpid()))

    def beat(self) -> None:
        """Say that there is progress."""
        if time.monotonic() - self._touched > TOUCH:
            self._touched = time.monotonic()
            with suppress(OSError):  # taken for dead, followed, and tidied away; or a file server stumbles
                os.utime(self.path)

    def release(self) -> None:
        """Give it back, and tidy up the dead ones before it."""
        if not self._kept():
            return
        try:
            for lease in leases(self.path.parent, self.run_id):
                if _number(lease.path) < _number(self.path):
                    lease.path.unlink(missing_ok=True)
        finally:  # its own last, as until then nobody takes one of a number before, and in any case
            self.path.unlink(missing_ok=True)

    def _kept(self) -> bool:
        """Whether it was not taken for dead, followed, and tidied away: then what has its name is another's.

        Where it cannot be read it was: left there, it would be held against a process that is busy with another.
        """
        return any(found == self or found.host is None for found in _owned([self.path]))


def leases(folder: Path, run_id: str = "*") -> Iterator[Lease]:
    """The leases in ``folder``, all or those of one run."""
    return _owned(_named(folder, run_id))


def _named(folder: Path, run_id: str) -> list[Path]:
    """What has the name of a lease: not a copy that somebody made of one, but also a folder, which is passed over."""
    return [path for path in folder.glob(f"{run_id}.*.lease") if re.fullmatch(r"[^.]+\.[0-9]+\.lease", path.name)]


def _owned(named: Iterable[Path]) -> Iterator[Lease]:
    for path in named:
        try:
            if not path.is_file():
                continue
            lease = Lease(path, **json.loads(path.read_text(encoding="utf-8")))
            told = all(isinstance(getattr(lease, name), kind) for name, kind in OWNER.items())
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError):  # not to be read here, not yet written, or not by a lease
            told = False
        yield lease if told else Lease(path, None, None, None)


def _number(path: Path) -> int:
    return int(path.name.split(".")[1])


def _here() -> str:
    """This machine since it was started, and of its containers this one: process numbers are their own.

    Names are not: machines made from one image have the same.
    """
    space, boot = Path("/proc/self/ns/pid"), Path("/proc/sys/kernel/random/boot_id")
    own = [os.readlink(space)] if space.exists() else []
    return " ".join([socket.gethostname(), *own, *([boot.read_text().strip()] if boot.exists() else [])])


def _began(pid: int) -> str | None:
    """When the process did, in the kernel's ticks; "dead" if only its parent has not noticed that it is (Linux)."""
    try:
        of_process = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "dead" if of_process[0] == "Z" else of_process[19]
