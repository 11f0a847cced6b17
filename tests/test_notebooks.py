"""The committed notebooks: parameterised, executed, clean.  That they still give what they show is nbval's test."""

import ast
import re
from pathlib import Path

import nbformat
import papermill
import pytest

from lib import registry, tables
from lib.notebook import PARAMETERS

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def parameters(notebook):
    tagged = [cell for cell in code(notebook) if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    return tagged[0]


def test_there_is_a_notebook_for_every_table():
    assert PATHS
    for path in (Path(tables.__file__).parent).glob("[!_]*.py"):
        assert FOLDER / f"{tables.load(path.stem).notebook}.ipynb" in PATHS


def test_it_is_valid_and_opens_with_a_title(notebook):
    nbformat.validate(notebook)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")


def test_it_says_how_long_it_takes_and_ends_with_exercises(notebook):
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert "minute" in text[0]
    assert any("**Predict" in part for part in text)
    exercises = "\n".join(text).partition("## Exercises")[2]
    assert "\n1. " in exercises
    assert "\n2. " in exercises


def test_parameters_are_commented_literals_that_only_read(notebook):
    body = ast.parse(parameters(notebook).source).body
    values = {node.targets[0].id: ast.literal_eval(node.value) for node in body}
    if "table" in values:
        assert tuple(values) == PARAMETERS
        assert values["run_missing"] is False
    else:  # a notebook of its own kind checks its own names
        opening = next(cell.source for cell in code(notebook) if "check_parameters" in cell.source)
        assert all(f'"{name}"' in opening for name in values)
    assert all("  # " in line for line in parameters(notebook).source.splitlines())


def test_every_cell_was_executed_in_order_without_an_error(notebook):
    """nbval does not compare a cell that was never executed, so such a cell would pass unseen."""
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    assert not [output for cell in code(notebook) for output in cell.outputs if output.output_type == "error"]


def test_it_defines_nothing_and_asserts_what_it_says(notebook):
    nodes = [node for cell in code(notebook) for node in ast.walk(ast.parse(cell.source))]
    assert not [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    assert [node for node in nodes if isinstance(node, ast.Assert)]


def test_cells_that_only_check_are_folded_and_the_first_cell_says_so(notebook):
    checks = [cell.source for cell in code(notebook) if "assert " in cell.source and not cell.outputs]
    folded = [cell.source for cell in code(notebook) if cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert folded == checks
    assert bool(folded) == ("olded cell" in notebook.cells[0].source)


def test_no_times_and_no_widget_state(notebook):
    assert not {"widgets", "papermill"} & set(notebook.metadata)
    assert not [cell for cell in notebook.cells if {"execution", "papermill"} & set(cell.metadata)]


def test_only_the_training_cell_is_left_out_of_the_comparison(notebook):
    ignored = [cell.source for cell in code(notebook) if "nbval-ignore-output" in cell.metadata.get("tags", [])]
    assert len(ignored) == ("run_missing" in parameters(notebook).source)
    assert all(source.startswith("if run_missing:") for source in ignored)


def test_no_result_is_typed_into_the_prose(notebook):
    """An accuracy or a spread belongs into an output; what a paper prints is quoted between quotation marks."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"[“\"][^”\"]*[”\"]|\$[^$]*\$|\]\([^)]*\)|arXiv [\d.]+", "", cell.source)
            assert not re.search(r"\b\d{2}\.\d\d?\b|±", prose), cell.source


@pytest.mark.slow
@pytest.mark.parametrize("table", registry.names("tables"))
def test_every_exhibit_opens_in_its_notebook(table, tmp_path):
    chosen = {"table": table, "figure": None}
    path = FOLDER / f"{tables.load(table).notebook}.ipynb"
    papermill.execute_notebook(path, tmp_path / "out.ipynb", chosen, kernel_name="python3", progress_bar=False)
