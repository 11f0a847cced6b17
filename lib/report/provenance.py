"""Where the numbers of a table come from: how many runs, on what, by which code."""

from collections import Counter
from collections.abc import Mapping

from lib import tuning
from lib.record import Record
from lib.report.frames import records
from lib.store import Store
from lib.tables import Table


def provenance(table: Table, tier: str, store: Store) -> str:
    """``12 runs (1.5 core hours) and 4 of the search (0.3); x86_64 CPU, torch 2.15; commits 1a2b3c4 (10), … `` of the
    stored records."""
    final = {record["id"]: record for cell in table.cells for record in records(table, *cell, tier, store)}
    points = ((*cell, tier, store, p) for cell in table.cells for p in tuning.points(table, *cell, tier, store))
    search = {record["id"]: record for point in points for record in tuning.records(table, *point)}
    if not final and not search:
        return "provenance: nothing stored yet"
    of_all = [record["env"] for record in [*final.values(), *search.values()]]
    where = Counter(", ".join(filter(None, (env["device"], _torch(env), precision(env)))) for env in of_all)
    commits = Counter((env.get("git_commit") or "unknown")[:7] + "+" * bool(env.get("dirty")) for env in of_all)
    told = ", ".join(f"{commit} ({count})" for commit, count in commits.most_common())
    runs = f"{len(final)} runs ({_core_hours(final):.1f} core hours)"
    searched = f"{len(search)} of the search ({_core_hours(search):.1f})"
    return f"provenance: {runs} and {searched}; {'; '.join(where)}; commits {told}"


def _core_hours(found: Mapping[str, Record]) -> float:
    return sum(record["env"]["seconds"] * record["env"]["flags"]["threads"] for record in found.values()) / 3600


def _torch(env: dict) -> str:
    return f"torch {env['torch']}" if "torch" in env else ""


def precision(env: dict) -> str:
    """In which a run was trained, where it is not float32."""
    told = env["flags"].get("precision", "float32")
    return told if told != "float32" else ""


def machine(env: dict) -> str:
    """Where a bench was measured, in words, from its ``env``."""
    flags = env["flags"]
    how = "kept to" if env.get("limits") else "with"
    capability = f" {how} {flags['cpu_capability']}" if flags.get("cpu_capability") else ""
    return f"{env['device']}{capability}, {flags['threads']} threads, torch {env['torch']}"
