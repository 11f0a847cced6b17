"""Figures of accountants and samplers: δ, epochs and neighbours are those that are asked for, and so are the labels."""

import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from lib import accounting
from lib.figures import accountants, samplers

DELTA = 1e-3  # not the accountants' default, so that one that is not passed on shows


def test_the_price_has_a_line_for_every_sampler_that_is_covered_at_the_delta_asked_for():
    found = samplers.price(noise_multiplier=4.0, sampling_prob=0.1, epochs=2, delta=DELTA)
    by = {"poisson": "pld", "with_replacement": "pld", "balls_and_bins": "pld", "shuffled": "gdp", "fixed_order": "gdp"}
    assert found["accountant"].to_dict() == by
    setting = {"noise_multiplier": 4.0, "sampling_prob": 0.1, "steps": 20, "delta": DELTA}
    assert found["ε"].to_dict() == {
        sampler: accounting.epsilon(**setting, sampler=sampler, accountant=name) for sampler, name in by.items()
    }
    least = accounting.shuffled_epsilon_at_least(noise_multiplier=4.0, steps_per_epoch=10, epochs=2, delta=DELTA)
    assert found.loc["shuffled", "at least"] == least


@pytest.mark.parametrize(("sampling_prob", "of_epoch"), [(0.15, 6), (1 / 93, 93)])
def test_the_price_is_of_epochs_of_whole_batches(sampling_prob, of_epoch):
    """1 ÷ 0.15 is 6.67, and 1 ÷ (1/93), in floats, a little less than 93."""
    found = samplers.price(noise_multiplier=4.0, sampling_prob=sampling_prob, epochs=3, delta=DELTA)
    setting = {"noise_multiplier": 4.0, "sampling_prob": sampling_prob, "delta": DELTA}
    assert found.loc["poisson", "ε"] == accounting.epsilon(**setting, steps=3 * of_epoch)
    assert found.loc["shuffled", "at least"] == accounting.shuffled_epsilon_at_least(
        noise_multiplier=4.0, steps_per_epoch=of_epoch, epochs=3, delta=DELTA
    )


def test_shuffled_epochs_are_counted_at_the_delta_asked_for():
    (line,) = samplers.shuffled(noise_multiplier=2.0, steps_per_epoch=10, epochs=[2], delta=DELTA).to_dict("records")
    counted = {"noise_multiplier": 2.0, "sampling_prob": 0.1, "steps": 20, "delta": DELTA}
    least = {"noise_multiplier": 2.0, "steps_per_epoch": 10, "epochs": 2, "delta": DELTA}
    assert line == {
        "Poisson": accounting.epsilon(**counted),
        "balls and bins": accounting.epsilon(**counted, sampler="balls_and_bins"),
        "shuffled, at least": accounting.shuffled_epsilon_at_least(**least),
        "at most": accounting.epsilon(**counted, sampler="shuffled", accountant="gdp"),
    }


def test_the_samplers_lines_and_axes_say_what_they_are():
    values = {"Poisson": [1.0, 1.1], "balls and bins": [0.8, 0.9], "shuffled, at least": [1.4, 1.5], "at most": [2, 3]}
    figure = samplers.shuffled_drawn(pd.DataFrame(values, index=[1, 2]), title="at σ = 2")
    (axes,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["shuffled", "Poisson", "balls and bins"]
    assert [line.get_linestyle() for line in axes.lines] == ["-", "--"]
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("at σ = 2", "epochs", "ε")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_each_kind_of_neighbours_has_the_accountants_that_cover_it_and_gdp_which_needs_full_batches_is_none():
    setting = {"noise_multiplier": 4.0, "sampling_prob": 0.1, "steps": 10, "delta": DELTA}
    frame = accountants.under_two_relations(**setting)
    kinds = {
        "Poisson, add or remove one": ("poisson", "add_or_remove_one"),
        "fixed size, replace one": ("without_replacement", "replace_one"),
    }
    assert list(frame.columns) == list(kinds)
    for kind, (sampler, relation) in kinds.items():
        how = {"sampler": sampler, "neighbouring_relation": relation}
        covered = set(accounting.accountants(**how)) - {"gdp"}
        assert frame[kind].dropna().to_dict() == {
            name: accounting.epsilon(**setting, **how, accountant=name) for name in covered
        }


def test_the_limits_error_is_relative_to_pld_for_every_noise_and_at_the_delta_asked_for():
    errors = accountants.limit_error(sigmas=[0.5, 2.0], sampling_prob=0.1, epochs=[1, 4], delta=DELTA)
    assert (errors.index.name, errors.columns.name) == ("σ", "c")
    assert list(errors.columns) == ["0.316", "0.632"]  # √(E·q)
    for sigma in (0.5, 2.0):
        for column, steps in zip(errors.columns, (10, 40), strict=True):
            limit, proven = (
                accounting.epsilon(
                    noise_multiplier=2 * sigma,
                    sampling_prob=0.1,
                    steps=steps,
                    delta=DELTA,
                    accountant=name,
                    **accountants.SUBSAMPLED,
                )
                for name in ("clt", "pld")
            )
            assert errors.loc[sigma, column] == pytest.approx((limit - proven) / proven)


def test_the_map_is_blue_where_the_limit_claims_too_little_and_red_where_too_much():
    (axes, _) = accountants.map_of(pd.DataFrame({"0.034": [-0.2], "0.243": [0.2]}, index=[0.625])).axes
    axes.figure.canvas.draw()  # colours are found when it is drawn
    less, more = (to_rgb(colour[:3]) for colour in axes.collections[0].get_facecolors())
    assert less[2] > less[0]
    assert more[0] > more[2]
    assert axes.get_title() == "(ε by the limit − ε by PLD) ÷ ε by PLD, in %"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("c = √(E·m/N)", "σ")


def test_lines_against_epochs_say_by_which_accountant_and_what_a_dash_means():
    """Two conversions of Rényi DP in one figure differ in their names alone."""
    values = {"strong_composition": [9.0], "moments": [3.0], "rdp_2020": [2.0], "rdp": [1.5], "pld": [1.0]}
    figure = accountants.drawn(pd.DataFrame(values, index=[1]), title="title")
    (axes,), (legend,) = figure.axes, figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *("strong composition", "moments accountant", "RDP, converted as in 2020", "RDP", "PLD")
    ]
    assert legend.get_title().get_text() == "dashed: no upper bound is proven"
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("title", "epochs", "ε")
    assert [line.get_linestyle() == "--" for line in axes.lines] == [
        not accounting.is_upper_bound(accountant=name) for name in values
    ]
