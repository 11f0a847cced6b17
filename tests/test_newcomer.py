"""What README promises a newcomer, done to the letter."""

import ast
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from test_mistakes import ROOT, command

from lib import accounting as accounting  # of README's calls
from lib import claims, ledger, registry, sweep, tables
from lib.store import Store

README = (ROOT / "README.md").read_text(encoding="utf-8")


CALLS = re.findall(r"^(accounting\.\S.*?)  # (\d+\.\d+)", README, re.MULTILINE)


@pytest.mark.parametrize(("call", "told"), CALLS)
def test_its_calls_give_the_numbers_beside_them(call, told):
    assert f"{eval(call):.{len(told.partition('.')[2])}f}" == told


FROM_PYTHON = README.partition("\n## From Python\n")[2].partition("\n## ")[0]
FIRST = re.findall(r"```python\n(.*?)```", FROM_PYTHON, re.DOTALL)[0]


def last_value(code: str) -> object:
    """What the last line of ``code`` is, after all others."""
    *lines, last = ast.parse(code).body
    names: dict[str, object] = {}
    exec(compile(ast.Module(lines, []), "README.md", "exec"), names)
    return eval(compile(ast.Expression(last.value), "README.md", "eval"), names)


def test_its_first_block_trains_and_reports(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(sweep, "run", lambda table, **plan: asked.append((table.name, plan)))
    summary = last_value(FIRST)
    assert asked == [("mnist_noise", {"tier": "cpu", "seeds": 5, "minutes": 30})]
    assert len(summary) == len(tables.load("mnist_noise").cells)
    assert tables.load("mnist_noise").title in capsys.readouterr().out


@pytest.mark.parametrize(
    ("about", "kept"),
    [
        ("claimed and proven in the record", lambda privacy: 2.9 < privacy["proven"]["epsilon"] <= 3),
        ("A search, for any sum", lambda multiple: multiple <= 2),
        pytest.param("Canaries in orthogonal", lambda epsilon: epsilon >= 2, marks=pytest.mark.slow),
        ("And the repair", lambda metrics: metrics["test_accuracy"] > 50),
    ],
)
def test_its_other_blocks_do_what_they_say(about, kept):
    (block,) = re.findall(rf"{about}[^\n]*:\n\n```python\n(.*?)```", FROM_PYTHON, re.DOTALL)
    imports = "".join(re.findall(r"^(?:from \w|import).*\n", FROM_PYTHON, re.MULTILINE))
    assert kept(last_value(imports + block))


@pytest.mark.parametrize("name", registry.names("tables"))
def test_every_exhibit_stands_beside_its_notebook(name):
    notebook = f"(notebooks/{tables.load(name).notebook}.ipynb) |"
    (line,) = (line for line in README.splitlines() if line.startswith("| [") and notebook in line)
    assert f"`{name}`" in line


def test_what_it_says_first_is_what_the_claims_say():
    said = {
        "SI-DPSGD has the privacy of DPSGD": "fails",
        "SI-DPSGD is more accurate than DPSGD at the same proven ε": "fails",
        "Batch norm with public images adds no privacy loss": "fails",
        "MNIST at equal ε: batch clipping against individual clipping": "fails",
        "BN networks tolerate weight noise": "holds",
    }
    store = Store()
    found = {claim.name: ledger.verdict(claim, store)[0].status for claim in claims.every() if claim.name in said}
    assert "**Found so far**" in README
    assert found == said


def test_a_method_is_one_file(tmp_path):
    shutil.copytree(ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    ((name, code),) = re.findall(r"Say `(lib/methods/\w+\.py)`:\n\n```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / name).write_text(code)
    (call,) = re.findall(r"`(train\(Run\(method=.*?\))` trains with it", README)
    opening = "from lib.run import Run; from lib.train import train"
    program = f"{opening}; print({call}['metrics']['test_accuracy'])"
    status, said = command(sys.executable, "-c", program, cwd=tmp_path)
    assert status == 0, said
    assert float(said[-1]) > 50


@pytest.mark.parametrize(
    ("room", "program", "answer"),
    [
        (
            "models",
            "from lib.run import Run; from lib.train import train; how = {'lr': 0.01, 'epochs': 3, 'batch_size': 64}; "
            "print(train(Run(model='small', dataset='digits', norm='batch', **how))['metrics']['test_accuracy'])",
            r"[6-9]\d\.\d+",
        ),
        (
            "claims",
            "from lib import claims, store; (mine,) = [c for c in claims.every() if 'no harm' in c.name]; "
            "print(mine.judge('cpu', store.Store()))",
            r"open: what decides it is not stored yet",
        ),
    ],
)
def test_a_model_and_a_claim_are_one_file(room, program, answer, tmp_path):
    shutil.copytree(ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    ((name, code),) = re.findall(rf"Say `(lib/{room}/\w+\.py)`:\n\n```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / name).write_text(code)
    status, said = command(sys.executable, "-c", program, cwd=tmp_path)
    assert status == 0, said
    assert re.fullmatch(answer, said[-1])


def test_a_table_is_one_file(tmp_path):
    shutil.copytree(ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    ((name, code),) = re.findall(r"say `(lib/tables/\w+\.py)`:\n\n```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / name).write_text(code)
    how = f"tier='smoke', root={str(tmp_path / 'out')!r}, seeds=1, backend='sequential', progress=False"
    opening = f"from lib import report, store, sweep, tables; table = tables.load({Path(name).stem!r})"
    stored = f"(table, 'smoke', store.Store({str(tmp_path / 'out')!r}))"
    shown = f"figures.search{stored}, report.one_step_size{stored}, print(report.text{stored})"
    program = f"{opening}; from lib import figures; sweep.run(table, {how}); {shown}"
    status, said = command(sys.executable, "-c", program, cwd=tmp_path)
    assert status == 0, said
    ours = [line.split()[2::2] for line in said if re.match(r"(relu|tanh) +ours ", line)]
    assert len(ours) == 2, said
    assert all(float(number) > 50 for line in ours for number in line)


@pytest.mark.slow
def test_its_notebook_shows_it_as_readme_says(tmp_path):
    """In a copy, as the table is not one of the repository's."""
    for folder in ("lib", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    ((name, code),) = re.findall(r"say `(lib/tables/\w+\.py)`:\n\n```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / name).write_text(code)
    (how,) = re.findall(r"Notebook 01 shows it with `(-p table .*?)`", README)
    line = f"papermill notebooks/01_noise_robustness.ipynb out.ipynb {how} -p tier smoke -p run_missing True -k python3"
    status, said = command("sh", "-c", f"PYTHONPATH=$PWD {Path(sys.prefix) / 'bin'}/{line}", cwd=tmp_path)
    assert status == 0, said


@pytest.mark.slow
def test_another_sigma_is_one_command(tmp_path):
    (line,) = re.findall(r"^(papermill .*\\\n.*?)   # another σ", README, re.MULTILINE)
    line = line.replace("\\\n", "").replace("out/other.ipynb", str(tmp_path / "other.ipynb"))
    status, said = command("sh", "-c", f"{Path(sys.prefix) / 'bin'}/{line} -k python3")
    assert status == 0, said
    notebook = nbformat.read(tmp_path / "other.ipynb", as_version=4)
    (table,) = [
        c.outputs[0].text
        for c in notebook.cells
        if c.source.endswith("print(report.text(notebook.table, tier, store))")
    ]
    assert "σ = 0.5" in table.splitlines()[1]
    assert re.search(r"^BN-LeNet-5 +ours +\d+\.\d\d", table, re.MULTILINE)
