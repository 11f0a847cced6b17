"""The batch job: which notebooks it runs, and what it refuses."""

import subprocess
import sys
from pathlib import Path

import papermill
import pytest
from papermill.exceptions import PapermillExecutionError

from lib import registry, report, reproduce, sweep
from lib.store import Store

REPOSITORY = Path(__file__).resolve().parent.parent


def test_every_exhibit_is_run_once_a_figure_with_its_table():
    shown = [name for table in reproduce.exhibits() for name in (table.name, table.figure) if name]
    assert sorted(shown) == list(registry.names("tables"))
    assert [table.name for table in reproduce.exhibits(["mnist_convergence", "mnist_noise"])] == ["mnist_noise"]
    every = {path.stem for path in (REPOSITORY / "notebooks").glob("*.ipynb")}
    assert every == {table.notebook for table in reproduce.exhibits()} | set(reproduce.other_notebooks())


def test_every_notebook_opens_with_one_table():
    opened = reproduce.opening(reproduce.exhibits())
    assert sorted(table.notebook for table in opened) == sorted({table.notebook for table in reproduce.exhibits()})


@pytest.mark.slow
@pytest.mark.parametrize("table", [table for table in reproduce.exhibits()], ids=lambda table: table.name)
def test_every_table_is_filled_in_tier_smoke(table, tmp_path):
    done = sweep.run(table, root=tmp_path, tier="smoke", backend="sequential", n_jobs=2, progress=False)
    assert done.unfinished == 0
    assert "SMOKE TIER" in report.text(table, "smoke", Store(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tier", "huge"], "error: unknown tier 'huge'; expected one of smoke, cpu, paper"),
        (
            ["--table", "x"],
            f"error: unknown table 'x'; expected one of {', '.join(registry.names('tables'))}",
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
    ("name", "parameters", "message"),
    [
        ("01_noise_robustness", {"tabel": "mnist_noise"}, "unknown parameter 'tabel'; expected some of table, figure"),
        ("01_noise_robustness", {"tier": "full", "run_missing": True}, "unknown tier 'full'; expected one of smoke,"),
        ("02_dpsgd_vs_si_dpsgd", {"seeds": 0}, "seeds: expected a whole number of at least 1; got 0"),
        ("05_accountants", {"epsilon": 1.0}, "unknown parameter 'epsilon'; expected some of noise_multiplier"),
        ("05_accountants", {"delta": 1.5}, "delta: expected a number in"),
        ("07_speed", {"bench": "private_stop"}, "bench: expected one of batch_clipping_step-cpu, noisy_step-cpu"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_papermill_with_a_wrong_parameter_stops_at_the_opening_cell(name, parameters, message, tmp_path):
    notebook = REPOSITORY / "notebooks" / f"{name}.ipynb"
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
