"""Choosing settings from stored tuning runs."""

from dataclasses import replace

import pytest
from conftest import make_record

from lib import tables, tuning
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


def test_half_a_grid_chooses_nothing(tmp_path):
    store = scored(tmp_path, [90, 80, 70])
    assert tuning.chosen(TABLE, *CELL, "cpu", store) is None
    assert tuning.cell_run(TABLE, *CELL, 0, "cpu", store) is None


def test_an_untuned_row_needs_no_runs(tmp_path):
    figure = tables.load("mnist_convergence")
    assert tuning.chosen(figure, figure.rows[0], 1.0, "cpu", Store(tmp_path)) == {}
    assert tuning.cell_run(figure, figure.rows[0], 1.0, 0, "cpu", Store(tmp_path)).lr == 0.1


def test_stored_and_missing_add_up(tmp_path, fill):
    tuned, cells = 8 * 36, 36
    assert tuning.stored_and_missing(TABLE, "cpu", 2, Store(tmp_path)) == (0, tuned + 2 * cells)
    store = fill(TABLE, lambda row, column, seed: [90.0] if seed == 0 and column else None)
    assert tuning.stored_and_missing(TABLE, "cpu", 2, store) == (tuned + 30, 42)
