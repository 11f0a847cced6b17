"""Every notebook in batch, then the report.

    python -m lib.reproduce --tier cpu --table mnist_noise --seeds 5 --minutes 60

runs each table's notebook through papermill into ``out/<tier>/`` with ``run_missing=True``, then writes
``results/REPORT.md`` and README's ledger from what is stored under ``results/``.  A second call goes on where the
first one stopped.  Tier ``smoke``, if no table is named, runs every notebook once, with the table it opens with, and
writes beside them, as nothing of it is stored there.

``--list`` says which tables there are and what is stored of them; ``--dry-run``, what would be trained and for how
long (:mod:`lib.reproduce._estimate`).  Both only read.
"""

import ast
import json
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed

from lib import ledger, registry, tables
from lib.notebook import FOLDER, KERNEL, Notebook
from lib.reproduce._estimate import Estimate, duration
from lib.store import Store, folder
from lib.tables import Table

REPOSITORY = Path(__file__).resolve().parent.parent.parent
OUT = REPOSITORY / "out"
SEEDS = {"smoke": 1, "cpu": 5, "paper": 10}

Parameters = dict[str, Any]  # of one notebook


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
    defaults = {_default_table(name) for name in {table.notebook for table in every}}
    return [table for table in every if table.name in defaults]


def _default_table(notebook: str) -> str:
    """What its cell with the tag "parameters" says."""
    cells = json.loads((FOLDER / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    (cell,) = (cell for cell in cells if "parameters" in cell["metadata"].get("tags", []))
    values = {node.targets[0].id: node.value for node in ast.parse("".join(cell["source"])).body}
    return ast.literal_eval(values["table"])


def other_notebooks() -> list[str]:
    """The notebooks that belong to no table; they train nothing that is kept."""
    of_tables = {tables.load(name).notebook for name in registry.names("tables")}
    return sorted(path.stem for path in FOLDER.glob("*.ipynb") if path.stem not in of_tables)


def run_notebook(name: str, output: Path, parameters: Parameters) -> str | None:
    """Execute ``notebooks/<name>.ipynb`` with ``parameters`` into ``output``; what went wrong, if something did.

    The error is returned, not raised: papermill's does not survive the way from one process to another.
    """
    import papermill  # takes seconds, which the processes that run notebooks spend side by side, and nobody else
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        papermill.execute_notebook(
            FOLDER / f"{name}.ipynb",
            output,
            parameters,
            cwd=REPOSITORY,
            kernel_name="python3",
            progress_bar=False,
            stderr_file=sys.stderr,
            extra_arguments=KERNEL,
        )
    except (PapermillExecutionError, CellExecutionError) as error:
        return f"{output.stem}: {error.ename}: {error.evalue} (in {output}, below the cell that failed)"
    except (DeadKernelError, OSError) as error:  # the second of what cannot be written, as on a full disk
        return f"{output.stem}: {error}"
    return None


def asked(
    *,
    table: list[str] | None,
    tier: str,
    seeds: int | None,
    minutes: float | None,
    backend: str | None,
    n_jobs: int | None,
    precision: str,
) -> list[Parameters]:
    """The parameters of every notebook to run, the largest first, so that none is left alone at the end.

    ``ValueError`` for what is not right, before anything runs.
    """
    seeds = SEEDS[tables.check_tier(tier)] if seeds is None else seeds
    # In tier smoke a run takes less than the start of a worker does: there the notebooks are the workers.
    backend = backend or ("sequential" if tier == "smoke" else "loky")
    chosen = opening(exhibits()) if tier == "smoke" and table is None else exhibits(table)
    if backend == "sequential" and n_jobs is None:  # each has its share of the cores
        n_jobs = min(cpu_count(), len(chosen))
    plan = {"tier": tier, "seeds": seeds, "minutes": minutes, "backend": backend, "n_jobs": n_jobs}
    plan["precision"] = precision
    chosen.sort(key=lambda exhibit: -len(exhibit.cells))
    parameters = [{"table": t.name, "figure": t.figure, "run_missing": True, **plan} for t in chosen]
    for of_notebook in parameters:
        Notebook(**of_notebook)
    return parameters


def reproduce(*, table: list[str] | None, **plan: Any) -> None:
    """Run the notebooks of the named tables (None: all) and write the report; see the module's page.

    ``plan``: the other arguments of :func:`asked`.  Raises ``ValueError`` or ``StoreError`` for what is not right
    before anything runs, and ``NotebookError`` at the end if notebooks failed.
    """
    notebooks, began = asked(table=table, **plan), time.monotonic()
    store = Store(folder(plan["tier"]), read_only=False)
    to_train, stored = Estimate.of(notebooks, store), len(store)
    workers = notebooks[0]["n_jobs"] or cpu_count()
    at_once = workers if notebooks[0]["backend"] == "sequential" else 1
    others = other_notebooks() if table is None else []
    out = OUT / plan["tier"]
    jobs = (delayed(run_notebook)(*job) for job in _jobs(notebooks, others, out, to_train, workers))
    readme, smoke = REPOSITORY / "README.md", plan["tier"] == "smoke"
    beside = [delayed(ledger.write)(readme)] if smoke else []  # nothing that it tells of is stored in this tier
    done = Parallel(n_jobs=at_once, return_as="generator_unordered", pre_dispatch=at_once)(chain(jobs, beside))
    failed = [error for error in done if error is not None]
    if not smoke:
        ledger.write(readme)
    store, ran = Store(store.root), len(notebooks) + len(others)
    print(
        f"{ran} notebooks in {duration(time.monotonic() - began)}, {len(failed)} of them failed; "
        f"{len(store) - stored} runs trained, {Estimate.of(notebooks, store).runs} still missing\n"
        f"  → {out.relative_to(REPOSITORY)}, README.md, results/REPORT.md"
    )
    if failed:
        raise NotebookError("\n".join(failed))


def _jobs(
    notebooks: list[Parameters], others: list[str], out: Path, estimate: Estimate, workers: int
) -> Iterator[tuple[str, Path, Parameters]]:
    """Notebook, output and parameters of every exhibit, and of the ``others``, each with the minutes that are left."""
    began = time.monotonic()
    for i, parameters in enumerate(notebooks):
        spent, allowed = (time.monotonic() - began) / 60, parameters["minutes"]
        left = {} if allowed is None else {"minutes": max(0.0, allowed - spent)}
        print(f"{i + 1} of {len(notebooks)}: {parameters['table']}, tier {parameters['tier']}; ", end="")
        print(f"to train from here on: {estimate.since(i).words(workers)}", flush=True)
        name = tables.load(parameters["table"]).notebook
        yield name, out / f"{name}-{parameters['table']}.ipynb", parameters | left
    for name in others:
        print(name, flush=True)
        yield name, out / f"{name}.ipynb", {}
