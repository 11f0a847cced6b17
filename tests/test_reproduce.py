"""The batch job: which notebooks it runs, and what it refuses."""

import errno
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import papermill
import pytest
from conftest import make_record
from IPython.core.interactiveshell import InteractiveShell
from joblib import Parallel
from nbclient.exceptions import DeadKernelError
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from traitlets.config import Config

from lib import registry, report, reproduce, sweep, tables, tuning
from lib.reproduce import __main__ as command
from lib.reproduce._estimate import Estimate, Times, duration
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
        (["--backend", "threads"], "error: backend: expected one of loky, sequential, dask, ray; got 'threads'"),
        (["--precision", "half"], "error: precision: expected one of float32, bfloat16; got 'half'"),
        (["--n-jobs", "0"], "error: n_jobs: expected None or a whole number of at least 1; got 0"),
        (["--list", "--tier", "huge"], "error: unknown tier 'huge'; expected one of smoke, cpu, paper"),
        (["--list", "--jobs", "2"], "error: --list: expected --table and --seeds beside it alone; got n_jobs"),
        (["--dry-run", "--seeds", "0"], "error: seeds: expected a whole number of at least 1; got 0"),
        (
            ["--list", "--table", "y"],
            f"error: unknown table 'y'; expected one of {', '.join(registry.names('tables'))}",
        ),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lib.reproduce", *arguments])
    with pytest.raises(SystemExit) as refused:
        command.main()
    assert refused.value.code == message


def test_the_list_says_what_is_stored_of_each_table(monkeypatch, fill, capsys):
    table = tables.load("agnews_noise")
    store = fill(table, lambda row, column, seed: [90.0], seeds=2)
    monkeypatch.setattr(command, "folder", lambda tier: store.root)
    monkeypatch.setattr(sys, "argv", ["lib.reproduce", "--list", "--table", table.name, "--seeds", "5"])
    command.main()
    heads, line, _ = capsys.readouterr().out.splitlines()
    assert heads.split("  ")[0] == "table"
    stored, left = tuning.stored_and_missing(table, "cpu", 5, store)
    assert left == 3 * len(table.cells)
    assert f"01_noise_robustness  {table.source}" in line
    assert f"{stored} + {left}" in line


def test_the_estimate_is_what_runs_like_it_took(tmp_path):
    """Per epoch, the median; of another norm if there is none of this; unknown for another method, and for more
    examples in every step."""
    store = Store(tmp_path, read_only=False)
    table = tables.load("mnist_noise")
    runs = [table.cell("LeNet-5", 0.0, seed=seed, tier="cpu", lr=0.1) for seed in range(5)]
    for run, seconds in zip(runs[:3], (10.0, 20.0, 60.0), strict=True):
        record = make_record(run, 90.0)
        store.write(table.name, record | {"env": record["env"] | {"seconds": seconds}})
    times = Times(store)
    assert times.seconds(runs[3]) == 20.0
    assert times.seconds(table.cell("BN-LeNet-5", 0.1, seed=0, tier="cpu", lr=0.1)) == 20.0
    assert times.seconds(table.cell("LeNet-300-100", 0.0, seed=0, tier="cpu", lr=0.1)) is None
    public = tables.load("mnist_dpsgd_bn").cell("BN-LeNet-5, public alone", 3.0, seed=0, tier="cpu", lr=0.1)
    store.write("mnist_dpsgd_bn", make_record(public, 90.0))
    times = Times(store)
    assert times.seconds(replace(public, seed=1, lr=0.2)) > 0
    assert times.seconds(replace(public, public_examples=2 * public.public_examples)) is None
    assert times.seconds(replace(runs[3], augmult=4, augmentation="crop")) is None
    assert times.seconds(replace(runs[3], public_examples=100)) == 20.0  # which no step sees without such a norm
    parameters = {"table": "mnist_noise", "figure": None, "tier": "cpu", "seeds": 1}
    estimate = Estimate.of([parameters, parameters], store)
    # A run that is asked for twice is trained once.
    assert estimate.runs == tuning.stored_and_missing(table, "cpu", 1, store)[1]
    assert estimate.since(1).runs == 0
    assert Estimate.of([parameters | {"figure": "mnist_convergence"}], store).runs > estimate.runs
    assert re.fullmatch(r"\d+ runs; \d+ of them about .* with 2 workers, .* \d+ take is unknown", estimate.words(2))
    assert "  LeNet-300-100 " in str(estimate)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ([], "0 runs"),
        ([20.0, 36.0], "2 runs, about 28 s with 2 workers"),
        ([56.0, None, None], "3 runs; 1 of them about 28 s with 2 workers, how long the other 2 take is unknown"),
        ([None], "1 runs, how long they take is unknown"),
    ],
)
def test_an_estimate_says_of_which_runs_it_is(seconds, words):
    assert Estimate(({("table", "row"): seconds},)).words(2) == words


def test_notebooks_side_by_side_share_the_cores(monkeypatch):
    monkeypatch.setattr(reproduce, "cpu_count", lambda: 6)
    how = {"table": ["mnist_noise"], "seeds": 1, "minutes": None, "precision": "float32"}
    for tier, n_jobs, expected in (("smoke", None, 1), ("smoke", 2, 2), ("cpu", None, None)):
        (parameters,) = reproduce.asked(tier=tier, backend=None, n_jobs=n_jobs, **how)
        assert parameters["n_jobs"] == expected
    every = reproduce.asked(tier="smoke", backend=None, n_jobs=None, **how | {"table": None})
    assert {parameters["n_jobs"] for parameters in every} == {min(6, len(every))}


def test_a_dry_run_trains_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "folder", lambda tier: tmp_path)
    monkeypatch.setattr(sys, "argv", ["lib.reproduce", "--dry-run", "--table", "mnist_noise", "--tier", "cpu"])
    command.main()
    assert capsys.readouterr().out.splitlines()[-1].startswith("all: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("tier", "workers"), [("smoke", 1), ("cpu", 7)])
def test_a_dry_run_reckons_with_the_workers_that_there_will_be(tier, workers, monkeypatch, tmp_path):
    """In tier smoke notebooks are the workers, and this is one."""
    monkeypatch.setattr(command, "folder", lambda tier: tmp_path)
    monkeypatch.setattr(command, "cpu_count", lambda: 7)
    monkeypatch.setattr(command.Estimate, "words", lambda self, workers=1: f"with {workers}")
    plan = {"seeds": 1, "minutes": None, "backend": None, "n_jobs": None, "precision": "float32"}
    assert command.dry_run(table=["mnist_noise"], tier=tier, **plan).splitlines()[-1] == f"all: with {workers}"


@pytest.mark.parametrize("tier", ["smoke", "cpu"])
def test_the_batch_ends_with_a_summary_and_names_what_failed(tier, monkeypatch, tmp_path, capsys):
    """The notebooks themselves are left out: one that trains a run, and one that fails.  The report is written once."""
    written, at_once, store = [], [], Store(tmp_path, read_only=False)

    def run_notebook(name, output, parameters):
        if "01" in name:
            return name
        (_, run), *_ = tuning.wanted(tables.load("mnist_si_dpsgd"), tier, 1, store)
        store.write("mnist_si_dpsgd", make_record(run, 90.0))
        return None

    monkeypatch.setattr(reproduce, "Parallel", lambda n_jobs, **how: at_once.append(n_jobs) or Parallel(1, **how))
    monkeypatch.setattr(reproduce, "OUT", reproduce.OUT / "test")
    monkeypatch.setattr(reproduce, "folder", lambda tier: tmp_path)
    monkeypatch.setattr(reproduce.ledger, "write", written.append)
    monkeypatch.setattr(reproduce, "run_notebook", run_notebook)
    how = {"tier": tier, "seeds": 1, "minutes": 5.0, "backend": None, "n_jobs": 2, "precision": "float32"}
    with pytest.raises(reproduce.NotebookError, match=r"^01_noise_robustness$"):
        reproduce.reproduce(table=["mnist_noise", "mnist_si_dpsgd"], **how)
    first, second, *summary = capsys.readouterr().out.splitlines()
    assert first.startswith(f"1 of 2: mnist_si_dpsgd, tier {tier}; to train from here on: ")
    assert second.startswith(f"2 of 2: mnist_noise, tier {tier}; to train from here on: ")
    missing = int(re.search(r"from here on: (\d+) runs", first)[1]) - 1
    assert re.fullmatch(rf"2 notebooks in \d+ s, 1 of them failed; 1 runs trained, {missing} still missing", summary[0])
    assert written == [reproduce.REPOSITORY / "README.md"]
    assert at_once == [2 if tier == "smoke" else 1]  # one after the other where each has workers of its own


def test_notebooks_share_the_minutes(monkeypatch, capsys):
    """The second has what the first left of an hour, the third none; each says what is still to be trained."""
    clock = iter([0.0, 0.0, 45 * 60.0, 75 * 60.0])
    monkeypatch.setattr(reproduce.time, "monotonic", lambda: next(clock))
    notebooks = [{"table": "mnist_noise", "tier": "cpu", "minutes": 60.0}] * 3
    estimate = Estimate(({("table", "row"): [60.0]},) * 3)
    jobs = list(reproduce._jobs(notebooks, ["05_accountants"], reproduce.OUT, estimate, 1))
    assert re.findall(r"from here on: (\d) runs", capsys.readouterr().out) == ["3", "2", "1"]
    assert [parameters["minutes"] for *_, parameters in jobs[:3]] == [60.0, 15.0, 0.0]
    assert [parameters for *_, parameters in jobs[3:]] == [{}]


@pytest.mark.parametrize(("seconds", "words"), [(40.2, "40 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("01_noise_robustness", {"tabel": "mnist_noise"}, "unknown parameter 'tabel'; expected some of table, figure"),
        ("01_noise_robustness", {"tier": "full", "run_missing": True}, "unknown tier 'full'; expected one of smoke,"),
        ("02_dpsgd_vs_si_dpsgd", {"seeds": 0}, "seeds: expected a whole number of at least 1; got 0"),
        ("00_tour", {"clip": 1.0}, "unknown parameter 'clip'; expected some of clip_norm, noise_multiplier"),
        ("00_tour", {"batch_size": 0}, "batch_size: expected"),
        ("05_accountants", {"epsilon": 1.0}, "unknown parameter 'epsilon'; expected some of noise_multiplier"),
        ("05_accountants", {"delta": 1.5}, "delta: expected a number in"),
        ("07_speed", {"bench": "private_stop"}, "bench: expected one of batch_clipping_step-avx"),
        ("07_speed", {"processor": "cuda"}, "processor: expected one of avx2, avx512 for bench 'private"),
    ],
)
def test_a_wrong_parameter_stops_a_notebook_at_its_opening_cell(name, parameters, message, shell):
    """As papermill injects it, in a shell like a kernel's."""
    notebook = parameterize_notebook(load_notebook_node(str(REPOSITORY / "notebooks" / f"{name}.ipynb")), parameters)
    cells = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    ran = []
    while not ran or ran[-1].success:
        ran.append(shell.run_cell(next(cells), store_history=True))
    with pytest.raises(ValueError, match=message):
        raise ran[-1].error_in_exec
    set_up = name == "00_tour"  # for Colab
    assert len(ran) == 3 + set_up  # parameters, injected, opening


@pytest.fixture
def shell(capsys, monkeypatch):
    quiet = Config({"HistoryManager": {"enabled": False}})
    for hook in ("displayhook", "excepthook"):  # which a shell takes for itself
        monkeypatch.setattr(sys, hook, getattr(sys, hook))
    shell = InteractiveShell(config=quiet)
    yield shell
    shell.restore_sys_module_state()


@pytest.mark.filterwarnings("ignore")
def test_papermill_says_which_notebook_failed_and_why(tmp_path):
    said = reproduce.run_notebook("01_noise_robustness", tmp_path / "01-x.ipynb", {"tabel": "mnist_noise"})
    assert said.startswith("01-x: ValueError: unknown parameter 'tabel'; expected some of table, figure")


def test_a_kernel_that_dies_is_named(tmp_path, monkeypatch):
    def dies(*_, **__):
        raise DeadKernelError("Kernel died")

    monkeypatch.setattr(papermill, "execute_notebook", dies)
    assert reproduce.run_notebook("01_noise_robustness", tmp_path / "01-x.ipynb", {}) == "01-x: Kernel died"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["a folder in its place", "a file in its folder's place", "a full disk"])
def test_an_output_that_cannot_be_written_is_named_and_ends_no_other_notebook(tmp_path, monkeypatch, kind):
    output = tmp_path / "out" / "01-x.ipynb"
    if kind == "a folder in its place":
        output.mkdir(parents=True)
    elif kind == "a file in its folder's place":
        output.parent.write_text("in the way")
    else:
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(papermill, "execute_notebook", lambda *_, **__: (_ for _ in ()).throw(full))
    assert reproduce.run_notebook("01_noise_robustness", output, {}).startswith("01-x: [Errno ")


@pytest.mark.slow
def test_the_whole_smoke_tier_runs_and_leaves_the_committed_files_alone():
    watched = [REPOSITORY / "README.md", REPOSITORY / "results" / "REPORT.md"]
    before = [path.read_bytes() for path in watched]
    done = subprocess.run(
        [sys.executable, "-m", "lib.reproduce"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [path.read_bytes() for path in watched] == before
