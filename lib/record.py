"""What is kept of one finished run.

Schema 1: ``schema, id, run, metrics, privacy, history, env``, one block per question a reader asks.
"""

import math
from typing import Any

from lib.run import Run

SCHEMA = 1
BLOCKS = ("schema", "id", "run", "metrics", "privacy", "history", "env")
PRIVACY = ("neighbouring_relation", "sampler", "noise_multiplier", "sampling_prob", "steps")
PRIVACY_VALUES = ("claimed", "proven", "audited")
ENV = {"seconds": (int, float), "device": str, "flags": dict}

Record = dict[str, Any]


def validate(record: Record) -> Record:
    """Return ``record`` if it is one of schema 1 whose id fits its run; raise ``ValueError`` if not."""
    if not isinstance(record, dict) or not record.keys() >= set(BLOCKS):
        have = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        raise ValueError(f"expected the blocks {', '.join(BLOCKS)}; got {have}")
    if type(record["schema"]) is not int or record["schema"] != SCHEMA:
        raise ValueError(f"expected schema {SCHEMA}; got {record['schema']!r}")
    for block in BLOCKS[2:]:
        if not isinstance(record[block], dict):
            raise ValueError(f"expected {block} to be a block of names and values; got {record[block]!r}")
    check_privacy(record["privacy"])
    for name, kind in ENV.items():
        if not isinstance(record["env"].get(name), kind):
            raise ValueError(f"expected env to say {name!r}; got {record['env'].get(name)!r}")
    try:
        run = Run(**record["run"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"run block: {error}") from error
    if record["id"] != run.id:
        raise ValueError(f"expected id {run.id}, which its run block hashes to; got {record['id']!r}")
    name, metrics = metric(run), record["metrics"]
    if name not in metrics or not all(_percent(value) for key, value in metrics.items() if key.endswith("accuracy")):
        raise ValueError(f"expected metrics with an accuracy in percent, 0 to 100, {name}; got {metrics}")
    by_epoch = record["history"].get(name)
    if not (isinstance(by_epoch, list) and all(map(_percent, by_epoch)) and by_epoch[-1:] == [metrics[name]]):
        told = f"by epoch in percent, the last {metrics[name]}, as in metrics"
        raise ValueError(f"expected history to have accuracies, {name} {told}; got {by_epoch}")
    return record


def metric(run: Run) -> str:
    """The name of what judges ``run``, in its metrics and its history."""
    return "validation_accuracy" if run.validation_examples else "test_accuracy"


def _percent(value: object) -> bool:
    return isinstance(value, float) and 0.0 <= value <= 100.0


def check_privacy(privacy: dict[str, Any]) -> None:
    """``ValueError`` for a privacy block that does not say what its readers take for granted."""
    if not isinstance(privacy, dict):
        raise ValueError(f"expected privacy to be a block of names and values; got {privacy!r}")
    if missing := [name for name in (*PRIVACY, *PRIVACY_VALUES) if name not in privacy]:
        raise ValueError(f"expected privacy to say {missing[0]!r}; got {', '.join(privacy)}")
    for name in PRIVACY_VALUES:
        if not isinstance(privacy[name], dict) and (name != "audited" or privacy[name] is not None):
            raise ValueError(f"expected privacy's {name} to be a block of names and values; got {privacy[name]!r}")
    told = {f"claimed {accountant}": epsilon for accountant, epsilon in privacy["claimed"].items()}
    told |= {f"{name} epsilon": privacy[name].get("epsilon") for name in ("proven", "audited") if privacy[name]}
    for name, epsilon in told.items():
        if epsilon is not None and not (isinstance(epsilon, int | float) and 0.0 <= epsilon < math.inf):
            raise ValueError(f"expected privacy's {name} to be None or a finite number, at least 0; got {epsilon!r}")
