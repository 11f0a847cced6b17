"""A file that says what it belongs to, and that it is whole: one line of JSON, then bytes.

The line holds ``belongs``, and the SHA-256 of the bytes; both are checked before a reader gets any of them.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from lib import store


class Unsealed(Exception):
    """A file that is damaged, or belongs to something else: what was ``expected`` and what came."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected, self.got = expected, got


def read(path: Path, belongs: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The bytes of ``path``, and the line; ``Unsealed`` if it is not whole or its line is not that of ``belongs``.

    The line may say more than is asked for.
    """
    head, _, payload = path.read_bytes().partition(b"\n")
    try:
        found = json.loads(head)
        digest = found["sha256"]
    except (ValueError, TypeError, KeyError):
        found, digest = {}, None
    if digest != hashlib.sha256(payload).hexdigest():
        raise Unsealed("a whole file", "a damaged one")
    for name, expected in belongs.items():
        if found.get(name) != expected:
            raise Unsealed(f"{name} {expected}", found.get(name))
    return payload, found


def write(path: Path, belongs: dict[str, Any], payload: bytes, *, secret: bool = False) -> None:
    """Replace the file, whole or not at all; ``OSError`` if that cannot be.  ``secret``: for its owner alone."""
    head = json.dumps(belongs | {"sha256": hashlib.sha256(payload).hexdigest()})
    store.write_bytes(path, head.encode() + b"\n" + payload, secret=secret)
