"""Figures: of one column, of all columns, of accountants and of speed."""

import math
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from ipywidgets import FloatSlider
from matplotlib.container import ErrorbarContainer
from scipy.linalg import toeplitz

from lib import accounting, figures, report, tables
from lib.figures import (
    accountants,
    lines,
    noise_over_time,
    samplers,
    scale,
    scores,
    sensitivity,
    si_dpsgd,
    speed,
    trade_off,
)
from lib.figures.dots import dots
from lib.figures.widget import moved_by
from lib.store import Store
from lib.tables import mnist_spectrum

TABLE = tables.load("mnist_si_dpsgd")


def lengths(bars: ErrorbarContainer) -> list[float]:
    """From end to end, of those error bars that are drawn."""
    return [np.ptp(ends, axis=0).max() for ends in bars.lines[2][0].get_segments() if len(ends)]


def test_one_column_has_a_dot_for_each_row_that_is_run_and_a_cross_for_each_printed_number(fill):
    store = fill(TABLE, lambda row, column, seed: None if seed and row == TABLE.rows[2] else [95.0], seeds=2)
    axes = figures.at_column(TABLE, "cpu", store, column=0.1).axes[0]
    (dots,) = (found for found in axes.containers if found.get_label() == "ours ± s.e.")
    assert len(dots[0].get_xdata()) == len(TABLE.rows) - len(TABLE.not_run)
    (hollow,) = (line for line in axes.lines if line.get_label() == "a single run")
    assert len(hollow.get_xdata()) == 1
    (crosses,) = (line for line in axes.lines if line.get_label() == "printed")
    assert len(crosses.get_xdata()) == 6  # abadi and LATENT print nothing at ε = .1
    assert axes.get_title() == "ε = 0.1"
    assert figures.at_column(TABLE, "cpu", store, column=None).axes[0].get_title() == "ε = ∞"


def test_several_columns_are_panels_on_one_scale_and_the_legend_has_what_is_shown(fill):
    table = tables.load("bc_equal_epsilon")
    store = fill(table, lambda row, column, seed: [(97.0 if column == 8.0 else 50.0) + 4 * seed - 2], seeds=2)
    figure = figures.at_columns(table, "cpu", store, columns=table.columns)
    assert [axes.get_title() for axes in figure.axes] == ["ε = 2", "ε = 8"]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == list(table.rows)
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    for axes, mean in zip(figure.axes, (50.0, 97.0), strict=True):
        assert list(axes.containers[0][0].get_xdata()) == [mean] * len(table.rows)
        assert lengths(axes.containers[0]) == pytest.approx([4.0] * len(table.rows))  # ± the standard error
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours ± s.e."]  # nothing is printed


@pytest.mark.parametrize(("name", "column", "shown"), [("mnist_si_dpsgd", 0.1, 6), ("bc_equal_epsilon", 2.0, 0)])
def test_where_nothing_is_stored_a_column_has_what_is_printed_alone(fill, name, column, shown):
    table = tables.load(name)
    axes = figures.at_column(table, "cpu", fill(table, lambda *_: None), column=column).axes[0]
    assert len(axes.get_yticklabels()) == shown


def test_columns_that_share_a_search_are_one_and_all_panels_have_the_same_steps(fill):
    """cifar10_noise is searched once for σ = 0 and 0.01 and once for 1 and 2."""
    table = tables.load("cifar10_noise")
    figure = figures.search(table, "cpu", fill(table, lambda row, column, seed: [60.0]))
    assert "share a search" in figure.get_suptitle()
    assert [axes.get_title() for axes in figure.axes] == list(table.rows)
    for axes in figure.axes:
        assert [text.get_text() for text in axes.get_xticklabels()] == ["0, 0.01", "0.1", "1, 2"]
        assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "0.1", "0.01", "0.001"]
        assert {text.get_rotation() for text in axes.get_yticklabels()} == {0.0}
        assert not any(line.get_visible() for line in (*axes.get_xgridlines(), *axes.get_ygridlines()))
    assert "share" not in figures.search(tables.load("mnist_noise"), "cpu", fill(table, lambda *_: None)).get_suptitle()


def test_what_has_a_single_run_is_hollow_and_the_legend_says_so(fill):
    store = fill(TABLE, lambda row, column, seed: [95.0] if seed == 0 or column == 0.1 else None, seeds=2)
    axes = figures.against_column(TABLE, "cpu", store).axes[0]
    (hollow,) = (line for line in axes.lines if line.get_label() == "a single run")
    assert len(hollow.get_xdata()) == len(TABLE.columns) - 1
    store = fill(TABLE, lambda row, column, seed: [95.0 + 4 * seed], seeds=2)
    figure = figures.against_column(TABLE, "cpu", store)
    bars = figure.axes[0].containers[0]
    assert list(bars[0].get_ydata()) == [95.0 if column == 0.1 else 97.0 for column in TABLE.columns]
    assert lengths(bars) == pytest.approx([0.0 if column == 0.1 else 4.0 for column in TABLE.columns])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["printed", "ours ± s.e."]


@pytest.mark.parametrize("name", ["bc_ic_vs_bc", "cifar10_noise"])
def test_what_is_printed_stands_at_its_column_a_range_as_a_line_and_no_convergence_as_a_triangle(name, tmp_path):
    table = tables.load(name)
    for axes in figures.against_column(table, "cpu", Store(tmp_path)).axes:
        cells = [(i, table.printed.get((axes.get_title(), column))) for i, column in enumerate(table.columns)]
        numbers = [(i, cell.mean) for i, cell in cells if cell and cell.mean is not None]
        ranges = [[(i, cell.mean), (i, cell.up_to)] for i, cell in cells if cell and cell.up_to]
        triangles = [(i, 0.0) for i, cell in cells if cell and cell.mean is None]
        found = [[tuple(point) for point in line.get_xydata()] for line in axes.lines]
        assert found == [part for part in (numbers, *ranges, triangles) if part]


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


def test_a_panel_of_curves_counts_the_seeds_of_each_of_its_lines_and_a_single_run_is_dashed(fill):
    table = tables.load("mnist_convergence")
    first, *others = table.columns
    seeds = {first: 1, others[0]: 3}

    def curve(row, column, seed):
        return [90.0 + 4 * seed, 95.0] if row == table.rows[0] and seed < seeds.get(column, 2) else None

    (axes,) = figures.against_epoch(table, "cpu", fill(table, curve, seeds=3)).axes
    assert axes.get_title() == f"{table.rows[0]} (1 to 3 seeds)"
    assert [line.get_linestyle() for line in axes.lines] == ["--"] + ["-"] * len(others)
    assert axes.collections[-1].get_paths()[0].get_extents().ymin == pytest.approx(90.0)  # 92 less the standard error
    (axes, *_) = figures.against_epoch(table, "cpu", fill(table, lambda *_: [90.0], seeds=2)).axes
    assert "(2 to 3 seeds)" in axes.get_title()


def test_one_step_size_is_shown_in_the_order_of_the_table_with_a_name_and_a_warning(fill):
    table = replace(TABLE, columns=tuple(reversed(TABLE.columns)))
    step = table.grid["lr"][0]
    axes = figures.at_step_size(table, "smoke", fill(table, lambda *_: [90.0], tier="smoke"), lr=step).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == report.heads(table)
    assert axes.get_title().startswith("mnist_si_dpsgd, tier smoke, not the paper's data: every cell at step size")
    assert all(list(line.get_xdata()) == sorted(line.get_xdata()) for line in axes.lines)
    assert [list(line.get_xdata()) for line in axes.lines] == [list(range(7))] * len(axes.lines)  # ε = .025 has others
    empty = figures.at_step_size(tables.load("mnist_convergence"), "cpu", fill(TABLE, lambda *_: None), lr=7.0)
    assert not empty.axes[0].lines


class TestLines:
    GROUPS = MappingProxyType({"": ("SI-DPSGD (LeNet-5)", "DPSGD (LeNet-5)"), "LN": ("DPSGD (LN-LeNet-5)",)})

    def test_rows_of_a_group_share_a_colour_and_differ_in_style(self, fill):
        def curve(row, column, seed):
            mean = 95.0 if row.startswith("SI-") else 90.0
            return [mean + 4 * seed - 2] if seed == 0 or "BN" not in row else None

        store = fill(TABLE, curve, seeds=2)
        figure = lines.drawn(TABLE, "cpu", store, groups=self.GROUPS)
        ours = [bars.lines[0] for bars in figure.axes[0].containers]
        assert [line.get_ydata()[1] for line in ours] == [95.0, 90.0, 90.0]
        assert all(lengths(bars) == pytest.approx([4.0] * 8) for bars in figure.axes[0].containers)  # ± s.e.
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
    TABLE, PANELS = mnist_spectrum.TABLE, mnist_spectrum.PANELS
    DIVERGED = MappingProxyType({"p = 1/4": (0, 1), mnist_spectrum.LN_PLAIN: (1, 0), mnist_spectrum.BANDED: (2, 1)})

    def test_a_cell_that_diverged_is_hollow_and_on_no_line(self, fill):
        store = fill(self.TABLE, lambda r, c, s: [10.0 if s and c == 8.0 and r in self.DIVERGED else 95.0 + s], seeds=2)
        figure = si_dpsgd.against_power(self.TABLE, "cpu", store, panels=self.PANELS)
        for panel, place in self.DIVERGED.values():
            axes = figure.axes[panel]
            curve = axes.containers[0].lines[0]
            assert set(lengths(axes.containers[0])) == {1.0}  # ± the standard error
            hollow = next(line for line in axes.lines if line.get_markerfacecolor() == "white")
            assert [i for i, mean in enumerate(curve.get_ydata()) if math.isnan(mean)] == [place]
            assert [(i, mean) for i, mean in enumerate(hollow.get_ydata()) if not math.isnan(mean)] == [(place, 52.5)]
        assert figure.legends[0].get_texts()[-1].get_text().startswith("s.e. > 10 points")

    def test_the_legend_has_the_columns_and_nothing_that_is_not_drawn(self, fill):
        figure = si_dpsgd.against_power(self.TABLE, "cpu", fill(self.TABLE, lambda *_: [95.0]), panels=self.PANELS)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == report.heads(self.TABLE)


def test_every_line_of_what_is_true_says_for_which_loss_it_is():
    found = si_dpsgd.claimed_and_true(noise_multiplier=7.1, batch_size=32, examples=60_000, epochs=10)
    assert set(si_dpsgd.MEANING) == {name for name in found.index if "ε of" in name}
    assert all("linear loss" in words for words in si_dpsgd.MEANING.values())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"noise_multiplier": 7.1, "batch_size": 32, "examples": 60_000, "epochs": 10}, ", not 1e-05"),
        ({"noise_multiplier": 3.16, "batch_size": 1024, "examples": 2000, "epochs": 1}, ", within 1e-05"),
    ],
)
def test_a_claim_that_holds_of_the_last_iterate_is_not_called_false(setting, words):
    assert si_dpsgd.claimed_and_true_drawn(**setting).axes[0].get_title().endswith(words)


def test_without_noise_nothing_is_claimed():
    with pytest.raises(ValueError, match=r"noise_multiplier: expected a positive number; got 0\.0"):
        si_dpsgd.claimed_and_true(noise_multiplier=0.0, batch_size=32, examples=60_000, epochs=10)


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


@pytest.mark.parametrize("epochs", [5, [], [0], ["5"], [True]])
def test_epochs_that_are_no_list_of_positive_numbers_are_refused(epochs):
    with pytest.raises(ValueError, match="epochs: expected a list of positive numbers; got"):
        accountants.against_epochs(
            noise_multiplier=4.0, sampling_prob=0.01, epochs=epochs, delta=1e-5, accountants=["rdp"]
        )


def test_shuffled_epochs_are_the_accountants_and_drawn_from_at_least_to_at_most():
    setting = {"noise_multiplier": 2.0, "steps_per_epoch": 100, "delta": 1e-5}
    frame = samplers.shuffled(**setting, epochs=[1, 30])
    counted = {"noise_multiplier": 2.0, "sampling_prob": 0.01, "steps": 3000}
    assert frame.loc[30].to_dict() == {
        "Poisson": accounting.epsilon(**counted),
        "balls and bins": accounting.epsilon(**counted, sampler="balls_and_bins"),
        "shuffled, at least": accounting.shuffled_epsilon_at_least(**setting, epochs=30),
        "at most": accounting.epsilon(**counted, sampler="shuffled", accountant="gdp"),
    }
    assert frame.loc[30].drop("balls and bins").is_monotonic_increasing
    axes = samplers.shuffled_drawn(frame, title="title").axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines] == [
        frame[name].tolist() for name in ("Poisson", "balls and bins")
    ]
    (shaded,) = (set(part.vertices[:, 1]) for part in axes.collections[0].get_paths())
    assert shaded == {*frame["shuffled, at least"], *frame["at most"]}


def test_an_accountant_that_does_not_cover_the_sampling_has_no_number():
    frame = accountants.under_two_relations(noise_multiplier=4.0, sampling_prob=0.01, steps=1000, delta=1e-5)
    poisson, fixed = frame.columns
    assert math.isnan(frame.loc["moments", fixed])
    assert math.isnan(frame.loc["clt", poisson])
    assert frame.loc["pld", fixed] > frame.loc["pld", poisson]


@pytest.mark.parametrize("memory", [{"memory": 0.9}, {}])
def test_speed_has_a_panel_for_each_network_and_leaves_out_what_was_not_measured(memory):
    numbers = {"ratio": 1.2, "low": 1.1, "high": 1.4} | memory
    figure = speed.ratios({"LeNet-5": {"non-private": numbers}, "ResNet-18": {"non-private": numbers}}, aim=1.5)
    assert [axes.get_title() for axes in figure.axes] == ["LeNet-5", "ResNet-18"]
    assert lengths(figure.axes[0].containers[1]) == pytest.approx([0.3])  # from quartile to quartile
    dots = [line for line in figure.axes[0].lines if line.get_label() == "peak memory"]
    assert [list(line.get_xdata()) for line in dots] == [[number] for number in memory.values()]
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.20"] + ["0.90"] * len(dots)
    (aim,) = (line for line in figure.axes[1].lines if line.get_label() == "aim")
    assert list(aim.get_xdata()) == [1.5, 1.5]


def test_speed_names_the_first_variant_and_a_variant_of_one_network_alone_has_a_line():
    first, other = ({"ratio": ratio, "low": ratio, "high": ratio} for ratio in (1.0, 0.8))
    figure = speed.ratios({"LeNet-5": {"float32": first, "bfloat16": other}, "VGG-16": {"float32": first}})
    assert {axes.get_xlabel() for axes in figure.axes} == {"× float32, log scale"}
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["float32", "bfloat16"]
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["time"]


def test_the_sensitivity_has_a_line_for_each_network_with_its_largest_beside_it():
    audit = {"sound": {"0.1": {"multiple": 1.5}, "3": {"multiple": 1.2}}, "not": {"0.1": {"multiple": 12.0}}}
    axes = sensitivity.drawn(audit).axes[0]
    assert [text.get_text() for text in axes.texts] == ["1.50", "12.00"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["sound", "not"]
    every, largest, allowed = axes.lines
    assert list(every.get_xdata()) == [1.5, 1.2, 12.0]
    assert list(largest.get_xdata()) == [1.5, 12.0]
    assert list(allowed.get_xdata()) == [2.0, 2.0]
    assert list(axes.get_xticks()) == [1, 2, 5, 10]


def test_the_error_of_the_limit_is_relative_to_pld():
    """SOUNDNESS: for 16 layers at bc's setting ε is 5.23 in the limit, and PLD proves 5.26."""
    errors = accountants.limit_error(sigmas=[0.625], sampling_prob=64 / 54_000, epochs=[1, 50], delta=1e-5)
    assert list(errors.columns) == ["0.034", "0.243"]
    assert errors.loc[0.625, "0.243"] == pytest.approx(5.233 / 5.260 - 1, abs=2e-4)
    assert errors.loc[0.625, "0.034"] < -0.5  # after one epoch the limit promises less than half of what is proven
    assert len(accountants.map_of(errors).axes[0].texts) == 2


def test_the_square_root_is_better_than_either_end():
    """A loss that is linear in the weights sees the root of the mean square over the steps."""
    errors = {
        power: np.sqrt(np.mean(noise_over_time.on_sums(power=power, steps=240, period=60) ** 2))
        for power in (0.0, 0.25, 0.5, 0.75, 1.0)
    }
    assert min(errors, key=errors.get) == 0.5
    assert errors[0.5] < errors[0.0] / 3


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_the_noise_on_the_weights_is_that_of_the_spectrum(power):
    """Rows of A S⁻¹, at the sensitivity's price; DPSGD's adds up, SI-DPSGD's stays."""
    over_time = noise_over_time.on_sums(power=power, steps=40, period=10)
    spectrum = accounting.Spectrum(power=power, steps=40)
    of_sums = np.tril(np.ones((40, 40))) @ toeplitz(spectrum.noise, np.zeros(40))
    assert over_time == pytest.approx(np.linalg.norm(of_sums, axis=1) * spectrum.sensitivity(period=10))
    if power in (0.0, 1.0):
        assert over_time[-1] / over_time[0] == pytest.approx(40 ** ((1.0 - power) / 2))
    figure = noise_over_time.drawn(power=power, steps=40, period=10)
    first_epoch, *lines = figure.axes[0].lines
    assert list(first_epoch.get_xdata()) == [10, 10]
    assert lines[-1].get_ydata() == pytest.approx(over_time)
    assert len(lines) == 4
    assert figure.legends[0].get_texts()[-1].get_text() == f"p = {power:g}: {over_time[9]:.2f}, {over_time[-1]:.2f}"


def test_scores_are_shown_in_units_of_the_canaries_left_out():
    kinds, draws = np.arange(1000) % 2 == 0, np.random.default_rng(0).normal(size=1000)
    figure = scores.drawn({"told apart": (10 * draws + 70 * kinds, kinds), "alike": (draws, kinds)})
    apart, alike = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["told apart", "alike"]
    assert 7 < apart.get_xlim()[1] == alike.get_xlim()[1] < 13
    assert apart.patches[0].get_xy()[0, 0] == alike.patches[0].get_xy()[0, 0]  # the same bins
    assert [text.get_text() for text in apart.get_legend().get_texts()] == ["trained on", "left out"]


def test_scores_of_the_canaries_left_out_have_mean_0_and_spread_1_and_stand_beside_the_others():
    """By hand: 5 ± 2 without, in whose units the ones trained on, at 15 and 25, are at 5 and 10."""
    included = np.array([False, True, False, True, True])
    (axes,) = scores.drawn({"": (np.array([3.0, 15.0, 7.0, 25.0, 25.0]), included)}).axes
    assert axes.get_legend_handles_labels()[1] == ["trained on", "left out"]
    filled, outline = axes.patches
    assert (filled.get_fill(), outline.get_fill()) == (True, False)  # told apart in print too
    assert (filled.get_xy()[:, 0].min(), filled.get_xy()[:, 0].max()) == pytest.approx((-1.0, 10.0))
    assert (filled.get_xy()[:, 1].max(), outline.get_xy()[:, 1].max()) == (2.0, 1.0)


def test_errors_are_counted_at_every_score_with_equal_ones_together():
    found = trade_off.errors(np.array([3.0, 2.0, 2.0, 1.0, 0.0]), np.array([True, True, False, True, False]))
    assert np.transpose(found) == pytest.approx(
        np.array([[0, 1], [0, 2 / 3], [0.5, 1 / 3], [0.5, 0], [1, 0]])  # (false positives, false negatives)
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-5), (2.0, 0.1)])
def test_what_a_claim_rules_out_is_where_a_test_would_be_too_good(epsilon, delta):
    """By the definition of (ε, δ)-DP: 1 − β ≤ e^ε α + δ and 1 − α ≤ e^ε β + δ, and the least β keeps one of them."""
    alpha = np.linspace(0, 1, 50)
    beta = trade_off.least(alpha, epsilon, delta)
    slack = np.exp(epsilon) * np.array([alpha, beta]) + delta - (1 - np.array([beta, alpha]))
    assert slack.min() > -1e-12
    assert slack.min(axis=0)[beta > 0] == pytest.approx(0, abs=1e-12)


def test_a_claim_that_an_attack_refutes_has_a_line_in_its_area():
    included = np.arange(400) % 2 == 0
    told, mixed = included + np.linspace(0, 0.5, 400), np.linspace(0, 1, 400)
    figure = trade_off.drawn({"all told": (told, included), "none told": (mixed, included)}, epsilon=1.0, delta=1e-5)
    (axes,) = figure.axes
    _, *lines = axes.lines
    assert axes.lines[0].get_xydata().tolist() == [[0, 1], [1, 0]]  # a coin's
    assert [line.get_xydata().tolist() for line in lines] == [
        np.transpose(trade_off.errors(scores, included)).tolist() for scores in (told, mixed)
    ]
    inside = [(y < trade_off.least(x, 1.0, 1e-5) - 0.01).any() for x, y in (line.get_data() for line in lines)]
    assert inside == [True, False]
    (area,) = axes.collections[0].get_paths()
    for shares in (0.1, 0.3):
        edge = trade_off.least(np.array(shares), 1.0, 1e-5)
        assert [area.contains_point((shares, edge + away)) for away in (-0.01, 0.01)] == [True, False]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("ruled out by ε = 1.00, δ = 1e-05", "guessed by a coin", "all told", "none told")
    ]


def test_a_slider_that_is_moved_changes_its_figure():
    sliders = {"noise_multiplier": FloatSlider(value=4.0, max=8.0), "sampling_prob": FloatSlider(value=0.01, step=0.01)}
    drawn = partial(accountants.relations_drawn, steps=10, delta=1e-5)
    *shown, picture = moved_by(sliders, drawn).children
    before = picture.value
    assert shown == list(sliders.values())
    assert before == figures.png(drawn(noise_multiplier=4.0, sampling_prob=0.01))
    sliders["noise_multiplier"].value = 2.0
    assert picture.value != before


@pytest.mark.parametrize("values", [[0.0, 0.5], [0.0, 0.0]])
def test_an_epsilon_of_0_is_told_at_the_left_end_of_an_axis_that_has_no_place_for_it(values, recwarn):
    (axes,) = dots(pd.DataFrame({"ε": values}, index=["PLD", "RDP"]), title="").axes
    left = axes.get_xlim()[0]
    told = {text.get_text(): text.xy[0] for text in axes.texts}
    assert left < told["← 0"] < 1.2 * left
    assert not recwarn.list


def test_dots_are_the_numbers_and_what_is_infinite_has_none():
    frame = pd.DataFrame({"one": {"a": 0.5, "b": math.inf}, "other": {"a": math.nan, "b": 20.0}})
    axes = dots(frame, title="").axes[0]
    assert sorted(text.get_text() for text in axes.texts) == ["0.5", "20"]
    assert tuple(axes.get_xlim()) == pytest.approx((0.5 / 3, 60.0))
    above, below = (text.get_position()[1] for text in axes.texts)
    assert above > 0 > below  # so that numbers of close dots can be read
    assert [text.xy[0] for text in axes.texts] == [0.5, 20.0]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "other"]
    assert dots(frame[["one"]], title="").axes[0].get_legend() is None


def test_a_figure_is_closed_so_that_a_notebook_shows_it_once():
    included, epochs = np.array([False, True] * 5), pd.Index([1, 2], name="epochs")
    attacks = {"": (np.arange(10.0), included)}
    scores.drawn(attacks)
    trade_off.drawn(attacks, epsilon=1.0, delta=1e-5)
    dots(pd.DataFrame({"ε": [1.0]}, index=["PLD"]), title="")
    accountants.drawn(pd.DataFrame({"pld": [1.0, 2.0]}, index=epochs), title="")
    accountants.map_of(pd.DataFrame({"0.034": [0.1]}, index=[0.625]))
    shuffled = {"Poisson": [1.0, 1.1], "balls and bins": [1.2, 1.3], "least": [1.4, 1.5], "at most": [2.0, 3.0]}
    samplers.shuffled_drawn(pd.DataFrame(shuffled, index=epochs), title="")
    assert not plt.get_fignums()


def test_what_is_proven_is_solid_infinite_is_left_out_and_each_accountant_has_its_name():
    frame = pd.DataFrame({"pld": [1.0, math.inf], "clt": [0.5, 0.6]}, index=pd.Index([1, 2], name="epochs"))
    figure = accountants.drawn(frame, title="")
    assert [line.get_linestyle() for line in figure.axes[0].lines] == ["-", "--"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["PLD", "clt"]


def test_a_tenth_of_an_epoch_is_whole_steps_and_one_at_least():
    setting = {"noise_multiplier": 4.0, "sampling_prob": 0.3, "delta": 1e-6}
    frame = accountants.against_epochs(**setting, epochs=[0.1, 0.5], accountants=["rdp"])
    expected = [accounting.epsilon(**setting, steps=steps, accountant="rdp") for steps in (1, 2)]
    assert frame["rdp"].tolist() == expected


def test_the_map_of_the_limits_error_is_in_percent_and_has_two_sides():
    axes = accountants.map_of(pd.DataFrame({"0.034": [-0.123]}, index=[0.625])).axes[0]
    assert [text.get_text() for text in axes.texts] == ["-12.3"]
    assert axes.collections[0].get_clim() == (-20, 20)
