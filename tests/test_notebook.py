"""The opening cell: every parameter checked, in name and in value."""

import re
from types import SimpleNamespace
from typing import get_type_hints

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from lib import registry, tables
from lib.notebook import PICTURES, WIDGET, Notebook, first_figure, numbered, refresh
from lib.run import Run
from lib.store import folder

TABLES = ", ".join(registry.names("tables"))

GOOD = {
    "table": "mnist_noise",
    "figure": "mnist_convergence",
    "rows": None,
    "columns": None,
    "tier": "cpu",
    "seeds": 5,
    "run_missing": False,
    "minutes": None,
    "backend": "loky",
    "n_jobs": None,
    "precision": "float32",
}


def test_it_says_how_many_runs_are_stored_and_missing():
    notebook = Notebook(**GOOD)
    lines = str(notebook).splitlines()
    assert [table.name for table in notebook.exhibits] == ["mnist_noise", "mnist_convergence"]
    for line, total in zip(lines, (8 * 36 + 5 * 36, 8 * 6 + 5 * 12), strict=True):
        stored, missing = map(int, re.search(r"(\d+) runs stored, (\d+) missing", line).groups())
        assert total <= stored + missing <= 2 * total  # a search may have gone on beyond its grid


def test_both_exhibits_are_trained_within_the_minutes(monkeypatch):
    given, clock = [], iter([0.0, 0.0, 90.0])
    monkeypatch.setattr("lib.notebook.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("lib.sweep.run", lambda table, *, minutes, **plan: given.append((table.name, minutes)))
    Notebook(**GOOD | {"minutes": 2.0}).run_missing()
    assert given == [("mnist_noise", 2.0), ("mnist_convergence", 0.5)]


def test_no_exhibit_has_less_than_no_time(monkeypatch):
    given, clock = [], iter([0.0, 0.0, 180.0])
    monkeypatch.setattr("lib.notebook.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("lib.sweep.run", lambda table, *, minutes, **plan: given.append(minutes))
    Notebook(**GOOD | {"minutes": 2.0}).run_missing()
    assert given == [2.0, 0.0]


@pytest.mark.parametrize("tier", ["smoke", "cpu"])
def test_its_results_are_those_of_its_tier(tier):
    assert Notebook(**GOOD | {"tier": tier}).store.root == folder(tier)


def test_a_notebook_may_have_no_figure():
    assert [table.name for table in Notebook(**GOOD | {"figure": None}).exhibits] == ["mnist_noise"]


def test_other_rows_and_columns_take_the_place_of_the_tables():
    table = Notebook(**GOOD | {"rows": ["BN-LeNet-5"], "columns": [0.5, 2]}).table
    assert table.cells == [("BN-LeNet-5", 0.5), ("BN-LeNet-5", 2.0)]
    assert table.cell("BN-LeNet-5", 0.5, seed=0, tier="cpu", lr=0.1).weight_noise_std == 0.5


def test_rows_and_columns_may_be_tuples_with_a_row_that_is_not_run_and_a_column_without_privacy():
    table = tables.load("mnist_si_dpsgd")
    rows = ("LATENT [5]", "SI-DPSGD (LeNet-5)")
    assert rows[0] in table.not_run
    cut = Notebook(**GOOD | {"table": table.name, "figure": None, "rows": rows, "columns": (8, None)}).table
    assert (cut.rows, repr(cut.columns)) == (rows, "(8.0, None)")


@pytest.mark.parametrize("name", registry.names("tables"))
def test_a_tables_columns_have_the_type_of_the_field_they_vary(name):
    table = tables.load(name)
    field = get_type_hints(Run)[table.column]
    assert all(isinstance(column, field) for column in table.columns)
    assert type(table.columns[-1]) is (int if field is int else float)


@pytest.mark.parametrize("column", [64, 64.0])
def test_a_column_that_is_a_whole_number_stays_one(column):
    table = Notebook(**GOOD | {"table": "bc_batch_size", "figure": None, "columns": [column]}).table
    assert repr(table.columns) == "(64,)"
    assert table.cell(table.rows[0], *table.columns, seed=0, tier="cpu").batch_size == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"table": "mnist"},
            f"unknown table 'mnist'; expected one of {TABLES}",
        ),
        (
            {"figure": "fig1"},
            f"unknown table 'fig1'; expected one of {TABLES}",
        ),
        ({"rows": ["LeNet-7"]}, "rows: expected None or a list of some of 'LeNet-300-100', "),
        ({"rows": "LeNet-5"}, "rows: expected None or a list of some of 'LeNet-300-100', "),
        ({"rows": []}, "rows: expected None or a list of some of 'LeNet-300-100', "),
        ({"rows": [["LeNet-5"]]}, "rows: expected None or a list of some of 'LeNet-300-100', "),
        ({"rows": 5}, "rows: expected None or a list of some of 'LeNet-300-100', "),
        ({"rows": ["LeNet-5", "LeNet-7"]}, "rows: expected None or a list of some of 'LeNet-300-100', "),
        ({"rows": ["LeNet-5", "LeNet-5"]}, "rows: expected None or a list of some of 'LeNet-300-100', "),
        ({"table": "mnist_si_dpsgd", "rows": ["LATENT [5]"]}, "rows: expected None or a list of some of 'DPSGD [1]', "),
        ({"columns": 0.1}, "columns: expected None or numbers, as the table's 0.0, "),
        ({"columns": [0.1, 0.1]}, "columns: expected None or numbers, as the table's 0.0, "),
        ({"columns": [1, 1.0]}, "columns: expected None or numbers, as the table's 0.0, "),
        ({"columns": []}, "columns: expected None or numbers, as the table's 0.0, "),
        ({"columns": ["0.5"]}, "columns: expected None or numbers, as the table's 0.0, "),
        ({"columns": [None]}, "columns: expected None or numbers, as the table's 0.0, "),
        ({"columns": [True]}, "columns: expected None or numbers, as the table's 0.0, "),
        (
            {"table": "mnist_si_dpsgd", "figure": None, "columns": [0.0]},
            "columns: expected None or numbers above 0, as the table's None, 7.0, ",
        ),
        (
            {"table": "bc_batch_size", "columns": [64.5]},
            "columns: expected None or whole numbers, as the table's 64, 128, 256, 512, 1024; got [64.5]",
        ),
        ({"tier": "CPU"}, "unknown tier 'CPU'; expected one of smoke, cpu, paper"),
        ({"seeds": 0}, "seeds: expected a whole number of at least 1; got 0"),
        ({"seeds": "5"}, "seeds: expected a whole number of at least 1; got '5'"),
        ({"run_missing": "yes"}, "run_missing: expected True or False; got 'yes'"),
        ({"minutes": -1}, "minutes: expected None or a number of at least 0; got -1"),
        ({"backend": "threads"}, "backend: expected one of loky, sequential, dask, ray; got 'threads'"),
        ({"precision": "half"}, "precision: expected one of float32, bfloat16; got 'half'"),
        ({"n_jobs": 0}, "n_jobs: expected None or a whole number of at least 1; got 0"),
    ],
)
def test_wrong_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Notebook(**GOOD | changes)


def test_a_parameter_that_does_not_exist_is_refused():
    injected = '# Parameters\ntable = "mnist_noise"\nsigma = 3\n'
    with pytest.raises(ValueError, match=r"unknown parameter 'sigma'; expected some of table, figure, rows"):
        Notebook(**GOOD, history=["", 'table = "mnist_noise"', injected])
    with pytest.raises(ValueError, match="unknown parameter 'sigma'"):
        Notebook(**GOOD, history=["# Parameters\nseeds = 5\n", injected])
    assert Notebook(**GOOD, history=["", "sigma = 3", "# Parameters\nseeds = 5\n"])
    assert Notebook(**GOOD, history=["", "# Mine\n# Parameters\nsigma = 3\n"])


def test_a_notebook_that_is_executed_again_is_the_same_file(tmp_path):
    path = tmp_path / "widget.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("from ipywidgets import IntSlider\nIntSlider()")]), path)
    refresh(path)
    first = path.read_bytes()
    refresh(path)
    assert path.read_bytes() == first
    (cell,) = nbformat.read(path, as_version=4).cells
    assert cell.outputs[0].data[WIDGET].model_id == cell.id


def test_a_notebook_is_executed_where_it_stands_and_the_picture_of_it_follows(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.notebook.PICTURES", tmp_path)
    path, picture = tmp_path / "beside.ipynb", tmp_path / "beside.png"
    (tmp_path / "beside.txt").write_text("beside it")
    picture.write_bytes(b"the one before")
    cells = [
        new_code_cell("print(open('beside.txt').read(), flush=True)\nprint('in one piece', flush=True)"),
        new_code_cell("from IPython.display import Image\nImage(b'a figure', format='png')"),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    refresh(path)
    executed = nbformat.read(path, as_version=4)
    assert [output.text for output in executed.cells[0].outputs] == ["beside it\nin one piece\n"]
    assert picture.read_bytes() == b"a figure"
    assert executed.metadata.language_info == {"name": "python"}  # not of which version


def test_notebooks_are_found_by_their_numbers():
    assert [path.stem for path in numbered("03", "05")] == ["03_batch_norm_with_public_data", "05_accountants"]
    assert [path.name[:2] for path in numbered()] == [f"{number:02d}" for number in range(8)]


def test_a_number_that_no_notebook_has_is_refused():
    for asked in (["3"], ["03", "3"], ["03", ""]):
        with pytest.raises(ValueError, match=rf"number: expected how one of 00_tour, .* begins; got '{asked[-1]}'"):
            numbered(*asked)


def test_the_pictures_of_the_readme_are_figures_of_the_notebooks():
    readme = (PICTURES.parent.parent / "README.md").read_text(encoding="utf-8")
    pictures = sorted(PICTURES.iterdir())
    assert len(pictures) == readme.count("](notebooks/pictures/") == 2
    for picture in pictures:
        (path,) = numbered(picture.stem)
        assert picture.read_bytes() == first_figure(nbformat.read(path, as_version=4))
        assert f"](notebooks/pictures/{picture.name})" in readme
