"""What is asked of a sweep, checked before anything starts."""

from dataclasses import dataclass

from lib import tables
from lib.run.allowed import PRECISIONS

BACKENDS = ("loky", "sequential", "dask", "ray")
CLUSTERS = ("dask", "ray")  # the backends that can be elsewhere


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How far a table is to be filled, and with what.

    =========  ============================================================================
    tier       smoke | cpu | paper
    seeds      runs per cell, seeds 0 to seeds − 1
    minutes    time budget for training, or None
    backend    loky (joblib's worker processes) | sequential | dask | ray
    scheduler  the address of dask's scheduler, as tcp://host:8786, or of ray's head, as host:6379; None starts a
               cluster on this machine
    n_jobs     workers, on this machine; None is one per GPU or, without any, per core, and one of backend sequential.
               Cores are those this process may use: fewer in a container, in a cluster's job or under ``taskset``, and
               no more than ``LOKY_MAX_CPU_COUNT`` in the environment.  The workers share them
    together   runs that a worker trains at once, if they are alike; None is 64 where this machine has a GPU, less
               where its memory is too small, and 1 on a CPU, which is not faster with more
    precision  float32 | bfloat16: mixed precision, see :func:`lib.train.train_together`; recorded, not a setting
    =========  ============================================================================

    Raises ``ValueError`` naming what was expected and what came.
    """

    tier: str = "smoke"
    seeds: int = 1
    minutes: float | None = None
    backend: str = "loky"
    scheduler: str | None = None
    n_jobs: int | None = None
    together: int | None = None
    precision: str = "float32"

    def __post_init__(self) -> None:
        tables.check_tier(self.tier)
        self._check("seeds", "a whole number of at least 1", type(self.seeds) is int and self.seeds >= 1)
        timed = type(self.minutes) in (int, float) and self.minutes >= 0
        self._check("minutes", "None or a number of at least 0", self.minutes is None or timed)
        self._check("backend", f"one of {', '.join(BACKENDS)}", self.backend in BACKENDS)
        asked = self.scheduler is None or (isinstance(self.scheduler, str) and self.backend in CLUSTERS)
        self._check("scheduler", f"None, or an address for backend {' or '.join(CLUSTERS)}", asked)
        for name in ("n_jobs", "together"):
            value = getattr(self, name)
            counted = type(value) is int and value >= 1
            self._check(name, "None or a whole number of at least 1", value is None or counted)
        self._check("precision", f"one of {', '.join(PRECISIONS)}", self.precision in PRECISIONS)

    def _check(self, name: str, expected: str, right: bool) -> None:
        if not right:
            raise ValueError(f"{name}: expected {expected}; got {getattr(self, name)!r}")
