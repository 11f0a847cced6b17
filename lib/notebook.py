"""The opening cell of every notebook: its parameters checked, its exhibits and results at hand.

    python -m lib.notebook [03 …]

executes the committed notebooks again, after their results or their text have changed.

papermill only warns of a parameter that a notebook does not have, and runs on with the default; here a parameter
that is mistyped, in name or in value, is refused before anything is trained.
"""

import argparse
import ast
import base64
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lib import tables, tuning
from lib.plan import Plan
from lib.store import Store, folder
from lib.tables import Column, Table

PARAMETERS = (
    *("table", "figure", "rows", "columns", "tier", "seeds"),
    *("run_missing", "minutes", "backend", "n_jobs", "precision"),
)

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
PICTURES = FOLDER / "pictures"  # what README shows: of some notebooks the first figure
KERNEL = ["--IPKernelApp.log_level=40"]  # errors: it would warn that it talks to this very machine in plain text
WIDGET = "application/vnd.jupyter.widget-view+json"  # the type of an output that shows a widget


class Notebook:
    """A notebook's table, its figure (None if it has none), and the :class:`~lib.plan.Plan` of its other parameters.

    ``rows``, some of the table's, and ``columns``, any values of what its columns vary, take the place of the table's.

    ``history`` is IPython's ``In``: the cell that papermill injected is found there, so that a parameter nobody asked
    for is refused too.  Raises ``ValueError`` naming what was expected and what came.
    """

    def __init__(
        self,
        *,
        table: str,
        figure: str | None,
        run_missing: bool,
        rows: Sequence[str] | None = None,
        columns: Sequence[Column] | None = None,
        history: Sequence[str] = (),
        **plan: object,
    ) -> None:
        check_parameters(history, PARAMETERS)
        if not isinstance(run_missing, bool):
            raise ValueError(f"run_missing: expected True or False; got {run_missing!r}")
        self.plan = Plan(**plan)
        self.table = _cut(tables.load(table), rows, columns)
        self.figure = None if figure is None else tables.load(figure)
        self.exhibits = [exhibit for exhibit in (self.table, self.figure) if exhibit is not None]

    @property
    def store(self) -> Store:
        """The stored results as they are now."""
        return Store(folder(self.plan.tier))

    def __str__(self) -> str:
        tier, seeds, lines = self.plan.tier, self.plan.seeds, []
        for exhibit in self.exhibits:
            stored, missing = tuning.stored_and_missing(exhibit, tier, seeds, self.store)
            lines.append(f"{exhibit.name}, tier {tier}, {seeds} seeds: {stored} runs stored, {missing} missing")
        return "\n".join(lines)

    def run_missing(self) -> None:
        """Train what is missing, with a progress bar, within the plan's minutes for all exhibits together."""
        from lib import sweep  # torch is imported only where something is trained

        plan, started = asdict(self.plan), time.monotonic()
        for exhibit in self.exhibits:
            if self.plan.minutes is not None:
                plan["minutes"] = max(0.0, self.plan.minutes - (time.monotonic() - started) / 60)
            print(f"{exhibit.name}: {sweep.run(exhibit, **plan)}")


def _cut(table: Table, rows: Sequence[str] | None, columns: Sequence[Column] | None) -> Table:
    """The table with other rows and columns, where some are asked for."""
    if rows is not None:
        run = [row for row in table.rows if row not in table.not_run]
        known = _listed(rows) and all(isinstance(row, str) for row in rows) and set(rows) <= set(table.rows)
        if not known or not set(rows) & set(run):
            raise ValueError(f"rows: expected None or a list of some of {', '.join(map(repr, run))}; got {rows!r}")
        table = replace(table, rows=tuple(rows))
    if columns is not None:
        kind = type(table.columns[-1])  # papermill may hand over 64.0 for 64, and 1 for 1.0
        if not _listed(columns) or not all(_fits(column, kind, table) for column in columns):
            numbers = "whole numbers" if kind is int else "numbers above 0" if table.column == "epsilon" else "numbers"
            expected = f"None or {numbers}, as the table's {', '.join(map(str, table.columns))}"
            raise ValueError(f"columns: expected {expected}; got {columns!r}")
        table = replace(table, columns=tuple(column if column is None else kind(column) for column in columns))
    return table


def _listed(values: object) -> bool:
    """Whether they are a list of one or more, each once."""
    return isinstance(values, (list, tuple)) and len(values) > 0 and all(values.count(value) == 1 for value in values)


def _fits(column: object, kind: type, table: Table) -> bool:
    """Whether ``column`` may be one of the table's: a number, whole for ``kind`` int, or None if the table has it."""
    if column is None:
        return None in table.columns
    number = type(column) in (int, float) and (kind is float or float(column).is_integer())
    return number and (table.column != "epsilon" or column > 0)


def check_parameters(history: Sequence[str], names: Sequence[str]) -> None:
    """``ValueError`` if papermill injected a parameter that is none of ``names``; ``history`` is IPython's ``In``."""
    for name in _injected(history):
        if name not in names:
            raise ValueError(f"unknown parameter {name!r}; expected some of {', '.join(names)}")


def _injected(history: Sequence[str]) -> list[str]:
    """The names set by the cells that papermill injected; it begins each with the comment "Parameters"."""
    cells = [cell for cell in history if cell.startswith("# Parameters\n")]
    targets = [node.targets[0] for cell in cells for node in ast.parse(cell).body if isinstance(node, ast.Assign)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def numbered(*numbers: str) -> list[Path]:
    """The committed notebooks whose names begin with one of ``numbers``, such as 03; all of them without any.

    Raises ``ValueError`` for a number that no notebook has.
    """
    paths = sorted(FOLDER.glob("*.ipynb"))
    for number in numbers:
        if not number or not any(path.name.startswith(number) for path in paths):
            names = ", ".join(path.stem for path in paths)
            raise ValueError(f"number: expected how one of {names} begins; got {number!r}")
    return [path for path in paths if path.name.startswith(numbers or "")]


def refresh(path: Path) -> None:
    """Execute the notebook at ``path`` where it stands, as it is committed: without times and widget state."""
    import nbformat  # takes seconds, for which no notebook that opens needs to wait
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    how = {"record_timing": False, "coalesce_streams": True}  # as it would be on any day, on any machine
    how |= {"extra_arguments": KERNEL}
    NotebookClient(notebook, resources={"metadata": {"path": str(path.parent)}}, **how).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if view := output.get("data", {}).get(WIDGET):
                view["model_id"] = cell.id  # drawn anew by every kernel
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)
    if (picture := PICTURES / f"{path.stem}.png").exists():
        picture.write_bytes(first_figure(notebook))


def first_figure(notebook: Any) -> bytes:
    """The PNG file that the first figure of an executed notebook, as nbformat reads it, is stored as."""
    outputs = (output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
    return base64.b64decode(next(data["image/png"] for data in outputs if "image/png" in data))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lib.notebook", description="Execute committed notebooks again.")
    parser.add_argument("number", nargs="*", help="of the notebooks, such as 03; all by default")
    asked = parser.parse_args().number
    try:
        paths = numbered(*asked)
    except ValueError as error:
        parser.error(str(error))
    try:
        for path in paths:
            print(path.name)
            refresh(path)
    except KeyboardInterrupt:
        raise SystemExit("stopped") from None
