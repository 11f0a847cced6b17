"""Choosing settings from stored tuning runs."""

import pytest
from conftest import make_record

from lib import tables, tuning
from lib.store import Store

TABLE = tables.load("mnist_noise")
CELL = ("LeNet-5", 0.1)


def scored(tmp_path, scores) -> Store:
    store = Store(tmp_path, read_only=False)
    for run, score in zip(tuning.runs(TABLE, *CELL, "cpu"), scores, strict=False):
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
