"""Stored beside printed, checked by hand."""

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import make_record, make_run

from lib import figures, ledger, report, tables, tuning
from lib.claims import every, of
from lib.record import Record
from lib.report import privacy_words
from lib.report.cells import _epsilons
from lib.report.from_printed import _told
from lib.store import RESULTS, Store
from lib.tables import Printed

TABLE = tables.load("mnist_noise")
ROW = replace(TABLE, rows=TABLE.rows[:1])


def by_seed(row, column, seed):
    """98, 99 and 100 for the three seeds: mean 99, standard error 1/√3."""
    return [50.0, 98.0 + seed]


def test_mean_and_standard_error_by_hand(fill):
    cells = report.summary(TABLE, "cpu", fill(TABLE, by_seed, seeds=3))
    assert len(cells) == 36
    assert set(cells["n"]) == {3}
    assert cells["mean"].tolist() == pytest.approx([99.0] * 36)
    assert cells["stderr"].tolist() == pytest.approx([3**-0.5] * 36)
    assert set(cells["lr"]) == {0.003}  # the second point of the grid, which conftest lets win


def test_the_text_has_every_row_ours_and_printed(fill):
    text = report.text(TABLE, "cpu", fill(TABLE, by_seed, seeds=3))
    assert text.count("99.00 ± 0.58 (3)") == 36
    assert "98.40 ± 0.03" in text
    assert text.count("no convergence") == 6
    assert "python -m lib.reproduce --tier cpu --table mnist_noise --seeds 3" in text
    assert "non-private training" in text
    assert all(row in text for row in TABLE.rows)


def test_the_command_is_for_the_seeds_of_most_cells_and_in_mixed_precision_where_a_run_was(fill):
    store = fill(TABLE, by_seed, seeds=2)
    assert report.command(TABLE, "cpu", store).endswith("--table mnist_noise --seeds 2")
    of_a_third = make_record(tuning.cell_run(TABLE, *TABLE.cells[0], 2, "cpu", store), 90.0)
    of_a_third["env"]["flags"]["precision"] = "bfloat16"
    store.write(TABLE.name, of_a_third)
    assert report.command(TABLE, "cpu", store).endswith("--seeds 2 --precision bfloat16")
    row, head = TABLE.rows[0], report.heads(TABLE)[0]
    assert f"\ntrained in bfloat16, unlike the others: {row} at {head}\n" in report.text(TABLE, "cpu", store)


def test_missing_cells_are_dashes_and_one_seed_has_no_spread(fill):
    store = fill(TABLE, lambda row, column, seed: [97.5] if row == "LeNet-5" else None)
    lines = report.text(TABLE, "cpu", store).splitlines()
    assert sum("97.50 (1)" in line for line in lines) == 1
    assert next(line for line in lines if line.startswith("BN-LeNet-5")).count("–") == 6
    left = f"{len(TABLE.cells) - len(TABLE.columns)} of {len(TABLE.cells)}"
    assert any(line.startswith(f"not trained yet: {left} cells; ") for line in lines)


def test_the_command_is_for_more_seeds_where_as_many_cells_have_more(fill):
    few = ROW.cells[: len(ROW.cells) // 2]
    store = fill(ROW, lambda row, column, seed: None if seed and (row, column) in few else [90.0], seeds=2)
    assert report.command(ROW, "cpu", store).endswith("--seeds 2")


def test_the_rarer_precision_is_told_whichever_comes_first(fill):
    first = ROW.cells[0]
    store = fill(ROW, lambda row, column, seed: None if (row, column) == first else [90.0])
    record = make_record(tuning.cell_run(ROW, *first, 0, "cpu", store), 90.0)
    record["env"]["flags"]["precision"] = "bfloat16"
    store.write(ROW.name, record)
    (told,) = report._other_precision(ROW, "cpu", store)
    assert told == f"trained in bfloat16, unlike the others: {first[0]} at {report.heads(ROW)[0]}"


def test_two_runs_have_a_spread():
    assert (report.ours(90.0, 0.5, 2), report.ours(90.0, None, 1)) == ("90.00 ± 0.50 (2)", "90.00 (1)")


def test_of_other_step_sizes_the_best_comes_first(fill):
    store = fill(ROW, by_seed)
    for lr, accuracy in ((0.01, 70.0), (0.03, 80.0), (0.1, 75.0)):
        store.write(ROW.name, make_record(ROW.cell(*ROW.cells[0], seed=0, tier="cpu", lr=lr), accuracy))
    assert [other["mean"] for other in report.summary(ROW, "cpu", store)["other_steps"][0]] == [80.0, 75.0, 70.0]


def test_seeds_after_a_gap_are_not_counted(fill):
    store = fill(TABLE, lambda row, column, seed: None if seed == 1 else [90.0], seeds=3)
    assert set(report.summary(TABLE, "cpu", store)["n"]) == {1}


def test_an_empty_store_gives_an_empty_table_and_empty_figures(tmp_path):
    store = Store(tmp_path)
    assert "nothing stored yet" in report.text(TABLE, "cpu", store)
    assert report.one_step_size(TABLE, "cpu", store).empty
    for draw in (figures.against_column, figures.search, figures.against_epoch):
        draw(TABLE, "cpu", store)


def test_a_smoke_table_says_that_its_data_are_not_the_papers(tmp_path):
    assert report.title(TABLE, "smoke").startswith("SMOKE TIER")
    assert "NOT THE PAPER'S DATA" in report.text(TABLE, "smoke", Store(tmp_path))
    assert "SMOKE" not in report.title(TABLE, "cpu")


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("mnist_noise", "digits"),
        ("agnews_noise", "topics"),
        ("cifar10_noise", "digits_rgb"),
        ("cifar10_dpsgd_bn", "digits_rgb and stripes_rgb"),
    ],
)
def test_a_smoke_table_names_the_data_that_it_is_on(table, names):
    assert report.title(tables.load(table), "smoke").startswith(f"SMOKE TIER, {names}, NOT THE PAPER'S DATA. ")


def test_curves_have_a_line_per_epoch(fill):
    frame = report.curves(TABLE, "cpu", fill(TABLE, by_seed, seeds=2))
    assert len(frame) == 36 * 2 * 2
    assert frame[frame["epoch"] == 1]["accuracy"].unique().tolist() == [50.0]


def test_one_step_size_is_the_one_that_is_best_on_average(fill):
    frame = report.one_step_size(TABLE, "cpu", fill(TABLE, by_seed))
    assert frame.loc["LeNet-5", "step size"] == "0.003"
    assert frame.loc["LeNet-5", "σ = 2"] == "60.00"


def test_one_step_size_is_told_under_the_heads_of_its_columns(tmp_path):
    """Whatever the order of the columns; the last one is not the worst, and the worst does not decide alone."""
    table, store = replace(TABLE, rows=("LeNet-5",), columns=(0.1, 1.0, 0.0)), Store(tmp_path, read_only=False)
    for column in table.columns:
        for i, lr in enumerate(table.grid["lr"]):
            accuracy = {0.1: 50.0 + 10.0 * (i == 1), 1.0: 20.0 - abs(i - 2), 0.0: 80.0}[column]
            store.write(table.name, make_record(table.tuning("LeNet-5", column, tier="cpu", lr=lr), accuracy))
    found = report.one_step_size(table, "cpu", store).loc["LeNet-5"]
    assert found.to_dict() == {"step size": "0.003", "σ = 0.1": "60.00", "σ = 1": "19.00", "σ = 0": "80.00"}


def test_figures_show_what_is_stored(fill):
    store = fill(TABLE, by_seed, seeds=2)
    panels = figures.against_column(TABLE, "cpu", store).axes
    axes = next(axes for axes in panels if axes.get_title() == "LeNet-5")
    ours, *_, crosses, failed = axes.lines
    assert ours.get_ydata().tolist() == pytest.approx([98.5] * 6)
    assert list(crosses.get_ydata()) == [99.2, 98.94, 98.4]
    assert list(failed.get_xdata()) == [3, 4, 5]  # "no convergence"
    assert failed.get_label() == "printed: no convergence"
    assert len(figures.search(TABLE, "cpu", store).axes) == 6
    line = figures.at_step_size(TABLE, "cpu", store, lr=0.003).axes[0].lines[0]
    assert line.get_ydata().tolist() == pytest.approx([60.0] * 6)


NAMES = {claim.name for claim in every()}
HEADLINES = {claim.name for claim in every() if claim.headline}


def test_the_ledger_tells_the_privacy_of_the_rows_that_decide(fill):
    table = tables.load("agnews_si_dpsgd")
    store = fill(table, lambda row, column, seed: [80.0 - 9 * row.startswith("SI")], seeds=2)
    text = ledger.ledger(store)
    (line,) = (found for found in text.splitlines() if "**Texts: SI-DPSGD is more accurate" in found)
    assert ", DPSGD (LN-BiLSTM-DL): 0.05 to 7 by pld / 0.05 to 7 / none<br>SI-DPSGD (BiLSTM-DL), SI-DPSGD" in line
    assert line.endswith("(LN-BiLSTM-DL): 0.05 to 7 by rdp_2020 / none / none |")
    (line,) = (found for found in text.splitlines() if "**SI-DPSGD has the privacy of DPSGD" in found)
    assert line.endswith(" | – |")
    (line,) = (found for found in text.splitlines() if "**Texts: normalisation helps private" in found)
    assert "rdp_2020" not in line


def test_the_ledger_tells_the_privacy_of_the_row_that_a_claim_is_of_and_not_of_what_stands_beside(fill):
    """v2's batch norm is the row whose sum moves too far; the sound ones, which are named beside, have a proof."""
    table = tables.load("mnist_dpsgd_bn")
    text = ledger.ledger(fill(table, lambda row, column, seed: [80.0], seeds=2))
    (line,) = (found for found in text.splitlines() if "**Batch norm with public images adds no privacy loss" in found)
    assert line.count("BN-LeNet-5, public alone") == 2
    assert line.endswith(" | 0.05 to 7 by pld / 0.05 to 7 / none |")


def test_a_mark_of_any_run_is_told_in_the_ledger(fill):
    table = tables.load("mnist_dp_choices")
    store = fill(table, lambda row, column, seed: [90.0], seeds=1)
    (row, column), *_ = table.cells
    second = make_record(tuning.cell_run(table, row, column, 1, "cpu", store), 90.0)
    second["env"]["flags"]["noise"] = "float32"
    store.write(table.name, second)
    assert "†" in ledger._privacy(SimpleNamespace(table=table.name, also=None), row, "cpu", store)


@pytest.mark.parametrize(
    ("paper", "cpu", "filled", "told"),
    [
        ("holds", "fails", ("paper", "cpu"), ("holds", "paper")),
        ("open", "fails", ("paper", "cpu"), ("fails", "cpu")),
        ("holds", "fails", ("cpu",), ("fails", "cpu")),
        ("open", "open", ("paper", "cpu"), ("open", "cpu")),
    ],
)
def test_a_verdict_is_of_the_best_tier_that_decides(tmp_path, monkeypatch, paper, cpu, filled, told):
    class Claim:
        table = TABLE.name

        def judge(self, tier, store):
            return SimpleNamespace(status={"paper": paper, "cpu": cpu}[tier])

    monkeypatch.setattr(report, "results", lambda table, tier, store: SimpleNamespace(empty=tier not in filled))
    judged, tier = ledger.verdict(Claim(), Store(tmp_path))
    assert (judged.status, tier) == told


def test_a_verdict_is_found_anew_once_the_store_has_more(tmp_path):
    class Claim:
        table = TABLE.name

        def judge(self, tier, store):
            return SimpleNamespace(status="open", records=len(store))

    claim, store = Claim(), Store(tmp_path, read_only=False)
    assert ledger.verdict(claim, store)[0].records == 0
    store.write(TABLE.name, make_record(make_run(), 1.0))
    assert ledger.verdict(claim, store)[0].records == 1


def test_the_ledger_has_every_claim_with_its_verdict(fill):
    store = fill(TABLE, by_seed, seeds=2)
    text = ledger.ledger(store)
    headlines, rest = text.split("<details>")
    assert {claim.name for claim in every() if f"| **{claim.name}**" in headlines} == HEADLINES
    assert {claim.name for claim in every() if f"| **{claim.name}**" in rest} == NAMES - HEADLINES
    quoted = [claim for claim in every() if claim.says]
    assert f"The others; of {len(quoted)} claims in the papers' words " in rest
    assert f", of {len(every()) - len(quoted)} questions of ours " in rest
    summary = re.search(r"<summary>(.*)</summary>", rest)[1]
    assert sum(map(int, re.findall(r"(\d+) (?:hold|fail|open)", summary))) == len(every())
    page = ledger.page(store)
    assert all(f"## {claim.table}:" in page for claim in every())
    assert page.count("**holds**") == 0  # verdicts in the page are plain words
    assert of("mnist_noise")[0].name in page
    headings = {ledger.anchor(line.removeprefix("## ")) for line in page.splitlines() if line.startswith("## ")}
    assert set(re.findall(r"REPORT\.md#([^)]+)\)", text)) <= headings


def test_an_anchor_is_what_github_makes_of_a_heading():
    assert ledger.anchor("agnews_noise: v2 Table 4 = v1 Table 3") == "agnews_noise-v2-table-4--v1-table-3"


def private(*seeds: int) -> list[Record]:
    run = make_run(method="dpsgd", clip_norm=1.0, epsilon=1.0, sampler="poisson", optimizer="sgd")
    return [make_record(replace(run, seed=seed), 90.0) for seed in seeds]


def test_a_cell_is_proven_only_if_all_of_its_runs_are():
    of_cell = private(0, 1)
    for record, epsilon in zip(of_cell, (1.0, 2.0), strict=True):
        record["privacy"]["claimed"], record["privacy"]["proven"]["epsilon"] = {"pld": 1.0}, epsilon
    assert _epsilons(of_cell)["proven"] == 2.0
    of_cell[0]["privacy"]["proven"]["epsilon"] = None
    assert _epsilons(of_cell)["proven"] is None


def test_of_a_cell_the_largest_audit_is_told_and_a_mark_of_any_run():
    of_cell = private(0, 1)
    for record, epsilon in zip(of_cell, (0.3, 0.6), strict=True):
        record["privacy"]["audited"] = {"epsilon": epsilon}
    of_cell[1]["env"]["flags"]["noise"] = "float32"
    told = _epsilons(of_cell)
    assert (told["audited"], told["mark"]) == (0.6, "†")
    assert privacy_words.of_cells([[record] for record in of_cell]).startswith("1 by pld / 1† / 0.3 to 0.6 (")


def test_an_audit_is_rounded_down_and_a_proof_up():
    cells = [[record] for record in private(0, 1)]
    for (record,), epsilon in zip(cells, (0.50049, 0.60049), strict=True):
        record["privacy"]["audited"] = {"epsilon": epsilon}
        record["privacy"]["proven"]["epsilon"] = epsilon
    assert privacy_words.of_cell(cells[0]).startswith("1 by pld / 0.501 / 0.5 (")
    assert privacy_words.of_cells(cells).startswith("1 by pld / 0.501 to 0.601 / 0.5 to 0.6 (")


def test_where_nothing_is_claimed_nothing_is_there_to_prove():
    free = make_record(make_run(), 90.0)
    assert privacy_words.of_cells([private(0), [free]]).startswith("1 by pld / 1 / none (")


NOISE = "† proven for real numbers: in 2 of 3 runs noise was added in float32, whose last digits can tell an example"
ONE, NORMS = "of 1 the noise was a single draw, not quite Gaussian", "of 1 a norm may have come out too small"
DELTA = "what that adds to δ their records say"


@pytest.mark.parametrize(
    ("rounded", "one_draw", "short", "told"),
    [
        (0, 0, 0, ""),
        (2, 0, 0, NOISE),
        (2, 1, 0, f"{NOISE}; {ONE}; {DELTA}"),
        (2, 0, 1, f"{NOISE}; {NORMS}; {DELTA}"),
        (2, 1, 1, f"{NOISE}; {ONE}; {NORMS}; {DELTA}"),
    ],
)
def test_runs_that_did_not_keep_to_what_is_assumed_are_counted_among_those_with_a_proof(rounded, one_draw, short, told):
    proven, free = private(0, 1, 2), make_record(make_run(), 90.0)
    for record in [free, *proven[:rounded]]:
        record["env"]["flags"] = {"draws": 2}
    for record in [free, *proven[:one_draw]]:
        record["env"]["flags"] = {}
    for record in proven[:short]:
        record["privacy"]["proven"]["assumes"] = f"something, but for {privacy_words.SHORT}"
    assert privacy_words.of_assumptions([*proven, free]) == told


def test_differences_by_hand(fill):
    """Ours 99 with standard error 1/√3; printed 98.40 ± 0.03, 99.2 without a spread, and "no convergence"."""
    found = report.from_printed(TABLE, "cpu", fill(TABLE, by_seed, seeds=3))
    assert list(found.columns) == list(range(len(TABLE.columns)))
    printed = {column: TABLE.printed.get(("LeNet-5", column)) for column in TABLE.columns}
    for i, cell in enumerate(printed.values()):
        if cell is None or cell.mean is None:
            assert found.loc["LeNet-5", i] == "–"
        else:
            spread = math.hypot(3**-0.5, cell.stderr or 0.0)
            assert found.loc["LeNet-5", i] == f"{99 - cell.mean:+.2f} ({abs(99 - cell.mean) / spread:.1f})"


@pytest.mark.parametrize(
    ("mean", "stderr", "printed", "told"),
    [
        (99.0, 0.3, Printed(98.0, 0.4), "+1.00 (2.0)"),  # independent errors add as squares
        (28.0, math.nan, Printed(30.0, up_to=40.0), "-2.00 (–)"),  # as far as the nearer end of a range
        (35.0, math.nan, Printed(30.0, up_to=40.0), "+0.00 (–)"),
        (43.0, math.nan, Printed(30.0, up_to=40.0), "+3.00 (–)"),
        (99.94, 1.0, Printed(0.0), "+99.94 (99.9)"),
        (99.96, 1.0, Printed(0.0), "+99.96 (> 99)"),
    ],
)
def test_a_difference_is_told_in_points_and_in_standard_errors(mean, stderr, printed, told):
    assert _told(mean, stderr, printed) == told


def test_what_is_printed_as_about_so_much_is_told_in_whole_points(fill):
    table = tables.load("bc_noise")
    cell = "convnet, C = .14", 1.0
    assert table.printed[cell].text == "≈ 35"
    assert table.printed["resnet-18, C = .095", 0.4].text == "≈ 40 (below it from here on)"
    store = fill(table, lambda row, column, seed: [33.6 + seed])
    told = report.from_printed(table, "cpu", store)
    assert told.loc[cell[0], table.columns.index(cell[1])] == "≈ -1 (–)"


def test_a_single_run_has_no_standard_errors_and_nothing_stored_no_difference(fill, tmp_path):
    assert report.from_printed(TABLE, "cpu", fill(TABLE, by_seed)).loc["LeNet-5", 0] == "-1.20 (–)"
    assert report.from_printed(TABLE, "cpu", Store(tmp_path / "empty")).empty


def test_the_spread_of_a_few_runs_that_agree_is_not_taken_for_certainty(fill):
    found = report.from_printed(TABLE, "cpu", fill(TABLE, lambda row, column, seed: [90.0 + seed / 1e3], seeds=2))
    assert found.loc["LeNet-5", 0].endswith("(> 99)")


def test_provenance_counts_runs_by_commit(fill, tmp_path):
    text = report.provenance(TABLE, "cpu", fill(TABLE, by_seed, seeds=2))
    searched = len(
        {run.id for cell in TABLE.cells for run in tuning.runs(TABLE, *cell, "cpu", Store(tmp_path / "empty"))}
    )
    hours = [count * 2 / 3600 for count in (2 * 36, searched)]  # a second on two cores each
    runs = f"{2 * 36} runs ({hours[0]:.1f} core hours) and {searched} of the search ({hours[1]:.1f})"
    assert text.startswith(f"provenance: {runs}; a made-up CPU; commits unknown (")
    assert report.provenance(TABLE, "cpu", Store(tmp_path / "empty")) == "provenance: nothing stored yet"


@pytest.fixture
def env(monkeypatch) -> dict:
    """What ``fill``'s records say of where they were made, beside what they all say."""
    said = {"flags": {"threads": 2}}
    monkeypatch.setattr(
        "conftest.make_record", lambda *of: (record := make_record(*of)) | {"env": record["env"] | said}
    )
    return said


def test_a_record_from_outside_a_repository_has_a_provenance(fill, env):
    env["git_commit"] = None
    assert "commits unknown (" in report.provenance(TABLE, "cpu", fill(TABLE, by_seed))


@pytest.mark.parametrize(
    ("flags", "told"),
    [({"draws": 2}, ["in 24 of 24 runs"]), ({}, ["in 24 of 24 runs"]), ({"noise": "float64"}, [])],
)
def test_proofs_of_runs_whose_noise_was_added_in_float32_are_told(flags, told, fill, env):
    env["flags"] |= flags
    table = tables.load("mnist_dp_batches")
    text = report.text(table, "cpu", fill(table, lambda row, column, seed: [90.0], seeds=2))
    assert ("0.5 by pld / 0.5† / none" in text) == bool(told)
    assert re.findall(r"^† proven for real numbers: (in \d+ of \d+ runs)", text, re.MULTILINE) == told


def test_the_readme_must_have_the_marks_once_each(fill):
    store = fill(TABLE, by_seed)
    blocks = [f"{ledger.BEGIN.format(name)}\nold\n{ledger.END.format(name)}" for name in ("ledger", "speed", "cost")]
    readme = "before\n" + "\n".join(blocks) + "\nafter"
    found = ledger.blocks(store)
    new = ledger.with_blocks(readme, found)
    assert new.startswith("before\n")
    assert new.endswith("\nafter")
    assert "\nold\n" not in new
    assert ledger.with_blocks(new, found) == new
    for wrong in ("no marks", readme * 2):
        with pytest.raises(ValueError, match=r"README.md: expected the marks .* once each"):
            ledger.with_blocks(wrong, found)


def test_the_table_of_speed_is_that_of_the_stored_bench(tmp_path):
    numbers = {"ratio": 1.234, "low": 1.1, "high": 1.3, "memory": 0.876, "batch_size": 256}
    env = {"device": "a made-up CPU", "torch": "2.15", "flags": {"threads": 2}}
    stored = {"results": {"LeNet-5": {"ours, fast": numbers}}, "env": env}
    (tmp_path / "private_step-cpu.json").write_text(json.dumps(stored), encoding="utf-8")
    *_, machine, line = ledger.speed(tmp_path).splitlines()
    assert machine == "| **Private step**; a made-up CPU, 2 threads, torch 2.15 | | | |"
    assert line == "| LeNet-5, 256 | ours, fast | × 1.23 [1.10, 1.30] | × 0.88 |"


def test_the_cost_of_a_table_is_that_of_its_records(tmp_path):
    store = Store(tmp_path, read_only=False)
    for seed, (held_out, seconds) in enumerate([(297, 600.0), (297, 60.0), (0, 1200.0), (0, 300.0)]):
        record = make_record(make_run(seed=seed, validation_examples=held_out), 90.0)
        store.write("mnist_noise", record | {"env": record["env"] | {"seconds": seconds}})
    line = ledger.cost(store).splitlines()[-1]
    # 2160 s with 2 threads; the longest of the search and the longest final run are 600 s + 1200 s
    assert line == "| `mnist_noise` | 4 | 1.2 | 36 min | 30 min | 30 min | 2 workers |"


def test_the_committed_report_and_readme_are_what_the_results_give():
    store = Store(RESULTS)
    readme = (RESULTS.parent / "README.md").read_text(encoding="utf-8")
    assert (RESULTS / "REPORT.md").read_text(encoding="utf-8") == ledger.page(store), "run python -m lib.reproduce"
    assert ledger.with_blocks(readme, ledger.blocks(store)) == readme, "run python -m lib.reproduce"


def test_a_line_for_every_run_is_all_numbers(fill):
    """As a spreadsheet wants them: an ε that is not there is NaN, and so is one that is not printed."""
    table = tables.load("mnist_si_dpsgd")
    store = fill(table, lambda row, column, seed: [90.0 + seed], seeds=2)
    runs = report.results(table, "cpu", store).set_index(["row", "column", "seed"]).sort_index()
    assert len(runs) == 2 * len(table.cells)
    one = runs.loc["SI-DPSGD (LeNet-5)", 1.0, 1]
    assert (one["method"], one["accuracy"], one["printed"]) == ("si_dpsgd", 91.0, 98.72)
    assert (one["claimed"], one["accountant"], one["delta"]) == (1.0, "rdp_2020", 1e-5)
    assert runs.loc["DPSGD (LeNet-5)", 1.0, 0][["claimed", "proven"]].tolist() == [1.0, 1.0]
    assert runs["audited"].isna().all()
    free = runs[runs.index.get_level_values("column").isna()]
    assert len(free) == 2 * sum(column is None for _, column in table.cells)
    assert free[["claimed", "proven", "audited", "delta"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("epsilon", "least", "most"),
    [
        (2.52950, "2.52", "2.53"),
        (0.05, "0.05", "0.05"),
        (464.4, "464", "465"),
        (1000.0, "1000", "1000"),
        (1000.4, "> 1000", "> 1000"),
    ],
)
def test_bounds_are_rounded_to_where_they_stay_bounds(epsilon, least, most):
    assert (report.at_least(epsilon), report.at_most(epsilon)) == (least, most)
