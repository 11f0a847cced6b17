"""Exhibits: one file, one table or figure of the papers.

A table file defines ``TABLE``, a :class:`Table`: its rows and columns, the numbers the papers print, and
``cell(row, column, seed=…, tier=…, **point) -> Run``, which says exactly what is run for one cell under one seed.

    >>> table = load("mnist_noise")
    >>> table.printed["LeNet-300-100", 0.1].text
    '96.98 ± 0.12'
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from itertools import product
from pathlib import Path
from typing import Any

from lib import registry
from lib.run import Run

TIERS = ("smoke", "cpu", "paper")
_NOTEBOOKS = Path(__file__).resolve().parent.parent.parent / "notebooks"


@dataclass(frozen=True)
class Printed:
    """What a paper prints in one cell: an accuracy in percent, perhaps its standard error, or as the lower end of a
    range, or ``about`` so much ("≈ 40 %"); or "no convergence".  ``note``: what else it prints there."""

    mean: float | None = None
    stderr: float | None = None
    up_to: float | None = None
    about: bool = False
    note: str = ""

    @property
    def text(self) -> str:
        if self.mean is None:
            return "no convergence"
        if self.up_to is not None:
            return f"{self.mean:g} to {self.up_to:g}"
        stderr = f" ± {self.stderr:.2f}" if self.stderr is not None else ""
        number = f"≈ {self.mean:g}" if self.about else f"{self.mean:.2f}{stderr}"
        return number + (f" ({self.note})" if self.note else "")


Row = str
Column = float | None  # None stands for ε = ∞
Number = float | tuple[float, float] | Printed | None  # a mean, with its standard error, anything else, nothing


def printed(columns: Sequence[Column], rows: Mapping[Row, Sequence[Number]]) -> dict[tuple[Row, Column], Printed]:
    """The numbers of a table row by row; a row that ends early, and None, leave cells out.

    >>> printed((0.0, 1.0), {"LeNet-5": (99.2, (98.4, 0.03)), "VGG": (None, Printed())})["LeNet-5", 1.0].text
    '98.40 ± 0.03'
    """
    found = {}
    for row, numbers in rows.items():
        for column, number in zip(columns[: len(numbers)], numbers, strict=True):
            if number is not None:
                of_cell = number if isinstance(number, tuple) else (number,)
                found[row, column] = number if isinstance(number, Printed) else Printed(*of_cell)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """One exhibit, the same as another only if it is that one.

    =========  =========================================================================================================
    name       of its file; also of its folder under ``results``
    title      what it shows, with the data set
    source     where it stands in the papers
    notebook   the notebook that shows it, without its ending
    figure     the name of the figure shown with it in that notebook, itself an exhibit
    rows       in the papers' words
    column     what the columns vary, as a field of :class:`~lib.run.Run`
    columns    its values
    printed    the papers' numbers by (row, column); a cell the papers leave out has none
    cell       ``cell(row, column, seed=…, tier=…, **point) -> Run``
    grid       what is tuned: field → candidate values, the same for every cell of a row
    tuning     ``tuning(row, column, tier=…, **point) -> Run``: the run that judges one point of the grid, on
               validation examples, under seed 0
    tuned      ``tuned(row, column)``: whether the cell is tuned; the others take their settings as they are
    not_run    rows that are only printed beside the others, with the reason
    notes      tier → in what its runs are less than the papers', beside their epochs; said under the table
    elsewhere  what others reach on these data at a proven ε and the same δ, with the source; said under the table
    =========  =========================================================================================================
    """

    name: str
    title: str
    source: str
    notebook: str
    figure: str | None = None
    rows: tuple[Row, ...]
    column: str
    columns: tuple[Column, ...]
    cell: Callable[..., Run]
    printed: Mapping[tuple[Row, Column], Printed] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tuning: Callable[..., Run] | None = None
    tuned: Callable[[Row, Column], bool] = lambda row, column: True
    not_run: Mapping[Row, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    elsewhere: str = ""

    def __post_init__(self) -> None:
        """A reader asks for the same runs over and over: each is put together once.

        In tier ``smoke`` one search serves a row, that of its middle column: there the way is tried out, not the
        numbers.

        ``ValueError`` for rows, columns and a grid of nothing, or of one thing twice; for a field that no run has; and
        for a cell or a tuning that does not take what it is given.
        """
        lists = {"rows": self.rows, "columns": self.columns} | {f"grid: {name}": v for name, v in self.grid.items()}
        for name, values in lists.items():
            if not isinstance(values, tuple) or not values or any(values.count(value) > 1 for value in values):
                raise ValueError(f"{self.name}: {name}: expected a tuple of one or more, each once; got {values!r}")
        for name, setting in [("column", self.column), *(("grid", setting) for setting in self.grid)]:
            if setting not in Run.__dataclass_fields__:
                raise ValueError(f"{self.name}: {name}: expected a field of Run; got {setting!r}")
        point = {} if self.tuning is None else dict.fromkeys(self.grid)
        for name, settings in (("cell", {"seed": 0, "tier": "smoke", **point}), ("tuning", {"tier": "smoke", **point})):
            if (make := getattr(self, name)) is not None:
                make = getattr(make, "made_of", make)  # of a table that is made of another, with other columns
                expected = f"{self.name}: {name}: expected {name}(row, column, *, {', '.join(settings)})"
                registry.check_call(expected, make, "row", 0.0, **settings)
                in_smoke = {"smoke": self._middle} if name == "tuning" else {}
                object.__setattr__(self, name, cache(_of_a_tier(f"{self.name}: {name}", make, in_smoke)))
        if self.grid and self.tuning is None:
            raise ValueError(f"{self.name}: tuning: expected the run that judges a point of the grid; got None")

    @property
    def _middle(self) -> Column:
        """The middle column; where that is ε = ∞, the nearest that is not."""
        middle = len(self.columns) // 2
        nearest = sorted(range(len(self.columns)), key=lambda i: (self.columns[i] is None, abs(i - middle)))
        return self.columns[nearest[0]]

    def points(self, row: Row, column: Column, tier: str) -> list[dict[str, Any]]:
        """The candidates among which a cell is tuned; none for an untuned one.

        Tier ``smoke`` has the ends of the grid alone.
        """
        if self.tuning is None or not self.tuned(row, column):
            return []
        points = [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]
        return [points[0], points[-1]] if tier == "smoke" else points

    @property
    def cells(self) -> list[tuple[Row, Column]]:
        """All (row, column) that are run, row by row."""
        return list(product([row for row in self.rows if row not in self.not_run], self.columns))


def _of_a_tier(name: str, make: Callable[..., Run], at: Mapping[str, Column]) -> Callable[..., Run]:
    """``make`` of a known tier alone; ``at``: the tiers that have one column for all, and which."""

    @wraps(make)
    def checked(row: Row, column: Column, *, tier: str, **settings: Any) -> Run:
        run = make(row, at.get(check_tier(tier), column), tier=tier, **settings)
        if not isinstance(run, Run):
            raise ValueError(f"{name}: expected a Run for {row!r}; got {run!r}")
        if run.seed != (seed := settings.get("seed", run.seed)):  # else a reader finds the next seed's record for ever
            raise ValueError(f"{name}: expected a Run with seed={seed!r} for {row!r}; got {run.seed!r}")
        if "seed" not in settings and not run.validation_examples:
            raise ValueError(f"{name}: expected a Run with validation_examples, which judge it; got none for {row!r}")
        return run

    checked.made_of = make
    return checked


def load(name: str) -> Table:
    """The table in ``lib/tables/<name>.py``.

    ``ValueError``, listing the tables, if there is no such file, and if what it defines is not a table of its name,
    says something of a row, column or tier that it has not, or has a notebook that is not among those beside this
    package (an installed copy may have none).
    """
    table = getattr(registry.load("tables", name), "TABLE", None)
    if getattr(table, "name", None) != name:
        raise ValueError(
            f"lib/tables/{name}.py: expected TABLE, a Table with name={name!r}, under which its records are stored; "
            f"got {'none' if table is None else repr(getattr(table, 'name', table))}"
        )
    _check_keys(table)
    notebooks = sorted(path.stem for path in _NOTEBOOKS.glob("*.ipynb"))
    if notebooks and table.notebook not in notebooks:
        raise ValueError(
            f"lib/tables/{name}.py: expected notebook to be one of {', '.join(notebooks)}; got {table.notebook!r}"
        )
    return table


def _check_keys(table: Table) -> None:
    for name, found, allowed in (
        ("printed", [row for row, _ in table.printed], table.rows),
        ("printed", [column for _, column in table.printed], table.columns),
        ("not_run", table.not_run, table.rows),
        ("notes", table.notes, TIERS),
    ):
        for key in found:
            if key not in allowed:
                raise ValueError(f"{table.name}: {name}: expected some of {', '.join(map(str, allowed))}; got {key!r}")


def check_tier(tier: str) -> str:
    """``tier`` itself; ``ValueError`` if it is not one of the three."""
    if tier not in TIERS:
        raise ValueError(f"unknown tier {tier!r}; expected one of {', '.join(TIERS)}")
    return tier
