"""Small made-up records and stores; nothing here or in the tests touches the network or ``results/``."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from lib import tuning
from lib.record import SCHEMA, Record
from lib.run import Run
from lib.store import Store
from lib.tables import Table


def make_run(**changes) -> Run:
    """A valid run on the digits, with ``changes``."""
    return Run(**{"dataset": "digits", "model": "lenet_300_100", "lr": 0.01, "epochs": 2, "batch_size": 64} | changes)


def make_record(run: Run, *accuracies: float) -> Record:
    """The record that ``run`` would leave if it had reached ``accuracies``, one per epoch."""
    name = "validation_accuracy" if run.validation_examples else "test_accuracy"
    return {
        "schema": SCHEMA,
        "id": run.id,
        "run": asdict(run),
        "metrics": {name: float(accuracies[-1])},
        "privacy": made_up_privacy(run),
        "history": {"train_loss": [1.0] * len(accuracies), name: [float(a) for a in accuracies]},
        "env": {"seconds": 1.0, "device": "a made-up CPU", "flags": {"threads": 2, "noise": "float64"}},
    }


def made_up_privacy(run: Run) -> dict:
    """What the run's method would say, without the account."""
    private = run.noise_multiplier or run.epsilon
    claimed = run.epsilon or (3.0 if private else None)
    proven = claimed if run.method != "si_dpsgd" else None
    return {
        "neighbouring_relation": run.neighbouring_relation if private else None,
        "sampler": run.sampler,
        "noise_multiplier": 1.0 if private else 0.0,
        "sampling_prob": 0.01,
        "steps": 100,
        "delta": run.delta,
        "claimed": {run.accountant: claimed} if private else {},
        "proven": {"epsilon": proven, "assumes": "", "why": _why(private, proven)},
        "audited": None,
    }


def _why(private: object, proven: float | None) -> str:
    return "sensitivity C" if proven else "claim not proven" if private else "non-private training"


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Every test begins with the same state of torch's global generator, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Store]:
    """``fill(table, curve, tier, seeds)`` → a store with every run of ``table``.

    ``curve(row, column, seed)`` gives the accuracies by epoch, or None to leave a cell out.  The tuning runs are made
    so that the grid's second point wins.
    """
    monkeypatch.setattr("os.fsync", lambda _: None)  # what is made up need not outlive a power cut

    def fill(table: Table, curve: Callable, *, tier: str = "cpu", seeds: int = 1) -> Store:
        store = Store(tmp_path / "results", read_only=False)
        for row, column in table.cells:
            for i, run in enumerate(tuning.runs(table, row, column, tier, store)):
                if run not in store:
                    store.write(table.name, make_record(run, 60.0 if i == 1 else 50.0))
        for row, column in table.cells:
            for seed in range(seeds):
                run, accuracies = tuning.cell_run(table, row, column, seed, tier, store), curve(row, column, seed)
                if accuracies is not None and run not in store:
                    store.write(table.name, make_record(run, *accuracies))
        return store

    return fill
