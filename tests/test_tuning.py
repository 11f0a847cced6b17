"""Choosing settings from stored tuning runs."""

from dataclasses import replace

import pytest
from conftest import make_record

from lib import registry, report, tables, tuning
from lib.run import Run
from lib.store import Store

TABLE = tables.load("mnist_noise")
CELL = ("LeNet-5", 0.1)


def scored(tmp_path, scores) -> Store:
    store = Store(tmp_path, read_only=False)
    for run, score in zip(tuning.runs(TABLE, *CELL, "cpu", store), scores, strict=False):
        store.write("mnist_noise", make_record(run, 99.9, score))
    return store


@pytest.mark.parametrize(
    ("scores", "lr"),
    [
        ([10, 20, 30, 80, 70, 10, 10, 10], 0.03),
        ([10, 80, 30, 80, 70, 10, 10, 10], 0.003),  # the first among equals
        ([10, 79.61, 30, 80, 70, 10, 10, 10], 0.003),  # within √(.8 × .2 / 10,000) = 0.4 points of the best
        ([10, 79.59, 30, 80, 70, 10, 10, 10], 0.03),
        ([10, 20, 30, 40, 50, 60, 70, 80], 3.0),
        ([10, 100, 100, 20, 10, 10, 10, 10], 0.003),  # all right, which has no standard error
    ],
)
def test_the_first_within_one_standard_error_of_the_best_wins(tmp_path, scores, lr):
    store = scored(tmp_path, scores)
    assert tuning.chosen(TABLE, *CELL, "cpu", store) == {"lr": lr}
    assert tuning.cell_run(TABLE, *CELL, 2, "cpu", store) == TABLE.cell(*CELL, seed=2, tier="cpu", lr=lr)


def asked(store) -> list[float]:
    return [point["lr"] for point in tuning.points(TABLE, *CELL, "cpu", store)]


def test_a_search_that_ends_at_an_end_goes_on(tmp_path):
    """Up while the last is chosen, so often and no oftener; the choice stands until the next run is stored, and is
    marked."""
    store, further = scored(tmp_path, [10, 20, 30, 40, 50, 60, 70, 80]), [9.0, 27.0, 81.0, 243.0]
    assert len(further) == tuning.BEYOND
    for i, lr in enumerate(further):
        assert asked(store) == [*TABLE.grid["lr"], *further[: i + 1]]
        assert tuning.at_an_end(TABLE, *CELL, "cpu", store)
        store.write("mnist_noise", make_record(TABLE.tuning(*CELL, tier="cpu", lr=lr), 85.0 + i))
        assert tuning.chosen(TABLE, *CELL, "cpu", store) == {"lr": lr}
    assert asked(store) == [*TABLE.grid["lr"], *further]
    assert tuning.at_an_end(TABLE, *CELL, "cpu", store)


def test_a_point_beyond_the_grid_is_judged_by_more_seeds(tmp_path):
    """Asked for once it would be chosen; one that diverges under another seed loses against the grid's last."""
    store = scored(tmp_path, [10, 20, 30, 40, 50, 60, 70, 80])
    grid = tuning.runs(TABLE, *CELL, "cpu", store)
    assert {run.seed for run in grid} == {0}
    beyond = [replace(TABLE.tuning(*CELL, tier="cpu", lr=9.0), seed=seed) for seed in range(tuning.SEEDS)]
    store.write("mnist_noise", make_record(beyond[0], 90.0))
    store.write("mnist_noise", make_record(replace(beyond[0], lr=27.0), 10.0))
    assert tuning.chosen(TABLE, *CELL, "cpu", store) == {"lr": 9.0}
    assert [run for run in tuning.runs(TABLE, *CELL, "cpu", store) if run not in store] == beyond[1:]
    store.write("mnist_noise", make_record(beyond[1], 88.0))
    assert tuning.chosen(TABLE, *CELL, "cpu", store) == {"lr": 9.0}
    store.write("mnist_noise", make_record(beyond[2], 10.0))
    assert tuning.chosen(TABLE, *CELL, "cpu", store) == {"lr": 3.0}
    assert all(run in store for run in tuning.runs(TABLE, *CELL, "cpu", store))


def test_a_point_beyond_the_grid_without_its_first_seed_is_not_judged(tmp_path):
    store = scored(tmp_path, [10, 20, 30, 40, 50, 60, 70, 80])
    store.write("mnist_noise", make_record(replace(TABLE.tuning(*CELL, tier="cpu", lr=9.0), seed=1), 90.0))
    assert tuning.records(TABLE, *CELL, "cpu", store, {"lr": 9.0}) == []


def test_a_search_goes_on_below_if_the_smallest_is_the_best(tmp_path):
    store = scored(tmp_path, [80, 70, 30, 20, 10, 10, 10, 10])
    assert asked(store)[0] == 0.0003333
    store.write("mnist_noise", make_record(TABLE.tuning(*CELL, tier="cpu", lr=0.0003333), 75))
    assert asked(store)[0] == 0.0003333
    assert tuning.chosen(TABLE, *CELL, "cpu", store) == {"lr": 0.001}
    assert not tuning.at_an_end(TABLE, *CELL, "cpu", store)


def test_the_smallest_that_is_as_good_as_a_larger_best_needs_no_smaller_one(tmp_path):
    store = scored(tmp_path, [79.9, 80, 30, 20, 10, 10, 10, 10])
    assert asked(store) == list(TABLE.grid["lr"])
    assert not tuning.at_an_end(TABLE, *CELL, "cpu", store)


def test_a_search_whose_first_is_the_best_is_at_an_end(tmp_path, monkeypatch):
    """Where the grid goes on no further, as a smaller step size that is as good ends it."""
    store = scored(tmp_path, [80, 70, 30, 20, 10, 10, 10, 10])
    assert tuning.at_an_end(TABLE, *CELL, "cpu", store)


@pytest.mark.parametrize(
    "grid", [{"batch_size": (64, 128)}, {"momentum": (0.0, 0.9)}, {"lr": (0.01, 0.1), "momentum": (0.0, 0.9)}]
)
def test_what_is_no_step_size_alone_is_searched_within_its_grid(tmp_path, grid):
    """Beyond 0.9 there is no momentum, and 256 or 0.01 of nothing."""

    def cell(row, column, *, seed, tier, **point):
        settings = {"dataset": "digits", "model": "lenet5", "lr": 0.1, "epochs": 1, "batch_size": 64} | point
        return Run(**settings, optimizer="sgd", weight_noise_std=column, seed=seed)

    def search(row, column, *, tier, **point):
        return replace(cell(row, column, seed=0, tier=tier, **point), validation_examples=100)

    table = replace(TABLE, rows=("LeNet-5",), cell=cell, tuning=search, grid=grid)
    store, of_grid = Store(tmp_path, read_only=False), table.points(*CELL, "cpu")
    for accuracy, run in enumerate(tuning.runs(table, *CELL, "cpu", store), start=80):
        store.write("mnist_noise", make_record(run, 99.9, accuracy))
    assert len(store) == len(of_grid)
    assert tuning.points(table, *CELL, "cpu", store) == of_grid
    assert tuning.chosen(table, *CELL, "cpu", store) in of_grid
    assert not tuning.at_an_end(table, *CELL, "cpu", store)


@pytest.mark.parametrize(
    ("scores", "points"),
    [
        ([10, 20, 30, 80, 70, 10, 10, 10], 0.0),  # the best was chosen
        ([10, 80, 30, 80, 70, 10, 10, 10], 0.0),
        ([10, 79.7, 30, 80, 70, 10, 10, 10], 0.3 + 0.4),  # √(.8 × .2 / 10,000) is 0.4 points
    ],
)
def test_a_cautious_choice_leaves_open_that_the_best_is_better(tmp_path, scores, points):
    """Until the cell was run with the best, too, after which it is known."""
    store = scored(tmp_path, scores)
    assert tuning.left_open(TABLE, *CELL, "cpu", store) == pytest.approx(points)
    store.write("mnist_noise", make_record(TABLE.cell(*CELL, seed=0, tier="cpu", lr=0.03), 90.0))
    assert tuning.left_open(TABLE, *CELL, "cpu", store) == 0.0


def test_half_a_grid_chooses_nothing(tmp_path):
    store = scored(tmp_path, [90, 80, 70])
    assert tuning.left_open(TABLE, *CELL, "cpu", store) == 0.0
    assert tuning.chosen(TABLE, *CELL, "cpu", store) is None
    assert tuning.cell_run(TABLE, *CELL, 0, "cpu", store) is None


def test_an_untuned_row_needs_no_runs(tmp_path):
    figure = tables.load("mnist_convergence")
    assert tuning.chosen(figure, figure.rows[0], 1.0, "cpu", Store(tmp_path)) == {}
    assert tuning.cell_run(figure, figure.rows[0], 1.0, 0, "cpu", Store(tmp_path)).lr == 0.1


def test_what_is_wanted_is_what_a_sweep_would_train(fill):
    """Searches first; where a search is not complete, the first point stands for the one that will be chosen."""
    found = tuning.wanted(TABLE, "cpu", 2, Store("nowhere"))
    assert found[0][1].validation_examples > 0
    assert {run.lr for _, run in found if not run.validation_examples} == {TABLE.grid["lr"][0]}
    store = fill(TABLE, lambda row, column, seed: [90.0], seeds=1)
    left = [(row, run) for row, run in tuning.wanted(TABLE, "cpu", 2, store) if run not in store]
    assert len(left) == len(TABLE.cells)
    assert all(tuning.cell_run(TABLE, row, run.weight_noise_std, 1, "cpu", store) == run for row, run in left)


@pytest.mark.parametrize("tier", tables.TIERS)
@pytest.mark.parametrize("name", registry.names("tables"))
def test_a_run_that_cells_share_is_wanted_once(name, tier):
    found = tuning.wanted(tables.load(name), tier, 2, Store("nowhere"))
    assert len({run.id for _, run in found}) == len(found)


def test_a_search_that_rows_share_is_wanted_where_it_comes_first():
    table, store = tables.load("agnews_noise_choices"), Store("nowhere")
    first = table.rows[0]
    found = {run.id: row for row, run in tuning.wanted(table, "cpu", 1, store)}
    assert {found[run.id] for run in tuning.runs(table, first, table.columns[0], "cpu", store)} == {first}


def test_what_a_choice_rests_on_are_all_seeds_of_a_point_beyond_the_grid(tmp_path):
    store = scored(tmp_path, [10, 10, 10, 10, 10, 50, 70, 80])
    beyond = TABLE.tuning(*CELL, tier="cpu", lr=9.0)
    for seed, accuracy in enumerate((90.0, 84.0, 60.0)):
        store.write("mnist_noise", make_record(replace(beyond, seed=seed), accuracy))
    found = report.search(TABLE, "cpu", store).set_index("lr")
    assert found.loc[9.0, ["n", "accuracy"]].tolist() == [3, 78.0]
    assert found.loc[9.0, "epochs"] == 3 * beyond.epochs == 3 * found.loc[3.0, "epochs"]
    assert found["accuracy"].idxmax() == tuning.chosen(TABLE, *CELL, "cpu", store)["lr"] == 3.0
    assert "0 runs (0.0 core hours) and 11 of the search (0.0);" in report.provenance(TABLE, "cpu", store)


def test_stored_and_missing_add_up(tmp_path, fill):
    cells, noisy = len(TABLE.cells), sum(column > 0 for _, column in TABLE.cells)
    tuned = 8 * cells
    assert tuning.stored_and_missing(TABLE, "cpu", 2, Store(tmp_path)) == (0, tuned + 2 * cells)
    store = fill(TABLE, lambda row, column, seed: [90.0] if seed == 0 and column else None)
    assert tuning.stored_and_missing(TABLE, "cpu", 2, store) == (tuned + noisy, 2 * cells - noisy)
