"""The batch job: which notebooks it runs, and what it refuses."""

import subprocess
import sys
from pathlib import Path

import papermill
import pytest
from papermill.exceptions import PapermillExecutionError

from lib import registry, reproduce

REPOSITORY = Path(__file__).resolve().parent.parent


def test_every_exhibit_is_run_once_a_figure_with_its_table():
    shown = [name for table in reproduce.exhibits() for name in (table.name, table.figure) if name]
    assert sorted(shown) == list(registry.names("tables"))
    assert [table.name for table in reproduce.exhibits(["mnist_convergence", "mnist_noise"])] == ["mnist_noise"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tier", "huge"], "error: unknown tier 'huge'; expected one of smoke, cpu, paper"),
        (
            ["--table", "x"],
            "error: unknown table 'x'; expected one of mnist_convergence, mnist_noise, mnist_noise_choices",
        ),
        (["--seeds", "0"], "error: seeds: expected a whole number of at least 1; got 0"),
        (["--minutes", "-2"], "error: minutes: expected None or a number of at least 0; got -2.0"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lib.reproduce", *arguments])
    with pytest.raises(SystemExit) as refused:
        reproduce.main()
    assert refused.value.code == message


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tabel": "mnist_noise"}, "unknown parameter 'tabel'; expected some of table, figure, tier"),
        ({"tier": "full", "run_missing": True}, "unknown tier 'full'; expected one of smoke, cpu, paper"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_papermill_with_a_wrong_parameter_stops_at_the_opening_cell(parameters, message, tmp_path):
    notebook = REPOSITORY / "notebooks" / "01_noise_robustness.ipynb"
    with pytest.raises(PapermillExecutionError, match=message) as stopped:
        papermill.execute_notebook(
            notebook, tmp_path / "out.ipynb", parameters, kernel_name="python3", progress_bar=False
        )
    assert stopped.value.exec_count == 3  # parameters, injected, opening


@pytest.mark.slow
def test_the_whole_smoke_tier_runs_and_leaves_the_committed_files_alone():
    watched = [REPOSITORY / "README.md", REPOSITORY / "results" / "REPORT.md"]
    before = [path.read_bytes() for path in watched]
    done = subprocess.run(
        [sys.executable, "-m", "lib.reproduce"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [path.read_bytes() for path in watched] == before
