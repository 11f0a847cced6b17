"""Results on disk: one file, one run.

``results/<table>/<words>-<id>.json`` holds the record of one finished run.  A run is looked up by its id wherever
it lies under the root, so a run that two tables share is trained once.  A record is written to a temporary name
and renamed: it is there whole or not at all.  What was measured is never overwritten, but on a file system without
links by who stores the same run at the same moment.
"""

import glob
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lib.record import Record, validate
from lib.run import Run

RESULTS = Path(__file__).resolve().parent.parent / "results"
SMOKE_RESULTS = RESULTS.parent / "out" / "smoke"  # never under results/: smoke runs are not on the papers' data
BENCHMARKS = RESULTS / "benchmarks"  # timings, which are not records
AUDITS = RESULTS / "audits"  # what attacks on methods found, which are not records either
ABANDONED = 600  # seconds after which an unfinished file is one of a writer that was killed
NO_RECORDS = (BENCHMARKS.name, AUDITS.name)


class StoreError(Exception):
    """A stored result that is not what it should be; the message names the file and what was expected."""


class AlreadyStored(StoreError):
    """A run that is stored, or that another writer is storing at this moment."""


def folder(tier: str) -> Path:
    """Where the records of ``tier`` live."""
    return SMOKE_RESULTS if tier == "smoke" else RESULTS


def read(path: Path) -> Record:
    """The record in ``path``, validated; ``StoreError`` names the file if it is malformed or half-written."""
    try:
        record = validate(json.loads(path.read_text(encoding="utf-8")))
        if record["id"] != path.stem[-12:]:
            raise ValueError(f"expected the id that its name ends with; got {record['id']}")
        return record
    except (ValueError, OSError, RecursionError) as error:  # the last of brackets without end
        raise StoreError(f"{path}: not a valid record: {error}; move it away to train this run again") from error


class Store:
    """The records under one root folder, indexed by id when the store is made.

    ``read_only=True`` for readers.  Otherwise a folder that cannot be written is refused here, before any training.
    ``StoreError`` for a folder that cannot be listed, as what lies there would be trained again, and for two files of
    one run, of which one would be hidden; a file that is seen twice, through a link, is one.
    """

    def __init__(self, root: Path | str = RESULTS, *, read_only: bool = True) -> None:
        self.root = Path(root)
        self._records: dict[str, Record] = {}
        if not read_only:
            check_writable(self.root)
            unfinished = self.root.glob("*/.*.part")
            # Beside what is there, which nobody may ever write again.
            _take_abandoned(p for p in unfinished if p.with_name(p.name[1:].rpartition("-")[0]).exists())
        tables = (folder for folder in _listed(self.root) if folder.name not in NO_RECORDS)
        found = (path for table in tables for path in _listed(table) if path.suffix == ".json")
        self._paths: dict[str, Path] = {}
        for path in found:
            other = self._paths.setdefault(path.stem[-12:], path)
            if other is not path and other.resolve() != path.resolve():
                raise StoreError(f"{path}: expected one file of a run; got {other}, too; move one of them away")

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, run: Run) -> bool:
        return run.id in self._paths

    def get(self, run: Run) -> Record | None:
        """The record of ``run``, or None if it was not run yet."""
        return self._read(run.id) if run in self else None

    def _read(self, run_id: str) -> Record:
        if run_id not in self._records:
            self._records[run_id] = read(self._paths[run_id])
        return self._records[run_id]

    def filed(self) -> Iterator[tuple[str, Record]]:
        """Every record under the root, with the name of its folder, which is that of a table."""
        return ((path.parent.name, self._read(run_id)) for run_id, path in self._paths.items())

    def write(self, table: str, record: Record) -> Path:
        """Store ``record`` under ``table``; ``AlreadyStored`` for a run that is, anywhere under the root.

        ``ValueError`` for what is no record.
        """
        run = Run(**validate(record)["run"])
        path = self.root / table / f"{run.words}-{run.id}.json"
        where = self._paths.get(run.id, path)
        refused = AlreadyStored(f"{where}: already stored; a stored result is never overwritten")
        if run in self or path.exists():
            raise refused
        try:
            write_text(path, _text(record), new=True)
        except (FileExistsError, FileNotFoundError) as error:  # by another writer, meanwhile, or just about to be
            no_folder = StoreError(f"{path.parent}: expected a folder to write results to; got {error}")
            raise (refused if path.parent.is_dir() else no_folder) from error
        for part in parts(path):  # of writers that were killed, or are told so by what is gone
            part.unlink(missing_ok=True)
        self._paths[run.id] = path
        return path

    def amend(self, record: Record, privacy: dict[str, Any]) -> None:
        """Give the stored ``record`` another privacy block; all that was measured stays as it is."""
        path = self._paths[record["id"]]
        write_text(path, _text(validate(read(path) | {"privacy": privacy})))
        self._records.pop(record["id"], None)


def _listed(folder: Path) -> list[Path]:
    """What is in ``folder``; nothing if it is none.  ``Path.glob`` would say that of one that must not be read, too."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(f"{folder}: expected a folder that can be listed; got {error}") from error


def check_writable(root: Path) -> None:
    """``StoreError`` unless ``root`` is, or can be made, a folder to write to."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=root).close()
    except OSError as error:
        raise StoreError(f"{root}: expected a folder that results can be written to; got {error}") from error


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)


def _publish_new(part: str, path: Path) -> None:
    """Like ``os.replace``, but ``FileExistsError`` if ``path`` exists, on file systems that have links."""
    try:
        os.link(part, path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def _take_abandoned(unfinished: Iterable[Path]) -> None:
    """Take away the files of writers that were killed; a young one may be in hand, a checkpoint as well as a bench."""
    for part in unfinished:
        with suppress(FileNotFoundError):  # published meanwhile
            if time.time() - part.stat().st_mtime > ABANDONED:
                part.unlink()


def write_text(path: Path, text: str, *, new: bool = False) -> None:
    """:func:`write_bytes` of ``text``, in UTF-8."""
    write_bytes(path, text.encode(), new=new)


def write_bytes(path: Path, content: bytes, *, new: bool = False, secret: bool = False) -> None:
    """At once: hidden and with another ending until complete, so that no reader ever picks it up half-written.

    ``new``: ``FileExistsError`` if ``path`` exists, and ``FileNotFoundError`` if another writer published it meanwhile.
    ``secret``: for its owner alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _take_abandoned(parts(path))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", suffix=".part", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.chmod(file.name, 0o600 if secret else 0o644)
    (_publish_new if new else os.replace)(file.name, path)


def parts(path: Path) -> Iterator[Path]:
    """What writers of ``path`` have in hand, or left when they were killed."""
    return path.parent.glob(f".{glob.escape(path.name)}-*.part")


def write_measured(path: Path, results: dict[str, Any], env: dict[str, Any]) -> Path:
    """Store what was measured of methods rather than of runs, a bench or an audit, with where it was measured."""
    write_text(path, _text({"results": results, "env": env}) + "\n")
    return path


def measured(path: Path, command: str) -> dict[str, Any]:
    """``results`` and ``env`` that ``command`` stored; ``StoreError`` if they are not there, or damaged."""
    if not path.exists():
        raise StoreError(f"{path}: no such file; {command} writes it")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not (content["results"] and content["env"]):
            raise ValueError("empty results or env")
        return content
    except (ValueError, TypeError, KeyError) as error:
        got = f"{type(error).__name__}: {error}"
        raise StoreError(f"{path}: expected results and env; got {got}; {command} writes it") from error


def audit(name: str) -> dict[str, Any]:
    """What an audit found; ``StoreError`` as :func:`measured`."""
    return measured(AUDITS / f"{name}.json", f"python -m lib.audit {name}")["results"]
