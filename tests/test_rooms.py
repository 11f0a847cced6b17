"""The rooms of the house and which of them may import which; arrows point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lib.train import checkpoint

LIB = Path(__file__).resolve().parent.parent / "lib"

# room → the rooms it may import.  The first block must not import torch, directly or through others.
WITHOUT_TORCH = {
    "registry": set(),
    "accounting": {"registry"},
    "schedules": set(),
    "run": {"accounting", "registry", "schedules"},
    "tables": {"registry", "run"},
    "record": {"run"},
    "store": {"record", "run"},
    "tuning": {"record", "run", "store", "tables"},
    "lease": set(),
    "report": {"accounting", "record", "registry", "tables", "store", "tuning"},
    "figures": {"accounting", "report", "store", "tables"},
    "claims": {"accounting", "registry", "report", "store", "tables"},
    "ledger": {"claims", "record", "registry", "report", "store", "tables"},
    "book": {"accounting", "figures", "ledger", "notebook", "registry", "report", "store", "tables"},
    "plan": {"run", "tables"},
    "notebook": {"plan", "store", "sweep", "tables", "tuning"},  # sweep only inside the function that trains
    "reproduce": {"ledger", "notebook", "plan", "registry", "run", "store", "tables", "tuning"},
}
WITH_TORCH = {
    "tf32": set(),
    "gaussian": set(),
    "layers": {"gaussian"},
    "models": {"layers", "registry", "run"},  # of run the names of norms
    "grads": {"layers", "tf32"},
    "audit": {
        *("accounting", "data", "environment", "gaussian", "generators", "grads", "layers", "methods", "models"),
        *("record", "run", "sampling", "store", "tables", "train"),
    },
    "generators": set(),
    "sampling": {"accounting"},
    "methods": {
        *("accounting", "gaussian", "generators", "grads", "layers", "registry", "run", "sampling", "schedules"),
    },
    "data": set(),
    "preprocessing": {"data"},
    "pca": {"data", "gaussian"},
    "environment": {"tf32"},
    "train": {
        *("data", "environment", "generators", "grads", "layers", "lease", "methods", "models", "pca"),
        *("preprocessing", "record", "registry", "run", "store", "tf32"),
    },
    "sweep": {"data", "environment", "lease", "plan", "record", "run", "store", "tables", "train", "tuning"},
    "bench": {
        *("environment", "gaussian", "generators", "grads", "layers", "methods", "models", "registry", "run", "store"),
        "tf32",
    },
}
RULES = WITHOUT_TORCH | WITH_TORCH


def rooms() -> dict[str, list[Path]]:
    found = {path.stem: [path] for path in LIB.glob("*.py") if path.stem != "__init__"}
    return found | {path.parent.name: sorted(path.parent.glob("*.py")) for path in LIB.glob("*/__init__.py")}


def imported(path: Path) -> set[str]:
    """The rooms that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("lib.")}


def test_every_room_has_its_rule():
    assert set(rooms()) == set(RULES)


@pytest.mark.parametrize("room", sorted(RULES))
def test_a_room_imports_only_what_it_may(room):
    for path in rooms()[room]:
        assert imported(path) - {room} <= RULES[room], path


def test_the_arrows_point_one_way():
    def reach(room, seen=()):
        assert room not in seen, f"{' → '.join((*seen, room))} is a circle"
        for other in RULES[room]:
            reach(other, (*seen, room))

    for room in RULES:
        reach(room)


def test_a_checkpoint_knows_all_code_that_a_training_depends_on():
    """But for what changes where it runs and what is filed, not its course."""
    elsewhere, reached, left = {"environment", "lease", "registry", "store"}, set(), {"train", "methods", "models"}
    while left:
        reached |= left
        left = {other for room in left for path in rooms()[room] for other in imported(path)} - reached
    assert reached - elsewhere == {name.removesuffix(".py") for name in checkpoint.CODE}


def test_reading_results_needs_no_torch():
    code = f"import sys, {', '.join(f'lib.{room}' for room in WITHOUT_TORCH)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_notebook_opens_without_what_executes_it():
    """nbformat takes six seconds, which every kernel would pay."""
    code = "import sys, lib.notebook, lib.reproduce; sys.exit(bool({'nbformat', 'papermill'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", sorted(LIB.rglob("*.py")), ids=lambda path: str(path.relative_to(LIB)))
def test_a_file_has_one_noun_and_says_which(path):
    source = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source)), f"{path} has no module docstring"
    assert source.count("\n") <= 250, f"{path} is longer than 250 lines"
