"""Every notebook in batch, then the report.

    python -m lib.reproduce --tier cpu --table mnist_noise --seeds 5 --minutes 60

runs each table's notebook through papermill into ``out/<tier>/`` with ``run_missing=True``, then writes
``results/REPORT.md`` and README's ledger from what is stored under ``results/``.  A second call goes on where the
first one stopped.  Tier ``smoke``, if no table is named, runs every notebook once, with the table it opens with.
"""

import argparse
import ast
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import papermill
from joblib import Parallel, delayed
from nbclient.exceptions import CellExecutionError
from papermill.exceptions import PapermillExecutionError

from lib import ledger, registry, tables
from lib.notebook import Notebook
from lib.store import Store, StoreError, folder
from lib.tables import Table

REPOSITORY = Path(__file__).resolve().parent.parent
OUT = REPOSITORY / "out"
SEEDS = {"smoke": 1, "cpu": 5, "paper": 10}


class NotebookError(Exception):
    """Some notebooks failed; the message names each.  All others ran."""


def exhibits(names: list[str] | None = None) -> list[Table]:
    """The tables to run, all by default; a figure is run with the table it is shown with."""
    every = [tables.load(name) for name in registry.names("tables")]
    wanted = [tables.load(name).name for name in names] if names else [table.name for table in every]
    shown_with = {table.figure: table.name for table in every if table.figure}
    kept = {shown_with.get(name, name) for name in wanted}
    return [table for table in every if table.name in kept]


def opening(every: list[Table]) -> list[Table]:
    """Those of them that a notebook opens with: the default of its parameter ``table``."""
    defaults = {
        ast.literal_eval(papermill.inspect_notebook(REPOSITORY / "notebooks" / f"{name}.ipynb")["table"]["default"])
        for name in {table.notebook for table in every}
    }
    return [table for table in every if table.name in defaults]


def other_notebooks() -> list[str]:
    """The notebooks that belong to no table; they train nothing."""
    of_tables = {tables.load(name).notebook for name in registry.names("tables")}
    return sorted(path.stem for path in (REPOSITORY / "notebooks").glob("*.ipynb") if path.stem not in of_tables)


def run_notebook(name: str, output: Path, parameters: dict[str, Any]) -> str | None:
    """Execute ``notebooks/<name>.ipynb`` with ``parameters`` into ``output``; what went wrong, if something did.

    The error is returned, not raised: papermill's does not survive the way from one process to another.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        papermill.execute_notebook(
            REPOSITORY / "notebooks" / f"{name}.ipynb",
            output,
            parameters,
            cwd=REPOSITORY,
            kernel_name="python3",
            progress_bar=False,
            stderr_file=sys.stderr,
        )
    except (PapermillExecutionError, CellExecutionError) as error:
        return f"{output.stem}: {error.ename}: {error.evalue}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.reproduce", description=__doc__.split("\n")[0])
    parser.add_argument("--tier", default="smoke", help=f"{', '.join(tables.TIERS)} (default: smoke)")
    parser.add_argument("--table", action="append", help="one of lib/tables; may be given again (default: all)")
    parser.add_argument("--seeds", type=int, help=f"seeds per cell (default: {SEEDS})")
    parser.add_argument("--minutes", type=float, help="time budget for training; the next call goes on from there")
    parser.add_argument("--n-jobs", type=int, help="worker processes (default: one per GPU or, without any, per core)")
    arguments = parser.parse_args()
    try:
        reproduce(**vars(arguments))
    except (ValueError, StoreError, NotebookError) as error:
        raise SystemExit(f"error: {error}") from error


def reproduce(*, table: list[str] | None, seeds: int | None, tier: str, minutes: float | None, **plan: Any) -> None:
    """Run the notebooks of the named tables (None: all) and write the report; see the module's page.

    Raises ``ValueError`` or ``StoreError`` for what is not right before anything runs, and ``NotebookError`` at the end
    if notebooks failed.
    """
    plan |= {"tier": tables.check_tier(tier), "seeds": SEEDS[tier] if seeds is None else seeds, "run_missing": True}
    at_once = 1
    if tier == "smoke":  # a run takes less than the start of a worker does: notebooks are the workers
        at_once, plan["backend"] = os.cpu_count() or 1, "sequential"
    chosen = opening(exhibits()) if tier == "smoke" and table is None else exhibits(table)
    chosen.sort(key=lambda exhibit: -len(exhibit.cells))  # so that no large one is left alone at the end
    asked = [{"table": t.name, "figure": t.figure, "minutes": minutes, **plan} for t in chosen]
    for parameters in asked:
        Notebook(**parameters)  # what is not right is refused before anything runs
    Store(folder(tier), read_only=False)
    done = Parallel(n_jobs=at_once, return_as="generator_unordered", pre_dispatch=at_once)(
        delayed(run_notebook)(*job) for job in _jobs(asked, OUT / tier, minutes, others=table is None)
    )
    failed = [error for error in done if error is not None]
    print(f"  → {(OUT / tier).relative_to(REPOSITORY)}")
    ledger.write(REPOSITORY / "README.md")
    print("  → README.md, results/REPORT.md")
    if failed:
        raise NotebookError("\n".join(failed))


def _jobs(
    asked: list[dict[str, Any]], out: Path, minutes: float | None, *, others: bool
) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Notebook, output and parameters of every exhibit, and of the ``others``, each with the minutes that are left."""
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    for parameters in asked:
        print(f"{parameters['table']}, tier {parameters['tier']}", flush=True)
        left = {} if deadline is None else {"minutes": max(0.0, (deadline - time.monotonic()) / 60)}
        name = tables.load(parameters["table"]).notebook
        yield name, out / f"{name}-{parameters['table']}.ipynb", parameters | left
    for name in other_notebooks() if others else ():
        print(name, flush=True)
        yield name, out / f"{name}.ipynb", {}


if __name__ == "__main__":
    main()
