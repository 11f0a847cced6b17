"""The folder is the registry: one file, one entry.

Tables, models and methods are found by listing their folders, so adding one is adding a file, and an error
message always lists exactly what is there.  Listing does not import, hence costs no torch.

    >>> names("models")[:2]
    ('bilstm', 'convnet')
"""

import inspect
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

_HERE = Path(__file__).parent


@cache
def names(room: str) -> tuple[str, ...]:
    """The entries of a room (a folder of this package), sorted; files that begin with an underscore are not entries."""
    return tuple(sorted(path.stem for path in (_HERE / room).glob("*.py") if not path.stem.startswith("_")))


def check(room: str, name: str) -> None:
    """Raise ``ValueError``, listing the entries, unless ``name`` is one of them."""
    if name not in names(room):
        raise ValueError(f"unknown {room.rstrip('s')} {name!r}; expected one of {', '.join(names(room))}")


def load(room: str, name: str) -> ModuleType:
    """Import the entry ``name`` of ``room``; raise ``ValueError``, listing the entries, if there is none."""
    check(room, name)
    return import_module(f"lib.{room}.{name}")


def check_call(expected: str, function: object, *arguments: object, **settings: object) -> None:
    """Raise ``ValueError``, which begins with ``expected``, unless ``function`` can be called with these."""
    try:
        inspect.signature(function).bind(*arguments, **settings)
    except TypeError as error:  # also for what is no function
        got = f"one that takes {inspect.signature(function)}" if callable(function) else repr(function)
        raise ValueError(f"{expected}; got {got}") from error
