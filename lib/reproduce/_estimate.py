"""What would be trained, and how long that takes: as long as stored runs like it took."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from lib import tables, tuning
from lib.run import Run
from lib.store import Store
from lib.tables import Row

ESSENTIAL = ("dataset", "model", "pretrained_on", "method", "augmult")  # what a run's time depends on most
LIKENESS = ("norm", "statistics", "statistics_gradient", "statistics_batch", "batch_size")  # and less, in this order


class Times:
    """How long runs take, from the records of a store."""

    def __init__(self, store: Store) -> None:
        self._per_epoch: dict[tuple, list[float]] = {}
        for _, record in store.filed():
            run = Run(**record["run"])
            for kept in range(len(LIKENESS) + 1):
                self._per_epoch.setdefault(_key(run, kept), []).append(record["env"]["seconds"] / run.epochs)

    def seconds(self, run: Run) -> float | None:
        """The median time per epoch of the stored runs that are most like ``run``, times its epochs; None: unknown."""
        for kept in reversed(range(len(LIKENESS) + 1)):
            if found := self._per_epoch.get(_key(run, kept)):
                return median(found) * run.epochs
        return None


def _key(run: Run, kept: int) -> tuple:
    """Public examples that every step passes through the network are essential, too."""
    public = run.public_examples if run.norm.startswith("public_batch") else 0
    return (public, *(getattr(run, name) for name in ESSENTIAL + LIKENESS[:kept]))


@dataclass(frozen=True)
class Estimate:
    """The missing runs by exhibit, and what each takes, in seconds of one worker (None: nothing like it is stored).

    ``exhibits``: one entry for each notebook that runs, {(table, row): [seconds]}; a run that several share is counted
    where it comes first.
    """

    exhibits: tuple[dict[tuple[str, Row], list[float | None]], ...]

    @classmethod
    def of(cls, notebooks: Iterable[dict], store: Store) -> "Estimate":
        """Of notebooks with these parameters, one after the other."""
        times, seen, found = Times(store), set(), []
        for parameters in notebooks:
            rows: dict[tuple[str, Row], list[float | None]] = {}
            for name in filter(None, (parameters["table"], parameters["figure"])):
                for row, run in tuning.wanted(tables.load(name), parameters["tier"], parameters["seeds"], store):
                    if run not in store and run.id not in seen:
                        seen.add(run.id)
                        rows.setdefault((name, row), []).append(times.seconds(run))
            found.append(rows)
        return cls(tuple(found))

    @property
    def _seconds(self) -> list[float | None]:
        return [seconds for rows in self.exhibits for of_row in rows.values() for seconds in of_row]

    @property
    def runs(self) -> int:
        return len(self._seconds)

    def since(self, first: int) -> "Estimate":
        """Without the notebooks before the ``first``, counted from 0."""
        return Estimate(self.exhibits[first:])

    def words(self, workers: int = 1) -> str:
        """``12 runs, about 3 min with 2 workers``, or as much of it as is known."""
        known = [seconds for seconds in self._seconds if seconds is not None]
        unknown = self.runs - len(known)
        if not known:
            return f"{self.runs} runs" + (", how long they take is unknown" if unknown else "")
        about = f"about {duration(sum(known) / workers)}" + (f" with {workers} workers" if workers > 1 else "")
        if not unknown:
            return f"{self.runs} runs, {about}"
        return f"{self.runs} runs; {len(known)} of them {about}, how long the other {unknown} take is unknown"

    def __str__(self) -> str:
        """A line for each row of each table that has something to train, in time of one worker."""
        lines = []
        for rows in self.exhibits:
            width = max((len(row) for _, row in rows), default=0)
            for name in dict.fromkeys(name for name, _ in rows):
                lines.append(name)
                for (of, row), seconds in rows.items():
                    if of == name:
                        lines.append(f"  {row:{width}}  {Estimate(({(of, row): seconds},)).words()}")
        return "\n".join(lines)


def duration(seconds: float) -> str:
    """In words, to two digits or so: ``40 s``, ``12 min``, ``3.4 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
