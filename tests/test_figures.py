"""Figures: of one column, of all columns, of accountants and of speed."""

import math
from functools import partial
from types import MappingProxyType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from ipywidgets import FloatSlider

from lib import accounting, figures, tables
from lib.figures import accountants, lines, noise_over_time, scale, scores, si_dpsgd, speed
from lib.figures.dots import dots
from lib.figures.widget import moved_by
from lib.tables import mnist_spectrum

TABLE = tables.load("mnist_si_dpsgd")


def test_one_column_has_a_dot_for_each_row_that_is_run_and_a_cross_for_each_printed_number(fill):
    store = fill(TABLE, lambda row, column, seed: None if seed and row == TABLE.rows[0] else [95.0], seeds=2)
    axes = figures.at_column(TABLE, "cpu", store, column=0.1).axes[0]
    (dots,) = (found for found in axes.containers if found.get_label() == "ours ± s.e.")
    assert len(dots[0].get_xdata()) == len(TABLE.rows) - len(TABLE.not_run)
    (hollow,) = (line for line in axes.lines if line.get_label() == "a single run")
    assert len(hollow.get_xdata()) == 1
    (crosses,) = (line for line in axes.lines if line.get_label() == "printed")
    assert len(crosses.get_xdata()) == 6  # abadi and LATENT print nothing at ε = .1
    assert axes.get_title() == "ε = 0.1"
    assert figures.at_column(TABLE, "cpu", store, column=None).axes[0].get_title() == "ε = ∞"


def test_what_has_a_single_run_is_hollow_and_the_legend_says_so(fill):
    store = fill(TABLE, lambda row, column, seed: [95.0] if seed == 0 or column == 0.1 else None, seeds=2)
    axes = figures.against_column(TABLE, "cpu", store).axes[0]
    (hollow,) = (line for line in axes.lines if line.get_label() == "a single run")
    assert len(hollow.get_xdata()) == len(TABLE.columns) - 1
    store = fill(TABLE, lambda row, column, seed: [95.0], seeds=2)
    (legend,) = figures.against_column(TABLE, "cpu", store).legends
    assert [text.get_text() for text in legend.get_texts()] == ["printed", "ours ± s.e."]


def test_panels_of_one_figure_have_one_scale_and_a_missing_cell_is_a_gap(fill):
    worse = {"SI-DPSGD (LeNet-5)": 30.0}
    store = fill(TABLE, lambda row, column, seed: None if column == 1.0 else [worse.get(row, 99.0)])
    panels = figures.against_column(TABLE, "cpu", store).axes
    assert len({axes.get_ylim() for axes in panels}) == 1
    assert panels[0].get_ylim()[0] < 30.0 < 99.0 < panels[0].get_ylim()[1]
    ours = panels[0].lines[0].get_ydata()
    assert [math.isnan(mean) for mean in ours] == [column == 1.0 for column in TABLE.columns]


def test_on_the_scale_of_errors_a_factor_is_a_distance():
    axes = plt.figure().subplots()
    axes.plot([10.0, 100.0])  # no error at all is drawn as the least one
    scale.of_errors(axes)
    heights = axes.transScale.transform([(0.0, accuracy) for accuracy in (80.0, 90.0, 98.0, 99.0, 100.0)])[:, 1]
    assert heights[1] - heights[0] == pytest.approx(heights[3] - heights[2]) == pytest.approx(math.log10(2))
    assert heights[4] == pytest.approx(-math.log10(scale.LEAST))
    assert axes.transScale.inverted().transform((0.0, heights[0]))[1] == pytest.approx(80.0)
    plt.close()


def test_curves_are_told_apart_on_one_logarithmic_axis_of_epochs(fill):
    table = tables.load("mnist_convergence")
    figure = figures.against_epoch(table, "cpu", fill(table, lambda row, column, seed: [90.0, 95.0, 97.0]))
    for axes in figure.axes:
        assert len({line.get_color() for line in axes.lines}) == len(table.columns)
        assert axes.get_xscale() == "log"
        assert axes.get_xlim() == pytest.approx((0.9, 3.3))
    assert "after each epoch" in figure.get_suptitle()


class TestLines:
    GROUPS = MappingProxyType({"": ("SI-DPSGD (LeNet-5)", "DPSGD (LeNet-5)"), "LN": ("DPSGD (LN-LeNet-5)",)})

    def test_rows_of_a_group_share_a_colour_and_differ_in_style(self, fill):
        store = fill(
            TABLE, lambda r, c, s: [95.0 if r.startswith("SI-") else 90.0] if s == 0 or "BN" not in r else None, seeds=2
        )
        figure = lines.drawn(TABLE, "cpu", store, groups=self.GROUPS)
        ours = [bars.lines[0] for bars in figure.axes[0].containers]
        assert [line.get_ydata()[1] for line in ours] == [95.0, 90.0, 90.0]
        assert [line.get_linestyle() for line in ours] == ["-", "--", "-"]
        assert ours[0].get_color() == ours[1].get_color() != ours[2].get_color()
        told = [text.get_text() for text in figure.legends[0].get_texts()]
        assert told == [word for rows in self.GROUPS.values() for row in rows for word in (row, "printed")]

    def test_what_is_printed_stands_at_its_column_and_a_single_run_is_hollow(self, fill):
        figure = lines.drawn(TABLE, "cpu", fill(TABLE, lambda *_: [95.0]), groups=self.GROUPS)
        crosses = [line for line in figure.axes[0].lines if line.get_marker() == "+" and len(line.get_xdata())]
        assert list(crosses[0].get_ydata()) == [99.2, 97.01, 96.34, 94.11, 91.1, 83.0, 78.96, 31.56]
        assert figure.legends[0].get_texts()[-1].get_text() == "a single run"


class TestAgainstPower:
    TABLE, DASHED = mnist_spectrum.TABLE, [mnist_spectrum.AMPLIFIED, mnist_spectrum.BANDED]
    DIVERGED = (("p = 1/4", 8.0), (mnist_spectrum.BANDED, 1.0))

    def drawn(self, store):
        return si_dpsgd.against_power(self.TABLE, "cpu", store, powers=mnist_spectrum.POWERS, dashed=self.DASHED)

    def test_a_cell_that_diverged_is_hollow_and_on_no_line(self, fill):
        store = fill(self.TABLE, lambda r, c, s: [10.0 if s and (r, c) in self.DIVERGED else 95.0], seeds=2)
        figure = self.drawn(store)
        (hollow, *_), curve = ([line for line in figure.axes[0].lines if len(line.get_xdata()) == n] for n in (1, 4))
        assert (hollow.get_xdata()[0], hollow.get_ydata()[0]) == (0.25, 52.5)
        assert hollow.get_markerfacecolor() == "white"
        assert [list(line.get_xdata()) for line in curve] == [[0.0, 0.5, 0.75, 1.0]]
        levels = [line for line in figure.axes[0].lines if line.get_linestyle() == ":" and len(line.get_xdata())]
        assert len(levels) == len(self.TABLE.columns) - 1
        assert figure.legends[0].get_texts()[-1].get_text().startswith("s.e. > 10 points")

    def test_the_legend_says_what_the_levels_are(self, fill):
        told = [text.get_text() for text in self.drawn(fill(self.TABLE, lambda *_: [95.0])).legends[0].get_texts()]
        assert told[-2:] == self.DASHED


def test_every_line_of_what_is_true_says_for_which_loss_it_is():
    found = si_dpsgd.claimed_and_true(noise_multiplier=7.1, batch_size=32, examples=60_000, epochs=10)
    assert set(si_dpsgd.MEANING) == {name for name in found.index if name.startswith("true ε")}
    assert all("linear loss" in words for words in si_dpsgd.MEANING.values())


def test_epsilon_against_epochs_is_the_accountants():
    frame = accountants.against_epochs(
        noise_multiplier=4.0, sampling_prob=0.01, epochs=[1, 100], delta=1e-5, accountants=["moments", "rdp"]
    )
    assert round(frame.loc[100, "moments"], 2) == 1.26
    assert frame.loc[1, "rdp"] == accounting.epsilon(
        noise_multiplier=4.0, sampling_prob=0.01, steps=100, accountant="rdp"
    )
    lines = accountants.drawn(frame.assign(rdp=math.inf), title="title").axes[0].lines
    assert [math.isnan(line.get_ydata()[0]) for line in lines] == [False, True]


@pytest.mark.parametrize("epochs", [5, [], [0], ["5"]])
def test_epochs_that_are_no_list_of_positive_numbers_are_refused(epochs):
    with pytest.raises(ValueError, match="epochs: expected a list of positive numbers; got"):
        accountants.against_epochs(
            noise_multiplier=4.0, sampling_prob=0.01, epochs=epochs, delta=1e-5, accountants=["rdp"]
        )


def test_an_accountant_that_does_not_cover_the_sampling_has_no_number():
    frame = accountants.under_two_relations(noise_multiplier=4.0, sampling_prob=0.01, steps=1000, delta=1e-5)
    poisson, fixed = frame.columns
    assert math.isnan(frame.loc["moments", fixed])
    assert math.isnan(frame.loc["clt", poisson])
    assert frame.loc["pld", fixed] > frame.loc["pld", poisson]


@pytest.mark.parametrize("memory", [0.9, math.nan])
def test_speed_has_a_panel_for_each_network_and_leaves_out_what_was_not_measured(memory):
    numbers = {"ratio": 1.2, "low": 1.1, "high": 1.4, "memory": memory}
    figure = speed.ratios({"LeNet-5": {"non-private": numbers}, "ResNet-18": {"non-private": numbers}}, aim=1.5)
    assert [axes.get_title() for axes in figure.axes] == ["LeNet-5", "ResNet-18"]
    (dots,) = (line for line in figure.axes[0].lines if line.get_label() == "peak memory")
    assert len(dots.get_xdata()) == (0 if math.isnan(memory) else 1)
    (aim,) = (line for line in figure.axes[1].lines if line.get_label() == "aim")
    assert list(aim.get_xdata()) == [1.5, 1.5]


def test_the_error_of_the_limit_is_relative_to_pld():
    """SOUNDNESS: for 16 layers at bc's setting ε is 5.23 in the limit, and PLD proves 5.26."""
    errors = accountants.limit_error(sigmas=[0.625], sampling_prob=64 / 54_000, epochs=[1, 50], delta=1e-5)
    assert list(errors.columns) == ["0.034", "0.243"]
    assert errors.loc[0.625, "0.243"] == pytest.approx(5.233 / 5.260 - 1, abs=2e-4)
    assert errors.loc[0.625, "0.034"] < -0.5  # after one epoch the limit promises less than half of what is proven
    assert len(accountants.map_of(errors).axes[0].texts) == 2


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_the_noise_on_the_weights_is_that_of_the_spectrum(power):
    """Its mean square over the steps is the spectrum's error; DPSGD's adds up, SI-DPSGD's stays."""
    over_time = noise_over_time.on_sums(power=power, steps=40, period=10)
    spectrum = accounting.Spectrum(power=power, steps=40)
    assert math.sqrt(np.mean(over_time**2)) == pytest.approx(spectrum.error(period=10))
    if power in (0.0, 1.0):
        assert over_time[-1] / over_time[0] == pytest.approx(40 ** ((1.0 - power) / 2))
    lines = noise_over_time.drawn(power=power, steps=40, period=10).axes[0].lines
    assert lines[-1].get_ydata() == pytest.approx(over_time)
    assert len(lines) == 4


def test_scores_are_shown_in_units_of_the_canaries_left_out():
    kinds, draws = np.arange(1000) % 2 == 0, np.random.default_rng(0).normal(size=1000)
    figure = scores.drawn({"told apart": (10 * draws + 70 * kinds, kinds), "alike": (draws, kinds)})
    apart, alike = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["told apart", "alike"]
    assert 7 < apart.get_xlim()[1] < 13
    assert alike.get_xlim()[1] < 5
    assert [text.get_text() for text in apart.get_legend().get_texts()] == ["trained on", "left out"]


def test_a_slider_that_is_moved_changes_its_figure():
    sliders = {"noise_multiplier": FloatSlider(value=4.0, max=8.0), "sampling_prob": FloatSlider(value=0.01, step=0.01)}
    drawn = partial(accountants.relations_drawn, steps=10, delta=1e-5)
    *shown, picture = moved_by(sliders, drawn).children
    before = picture.value
    assert shown == list(sliders.values())
    assert before == figures.png(drawn(noise_multiplier=4.0, sampling_prob=0.01))
    sliders["noise_multiplier"].value = 2.0
    assert picture.value != before


def test_dots_are_the_numbers_and_what_is_infinite_has_none():
    frame = pd.DataFrame({"one": {"a": 0.5, "b": math.inf}, "other": {"a": math.nan, "b": 20.0}})
    axes = dots(frame, title="").axes[0]
    assert sorted(text.get_text() for text in axes.texts) == ["0.5", "20"]
    assert tuple(axes.get_xlim()) == pytest.approx((0.5 / 3, 60.0))
