"""What notebook 06 shows: private cells, claims at equal proven ε, changes between rows, and its figures."""

import math

import pytest

from lib import accounting, claims, report, tables
from lib.claims import code_of_v1
from lib.figures import samplers, si_dpsgd
from lib.tables import mnist_paper_and_code, mnist_spectrum

TABLE, SPECTRUM = tables.load("mnist_si_dpsgd"), mnist_spectrum.TABLE
BY_NAME = {claim.name: claim for claim in claims.of("mnist_spectrum")}


class TestPrivateCells:
    def test_every_finite_budget_has_a_line_and_only_runs_have_an_epsilon(self, fill):
        store = fill(TABLE, lambda row, column, seed: [90.0] if column in (None, 1.0) else None)
        lines = report.private_cells("cpu", store)
        of_table = lines[lines["table"] == TABLE.name]
        assert len(of_table) == len(TABLE.cells) - len({row for row, _ in TABLE.cells})  # without ε = ∞
        with_runs = of_table[of_table["n"] > 0]
        assert set(with_runs["column"]) == {1.0}
        assert with_runs["claimed"].tolist() == [1.0] * len(with_runs)
        assert of_table[of_table["n"] == 0]["claimed"].isna().all()
        assert with_runs["audited"].isna().all()

    def test_si_dpsgd_is_counted_again_as_dpsgd_and_the_others_as_proven(self, fill):
        store = fill(TABLE, lambda row, column, seed: [90.0] if column == 1.0 else None)
        lines = report.private_cells("cpu", store).query("n > 0 and table == @TABLE.name").set_index("row")
        how = {"noise_multiplier": 1.0, "sampling_prob": 0.01, "steps": 100}  # of every made-up record
        assert lines.loc["SI-DPSGD (LeNet-5)", "recomputed"] == accounting.epsilon(**how, accountant="rdp")
        assert lines.loc["DPSGD (LeNet-5)", "recomputed"] == lines.loc["DPSGD (LeNet-5)", "proven"] == 1.0

    def test_our_own_tables_are_not_the_papers(self, fill):
        assert report.private_cells("cpu", fill(SPECTRUM, lambda *_: [90.0])).empty


def by_power(row, column, seed):
    """The square root best, amplified or not, SI-DPSGD worst."""
    power = 1.0 if row in mnist_spectrum.BATCHES else mnist_spectrum.POWERS.get(row)
    return [95.0 + (row == mnist_spectrum.BANDED) if power is None else 90.0 - 10 * abs(power - 0.5) - 8 * power]


class TestClaims:
    @pytest.mark.parametrize("name", BY_NAME)
    def test_without_results_a_claim_is_open(self, name, fill):
        assert BY_NAME[name].judge("cpu", fill(SPECTRUM, lambda *_: None)).status == "open"

    def test_each_can_hold_and_fail(self, fill):
        found = {name: claim.judge("cpu", fill(SPECTRUM, by_power, seeds=2)).status for name, claim in BY_NAME.items()}
        assert list(found.values()) == ["fails", "holds", "holds"]

    @pytest.mark.parametrize(("briefly", "status"), [(99.0, "holds"), (80.0, "fails")])
    def test_the_better_of_si_dpsgds_rows_is_compared(self, briefly, status, fill):
        """Of as many epochs as DPSGD has, or of one: every participation costs it more than DPSGD."""

        def curve(row, column, seed):
            return [briefly] if row in mnist_spectrum.BATCHES else by_power(row, column, seed)

        name = "SI-DPSGD is more accurate than DPSGD at the same proven ε"
        verdict = BY_NAME[name].judge("cpu", fill(SPECTRUM, curve, seeds=2))
        assert verdict.status == status
        assert f"SI-DPSGD (p = 1), one epoch {briefly:.2f} ± 0.00 (2), DPSGD (p = 0) 85.00" in verdict.evidence

    def test_one_budget_is_enough_to_make_the_repair_fail(self, fill):
        curve = lambda r, c, s: [10.0] if (r, c) == ("p = 1/2", 0.1) else by_power(r, c, s)  # noqa: E731
        verdict = BY_NAME["Noise that is taken away later helps, if it is counted"].judge("cpu", fill(SPECTRUM, curve))
        assert verdict.status == "fails"
        assert "ε = 0.1: p = 1/2 10.00 (1)" in verdict.evidence

    @pytest.mark.parametrize("rival", ["DPSGD (p = 0)", "SI-DPSGD (p = 1)"])
    def test_the_repair_has_to_be_ahead_of_both(self, rival, fill):
        curve = lambda row, column, seed: [99.0 if row == rival else 90.0]  # noqa: E731
        verdict = BY_NAME["Noise that is taken away later helps, if it is counted"].judge("cpu", fill(SPECTRUM, curve))
        assert verdict.status == "fails"

    @pytest.mark.parametrize(
        ("ahead", "briefly", "seeds", "status", "why"),
        [
            (6.0, 80.0, 1, "open", "(not told apart, as the better of 2 rows)"),  # by one run each, of one row it is
            (7.0, 80.0, 1, "holds", ""),
            (-10.0, None, 2, "open", "(the other of its rows is not stored yet)"),
            (10.0, None, 2, "holds", ""),
        ],
    )
    def test_the_better_of_two_rows_is_ahead_or_behind(self, ahead, briefly, seeds, status, why, fill):
        def curve(row, column, seed):
            if row in mnist_spectrum.BATCHES:
                return briefly and [briefly]
            return [90.0 + ahead * ("p = 1)" in row)]

        name = "SI-DPSGD is more accurate than DPSGD at the same proven ε"
        verdict = BY_NAME[name].judge("cpu", fill(SPECTRUM, curve, seeds=seeds))
        assert verdict.status == status
        assert why in verdict.evidence

    def test_one_of_ten_comparisons_is_lost_by_chance(self, fill):
        """By one run each 7 points are told of one comparison, and not of one of ten."""
        curve = lambda row, column, seed: [90.0 - 7 * ("p = 1)" in row)]  # noqa: E731
        verdict = BY_NAME["SI-DPSGD is more accurate than DPSGD at the same proven ε"].judge(
            "cpu", fill(SPECTRUM, curve)
        )
        assert verdict.status == "open"


def test_changes_are_against_the_base_of_each_row(fill):
    table = mnist_paper_and_code.TABLE
    rows = list(mnist_paper_and_code.ROWS)
    store = fill(table, lambda row, column, seed: None if row == rows[-1] else [80.0 + rows.index(row)])
    found = report.differences(table, mnist_paper_and_code.BASES, "cpu", store)
    assert list(found.index) == rows
    assert found.loc[rows[2], "change"] == 2.0
    assert found.loc[mnist_paper_and_code.LN, "change"] == 0.0
    assert found.loc[mnist_paper_and_code.BN_128, "change"] == 1.0
    assert math.isnan(found.loc[rows[-1], "accuracy"])


def test_at_least_ten_disagreements_are_runs_of_their_own():
    cells = {row: mnist_paper_and_code.cell(row, 0.1, seed=0, tier="cpu") for row in mnist_paper_and_code.ROWS}
    assert len({run.id for run in cells.values()}) == len(cells) >= 13
    assert set(mnist_paper_and_code.BASES) == set(cells)


@pytest.mark.parametrize(("of_code", "row"), [(False, mnist_paper_and_code.PAPER), (True, mnist_paper_and_code.CODE)])
@pytest.mark.parametrize(
    ("accuracy", "tier", "status"), [(98.84, "paper", "holds"), (98.8, "paper", "fails"), (98.8, "cpu", "open")]
)
def test_v1_s_own_settings_are_held_against_what_it_prints(of_code, row, accuracy, tier, status, fill):
    """Either claim by its own row alone."""
    store = fill(mnist_paper_and_code.TABLE, lambda r, *_: [accuracy if r == row else 10.0], tier=tier, seeds=2)
    verdict = code_of_v1.CLAIMS[of_code].judge(tier, store)
    assert verdict.status == status
    assert f"{row}: {accuracy:.2f} ± 0.00 (2), printed 98.84" in verdict.evidence


def test_the_settings_beside_which_v1_s_table_4_is_printed_claim_its_epsilon():
    for row in mnist_paper_and_code.OF_TABLE_4:
        run = mnist_paper_and_code.cell(row, 0.1, seed=0, tier="paper")
        steps = run.epochs * 60_000 // run.batch_size
        claimed = accounting.epsilon(
            noise_multiplier=run.noise_multiplier,
            sampling_prob=run.batch_size / 60_000,
            steps=steps,
            delta=run.delta,
            accountant="rdp_2020",
        )
        assert claimed == pytest.approx(0.05, abs=5e-5), row


def test_every_row_of_the_spectrum_keeps_to_the_same_budget():
    for (row, column), tier in zip(SPECTRUM.cells, ["cpu", "paper"] * len(SPECTRUM.cells), strict=False):
        run = SPECTRUM.cell(row, column, seed=0, tier=tier, lr=1.0)
        assert (run.epsilon, run.momentum, run.lr_schedule) == (column, 0.0, "constant")
        assert accounting.is_upper_bound(accountant=run.accountant)


@pytest.mark.parametrize("tier", mnist_spectrum.SIZES)
def test_rows_of_one_epoch_are_searched_as_they_are_trained(tier):
    size = mnist_spectrum.SIZES[tier]
    for row, factor in mnist_spectrum.BATCHES.items():
        final, search = SPECTRUM.cell(row, 1.0, seed=0, tier=tier, lr=1.0), SPECTRUM.tuning(row, 1.0, tier=tier, lr=1.0)
        assert final.epochs == search.epochs == 1
        assert final.batch_size == search.batch_size == factor * size.batch_size
        assert (final.noise_power, final.sampler) == (1.0, "fixed_order")
        assert search.validation_examples == size.validation_examples
    assert "layer" in SPECTRUM.cell(mnist_spectrum.LN_BRIEF, 1.0, seed=0, tier=tier, lr=1.0).norm


class TestFigures:
    def test_the_lines_against_p_and_the_points_apart_are_the_results(self, fill):
        figure = si_dpsgd.against_power(SPECTRUM, "cpu", fill(SPECTRUM, by_power), panels=mnist_spectrum.PANELS)
        for axes, rows in zip(figure.axes, mnist_spectrum.PANELS.values(), strict=True):
            curves = [bars.lines[0] for bars in axes.containers]
            assert len(curves) == len(SPECTRUM.columns)
            assert list(curves[0].get_ydata()) == [by_power(row, 8.0, 0)[0] for row in rows]
        by_p, _, apart = (axes.containers[0].lines[0] for axes in figure.axes)
        assert list(by_p.get_xdata()) == [0.0, 0.25, 0.5, 0.75, 1.0]
        assert apart.get_linestyle() == "None"

    def test_claimed_and_true_at_v1s_mnist_settings(self):
        found = si_dpsgd.claimed_and_true(noise_multiplier=7.1, batch_size=32, examples=60_000, epochs=10)
        assert found.round(3).to_dict() == {
            "claimed ε": 0.05,
            "the same by PLD": 0.028,
            "true ε of θ_T alone": 9.1,
            "ε of all θ_t, in fixed places": pytest.approx(7669.42, rel=1e-4),
            "true δ at the claimed ε": 0.487,
        }

    def test_the_price_of_the_sampler_is_each_accountants(self):
        found = samplers.price(noise_multiplier=4.0, sampling_prob=0.01, epochs=5, delta=1e-5)
        for sampler, line in found.iterrows():
            expected = accounting.epsilon(
                noise_multiplier=4.0, sampling_prob=0.01, steps=500, sampler=sampler, accountant=line["accountant"]
            )
            assert line["ε"] == expected
        assert found.loc["poisson", "ε"] < found.loc["with_replacement", "ε"] < found.loc["shuffled", "ε"]
        least = accounting.shuffled_epsilon_at_least(noise_multiplier=4.0, steps_per_epoch=100, epochs=5, delta=1e-5)
        assert found["at least"].dropna().to_dict() == {"shuffled": least}


def test_of_a_cells_runs_the_largest_epsilon_is_told(fill):
    table, row = tables.load("mnist_si_dpsgd"), "DPSGD (LeNet-5)"
    store = fill(table, lambda row, column, seed: [90.0] if column == 1.0 else None, seeds=3)
    for seed, record in enumerate(report.records(table, row, 1.0, "cpu", store)):
        record["privacy"]["proven"]["epsilon"] = (1.0, 3.0, 2.0)[seed]
        record["privacy"]["audited"] = {"epsilon": (0.1, 0.5, 0.2)[seed]}
    lines = report.private_cells("cpu", store).query("n > 0 and table == @table.name").set_index("row")
    assert (lines.loc[row, "proven"], lines.loc[row, "recomputed"], lines.loc[row, "audited"]) == (3.0, 3.0, 0.5)
