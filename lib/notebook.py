"""The opening cell of every notebook: its parameters checked, its exhibits and results at hand.

papermill only warns of a parameter that a notebook does not have, and runs on with the default; here a parameter
that is mistyped, in name or in value, is refused before anything is trained.
"""

import ast
from collections.abc import Sequence

from lib import tables, tuning
from lib.store import Store, folder

PARAMETERS = ("table", "figure", "tier", "seeds", "run_missing", "minutes", "backend", "n_jobs")
BACKENDS = ("loky", "sequential")


class Notebook:
    """The checked parameters of a notebook, with what they name.

    ``history`` is IPython's ``In``: the cell that papermill injected is found there, so that a parameter nobody asked
    for is refused too.  Raises ``ValueError`` naming what was expected and what came.
    """

    def __init__(
        self,
        *,
        table: str,
        figure: str | None,
        tier: str,
        seeds: int,
        run_missing: bool,
        minutes: float | None,
        backend: str,
        n_jobs: int | None,
        history: Sequence[str] = (),
    ) -> None:
        for name in _injected(history):
            if name not in PARAMETERS:
                raise ValueError(f"unknown parameter {name!r}; expected some of {', '.join(PARAMETERS)}")
        _check("run_missing", "True or False", run_missing, isinstance(run_missing, bool))
        _check("seeds", "a whole number of at least 1", seeds, type(seeds) is int and seeds >= 1)
        _check("backend", f"one of {', '.join(BACKENDS)}", backend, backend in BACKENDS)
        _check(
            "n_jobs",
            "None or a whole number of at least 1",
            n_jobs,
            n_jobs is None or (type(n_jobs) is int and n_jobs >= 1),
        )
        self.tier = tables.check_tier(tier)
        self.table = tables.load(table)
        self.figure = None if figure is None else tables.load(figure)
        self.exhibits = [exhibit for exhibit in (self.table, self.figure) if exhibit is not None]
        self.seeds = seeds
        self._how = {"minutes": minutes, "backend": backend, "n_jobs": n_jobs}

    @property
    def store(self) -> Store:
        """The stored results as they are now."""
        return Store(folder(self.tier))

    def __str__(self) -> str:
        lines = []
        for exhibit in self.exhibits:
            stored, missing = tuning.stored_and_missing(exhibit, self.tier, self.seeds, self.store)
            lines.append(
                f"{exhibit.name}, tier {self.tier}, {self.seeds} seeds: {stored} runs stored, {missing} missing"
            )
        return "\n".join(lines)

    def run_missing(self) -> None:
        """Train what is missing, with a progress bar."""
        from lib import sweep  # torch is imported only where something is trained

        for exhibit in self.exhibits:
            print(f"{exhibit.name}: {sweep.run(exhibit, tier=self.tier, seeds=self.seeds, **self._how)}")


def _injected(history: Sequence[str]) -> list[str]:
    """The names set by the cells that papermill injected; it begins each with the comment "Parameters"."""
    cells = [cell for cell in history if cell.startswith("# Parameters\n")]
    targets = [node.targets[0] for cell in cells for node in ast.parse(cell).body if isinstance(node, ast.Assign)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _check(name: str, expected: str, value: object, right: bool) -> None:
    if not right:
        raise ValueError(f"{name}: expected {expected}; got {value!r}")
