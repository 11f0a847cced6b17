"""Every claim can hold, can fail, and is open while results are missing."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import make_record
from scipy.stats import norm, sem, ttest_ind_from_stats

from lib import claims, registry, report, tables
from lib.claims import Verdict, _alike, _comparison, _level, noise_robustness, verdict
from lib.store import Store

TABLE, FIGURE = tables.load("mnist_noise"), tables.load("mnist_convergence")
BY_NAME = {claim.name: claim for claim in claims.every()}


def as_printed(row, column, seed):
    """What the papers print: 98 or 99 everywhere, chance for plain networks from σ = .3 on."""
    plain = not row.startswith(("BN", "LN"))
    return [10.0 if plain and column >= 0.3 else 98.1 if "300" in row else 99.1]


def slower_by(factor: int):
    """Curves that reach 98 % at epoch 2 for σ < 10, and ``factor`` times later at σ = 10, with one step size."""

    def curve(row, column, seed):
        first = 2 * factor if column == 10 and row == FIGURE.rows[0] else 2
        return [50.0] * (first - 1) + [98.0, 98.4]

    return curve


def changed(cells, value):
    return lambda row, column, seed: [value] if (row, column) in cells else as_printed(row, column, seed)


@pytest.mark.parametrize("claim", claims.of("mnist_noise"), ids=lambda claim: claim.name)
def test_claims_about_the_table_hold_on_the_printed_numbers_and_are_open_without(claim, fill, tmp_path):
    assert claim.judge("cpu", fill(TABLE, lambda *_: None)).status == "open"
    assert claim.judge("cpu", fill(TABLE, as_printed, seeds=2)).status == "holds"


@pytest.mark.parametrize(
    ("short", "seeds", "status"), [(0.3, 1, "holds"), (0.4, 2, "fails"), (0.4, 1, "open"), (6.0, 1, "fails")]
)
def test_noise_free_accuracy_may_be_three_tenths_short(short, seeds, status, fill):
    """More refutes it where it is more than a single run may be off by."""

    def curve(row, column, seed):
        return None if column else [TABLE.printed[row, 0.0].mean - short]

    verdict = BY_NAME["Noise-free accuracy"].judge("paper", fill(TABLE, curve, tier="paper", seeds=seeds))
    assert verdict.status == status
    assert ("(not told apart)" in verdict.evidence) is (status == "open")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"at_an_end": True}, "the row's step size is at an end"), ({"left_open": 9.0}, "9.00 points")],
)
def test_a_step_size_that_may_not_be_the_best_refutes_no_level(change, words, fill, monkeypatch):
    store, original = fill(TABLE, lambda *cell: None if cell[1] else [90.0], tier="paper", seeds=2), claims.cells
    assert BY_NAME["Noise-free accuracy"].judge("paper", store).status == "fails"
    monkeypatch.setattr(_level, "cells", lambda *of: {cell: line | change for cell, line in original(*of).items()})
    verdict = BY_NAME["Noise-free accuracy"].judge("paper", store)
    assert verdict.status == "open"
    assert words in verdict.evidence


@pytest.mark.parametrize(
    ("name", "cells", "value"),
    [
        ("Noise-free accuracy", [("LN-LeNet-5", 0.0)], 98.85),
        ("BN networks tolerate weight noise", [("BN-LeNet-5", 2.0)], 98.5),
        ("LN networks tolerate weight noise", [("LN-LeNet-300-100", 0.1)], 97.5),
        ("Plain networks do not converge at σ ≥ 1", [("LeNet-5", 1.0)], 21.0),
        ("Plain networks do not converge at σ = 0.3", [("LeNet-300-100", 0.3)], 90.0),
    ],
)
def test_one_cell_is_enough_to_make_a_claim_fail(name, cells, value, fill):
    store = fill(TABLE, changed(cells, value), tier="paper", seeds=2)
    failed = [claim.name for claim in claims.of("mnist_noise") if claim.judge("paper", store).status == "fails"]
    assert name in failed
    assert f"{value:.2f}" in BY_NAME[name].judge("paper", store).evidence


@pytest.mark.parametrize(
    ("factor", "status"), [(4, "holds"), (7, "holds"), (1, "fails"), (29, "fails"), (3, "open"), (14, "open")]
)
def test_the_factor_of_order_7_is_known_to_whole_epochs(factor, status, fill):
    verdict = BY_NAME["Large noise: slower by a factor of order 7"].judge("cpu", fill(FIGURE, slower_by(factor)))
    assert verdict.status == status
    least, most = (2 * factor - 1) / 2, 2 * factor
    text = f"95 % within 2.0 epochs at σ = 1 and {2 * factor:.1f} at σ = 10, × {least:.1f} to {most:.1f}"
    assert text in verdict.evidence


def test_what_is_reached_within_the_first_epoch_has_no_upper_end(fill):
    curve = lambda row, column, seed: [30.0] * (8 if column == 10 else 0) + [98.0] * 3  # noqa: E731
    verdict = BY_NAME["Large noise: slower by a factor of order 7"].judge("cpu", fill(FIGURE, curve))
    assert verdict.status == "open"
    assert "95 % within 1.0 epochs at σ = 1 and 9.0 at σ = 10, × 8.0 to ∞" in verdict.evidence


@pytest.mark.parametrize(("last", "status"), [(7 * 4, "holds"), (29 * 4, "fails"), (None, "open")])
def test_levels_that_come_too_early_for_whole_epochs_do_not_decide(last, status, fill):
    """95 % within 2 and 15 epochs, × 7 to 15; 97.5 % within 4 and ``last``, or never."""

    def curve(row, column, seed):
        if row != FIGURE.rows[0] or column != 10.0:
            return [50.0, 95.0, 95.0, 98.0]
        return [50.0] * 14 + [95.0] * ((last or 31) - 15) + [98.0] * (last is not None)

    judged = BY_NAME["Large noise: slower by a factor of order 7"].judge("cpu", fill(FIGURE, curve))
    assert judged.status == status
    early = f"beside: {FIGURE.rows[0]}: 95 % within 2.0 epochs at σ = 1 and 15.0 at σ = 10, × 7.0 to 15.0"
    assert any(part.startswith(early) for part in judged.parts)


def test_a_row_that_changes_by_more_than_its_error_is_said_to(fill):
    store = fill(TABLE, changed([("BN-LeNet-5", 2.0)], 98.9), seeds=2)
    verdict = BY_NAME["BN networks tolerate weight noise"].judge("cpu", store)
    assert verdict.status == "holds"
    assert "within 0.5 but more than the statistical error" in verdict.evidence


def test_a_row_is_flat_only_where_each_of_its_pairs_is_told_from_the_limit(fill):
    """The two farthest apart are; a single run between them is not, with an error of its own."""
    rows, alone = ("BN-LeNet-300-100", "BN-LeNet-5"), ("BN-LeNet-5", 0.3)
    store = fill(TABLE, lambda *cell: None if cell[2] and cell[:2] == alone else as_printed(*cell), seeds=2)
    judged = noise_robustness._flat(rows, "cpu", store)
    assert judged.status == "open"
    assert "(σ = 0 may be more than 0.5 above σ = 0.3)" in judged.evidence


@pytest.mark.parametrize(
    ("name", "cell", "change", "words"),
    [
        ("BN networks tolerate weight noise", ("BN-LeNet-5", 1.0), {"at_an_end": True}, "(σ = 1's step size is at an"),
        ("BN networks tolerate weight noise", ("BN-LeNet-5", 1.0), {"left_open": 0.6}, "(another step size of σ = 1"),
        ("Plain networks do not converge at σ ≥ 1", ("LeNet-5", 2.0), {"at_an_end": True}, "(this network's step size"),
        (
            "Plain networks do not converge at σ ≥ 1",
            ("LeNet-5", 2.0),
            {"left_open": 11.0},
            "may be 11.00 points better",
        ),
    ],
)
def test_a_step_size_that_may_not_be_the_best_leaves_open_what_a_better_one_would_refute(
    name, cell, change, words, fill, monkeypatch
):
    store, original = fill(TABLE, as_printed, seeds=2), claims.cells
    assert BY_NAME[name].judge("cpu", store).status == "holds"

    def changed_cells(*of_table):
        found = original(*of_table)
        found[cell] |= change
        return found

    monkeypatch.setattr(noise_robustness, "cells", changed_cells)
    judged = BY_NAME[name].judge("cpu", store)
    assert judged.status == "open"
    assert words in judged.evidence


def test_a_curve_that_never_arrives_is_infinitely_slow(fill):
    store = fill(FIGURE, lambda row, column, seed: [50.0] * 30 if column == 10 and seed == 1 else [98.0], seeds=2)
    assert noise_robustness.epochs_to_reach(FIGURE.rows[0], 10.0, 95.0, "cpu", store) == float("inf")
    assert BY_NAME["Large noise: slower by a factor of order 7"].judge("cpu", store).status == "fails"


def test_a_seed_that_never_arrives_says_nothing_of_those_that_do(fill):
    """Four of five within 14 epochs, one not within 48: within 21 in the mean at best, so 20 are passed."""

    def curve(row, column, seed):
        late = 48 if seed == 4 else 13
        return [50.0] * (late if column == 10 else 1) + [98.0] * (48 - (late if column == 10 else 1))

    judged = BY_NAME["Large noise: slower by a factor of order 7"].judge("cpu", fill(FIGURE, curve, seeds=5))
    assert judged.status == "open"
    assert "95 % within 2.0 epochs at σ = 1 and ∞ at σ = 10, × 10.0 to ∞" in judged.evidence


def test_a_curve_to_compare_with_that_never_arrives_leaves_it_open(fill):
    """Whether the other one does or not; there is no factor to be told."""
    for arrives in ([98.0], [50.0]):
        store = fill(FIGURE, lambda row, column, seed, last=arrives: last if column == 10 else [50.0])
        judged = BY_NAME["Large noise: slower by a factor of order 7"].judge("cpu", store)
        assert judged.status == "open"
        assert "95 % within ∞ epochs at σ = 1" in judged.evidence
        assert "nan" not in judged.evidence
        assert "×" not in judged.evidence


def test_a_cell_that_the_table_has_not_is_named(fill):
    with pytest.raises(
        ValueError, match=r"cell: expected one of \('LeNet-300-100', 0\.0\), .*; got \('LeNet5', 1\.0\)"
    ):
        claims.cells("mnist_noise", "cpu", Store("nowhere"))["LeNet5", 1.0]


def test_curves_that_are_missing_leave_the_claims_about_them_open(fill):
    store = fill(FIGURE, lambda row, column, seed: None)
    assert {claim.judge("cpu", store).status for claim in claims.of("mnist_convergence")} == {"open"}


@pytest.mark.parametrize(("last", "seeds", "status"), [(98.0, 2, "holds"), (97.0, 2, "fails"), (98.0, 1, "open")])
def test_the_same_accuracy_in_the_end(last, seeds, status, fill):
    curve = lambda row, column, seed: [last if column == 10 and row == FIGURE.rows[0] else 98.4]  # noqa: E731
    store = fill(FIGURE, curve, tier="paper", seeds=seeds)
    assert BY_NAME["Large noise: the same accuracy in the end"].judge("paper", store).status == status


def test_a_verdict_reads_as_a_sentence():
    assert str(Verdict("holds", ("98 at σ = 1",))) == "holds: 98 at σ = 1"


def test_what_decides_a_verdict_is_told_and_what_is_missing_is_counted():
    parts = [(True, "a 1 (1)"), (False, "b 2 (1)"), (None, "c –"), (False, "d 4 (1)"), (False, "e 5 (1)")]
    judged = verdict(parts)
    assert str(judged) == "fails: a 1 (1); b 2 (1); d 4 (1); e 5 (1); 1 of 5 not stored yet"
    assert judged.in_short() == "1 of 5 hold. Fails: b 2 (1); d 4 (1); and 1 more"
    assert verdict(parts[:1] + parts[2:3]).in_short() == "1 of 2 hold. Open: 1 of 2 not stored yet"
    assert verdict(parts[1:2]).in_short() == "b 2 (1)"
    beside = [(True, "x 9 (1)"), (None, "y –"), (False, "z 8 (1)")]
    assert str(verdict(parts[:1], beside=beside)) == "holds: a 1 (1); beside: x 9 (1); beside: z 8 (1)"
    assert verdict(parts[:1], beside=beside).in_short() == "a 1 (1); beside: z 8 (1)"
    assert str(verdict([(None, "x –"), (None, "y –")])) == "open: what decides it is not stored yet"
    assert verdict([(None, "too early to tell: 12 (1)")]).evidence == "too early to tell: 12 (1)"
    assert verdict([]).status == "open"


def cell(mean, stderr=0.1, n=3, at_an_end=False, by=None, left_open=0.0):
    """A line of the summary; ``by``: what its row reaches at ε = 1."""
    found = {"mean": mean, "stderr": stderr, "n": n, "at_an_end": at_an_end, "one_run": 2.0, "freedom": math.inf}
    return found | {"left_open": left_open, "outdone": by and (by, "at ε = 1"), "printed": tables.Printed(95.0)}


def drawn(rng):
    """A cell of three runs of one and the same accuracy."""
    runs = rng.normal(95.0, 0.5, 3)
    return cell(runs.mean(), float(sem(runs)))


class TestAbove:
    """A difference is told only where the runs can tell it."""

    @pytest.mark.parametrize(
        ("one", "other", "told"),
        [
            (cell(95.4), cell(95.0), True),
            (cell(95.38), cell(95.0), None),  # Student's t for four degrees is 2.776: × √2 × 0.1 = 0.393
            (cell(94.62), cell(95.0), None),
            (cell(94.6), cell(95.0), False),
            (cell(95.4, n=2), cell(95.0, n=2), None),  # for two it is 4.303: 0.608
            (cell(95.61, n=2), cell(95.0, n=2), True),
            (cell(90.0, None, 1), cell(95.0, None, 1), None),  # a single run is taken to be ± 2
            (cell(95.0, None, 1), cell(90.0, None, 1), None),
            (cell(89.0, None, 1), cell(95.0, None, 1), False),
            (cell(95.0, None, 1), cell(89.0, None, 1), True),
            (cell(0.0, n=0), cell(95.0), None),
            (cell(90.0, at_an_end=True), cell(95.0), None),  # another step might have reached more
            (cell(90.0), cell(95.0, at_an_end=True), False),
            (cell(95.0), cell(90.0, at_an_end=True), None),
            (cell(90.0, left_open=5.0), cell(95.0), None),  # so might another that the search could not tell apart
            (cell(90.0, left_open=4.9), cell(95.0), False),
            (cell(90.0), cell(95.0, left_open=9.0), False),
            (cell(95.0), cell(90.0, left_open=5.0), None),
            (cell(95.0), cell(90.0, by=cell(94.8)), None),  # so does the network that is more accurate there
            (cell(95.0), cell(90.0, by=cell(96.0)), None),
            (cell(95.0), cell(90.0, by=cell(93.0, at_an_end=True)), True),
            (cell(90.0, by=cell(94.8)), cell(95.0), None),
            (cell(90.0, by=cell(93.0)), cell(95.0), False),
            (cell(90.0, by=cell(93.0, None, 1)), cell(95.0), None),
            (cell(90.0), cell(95.0, by=cell(99.0)), False),
        ],
    )
    def test_what_it_says(self, one, other, told):
        assert claims.above(one, other)[0] is told

    def test_it_says_against_what_else_the_lower_one_was_held(self):
        assert claims.above(cell(95.0), cell(90.0, by=cell(93.0)))[1] == (
            " (and against the lower one's 93.00 ± 0.10 (3) at ε = 1)"
        )
        assert claims.above(cell(90.0, by=cell(94.9)), cell(95.0))[1] == (
            " (not told apart from the lower one's 94.90 ± 0.10 (3) at ε = 1)"
        )

    def test_it_agrees_with_scipy(self):
        """Where cells are neither equally wide nor of equally many runs, as with equal ones above."""
        for gap in (0.5, 0.9, 1.3, 1.7, 2.5):
            one, other = cell(95.0 + gap, 0.4, 4), cell(95.0, 0.2, 3)
            how = {"std1": 0.4 * 2, "nobs1": 4, "std2": 0.2 * 3**0.5, "nobs2": 3, "equal_var": False}
            p = ttest_ind_from_stats(mean1=95.0 + gap, mean2=95.0, **how).pvalue
            assert (claims.above(one, other)[0] is True) == (p < 0.05)
            assert (claims.above(other, one, of=7)[0] is False) == (p < 0.05 / 7)

    def test_one_of_many_is_below_by_chance_so_it_has_to_be_clearly_so(self):
        assert claims.above(cell(94.6), cell(95.0), of=2)[0] is None
        alone = claims.above(cell(94.4), cell(95.0), of=100)
        assert alone == (None, " (below at 5 %, but not at 5 % ÷ 100, for as many comparisons)")
        assert claims.above(cell(95.4), cell(95.0), of=2)[0] is True  # all have to be above
        assert claims.above(cell(90.0, by=cell(94.5)), cell(95.0))[0] is False
        assert claims.above(cell(90.0, by=cell(94.5)), cell(95.0), of=100)[0] is None
        below = [
            sum(claims.above(drawn(rng), drawn(rng), of=6)[0] is False for _ in range(6)) > 0
            for rng in map(np.random.default_rng, range(300))
        ]
        assert np.mean(below) < 0.06  # of six rows that are alike; 0.3 at two standard errors each

    def test_a_single_run_is_said_to_have_been_given_a_spread(self):
        assert claims.above(cell(94.8), cell(95.0))[1] == " (not told apart)"
        assert claims.above(cell(94.8, None, 1), cell(95.0))[1].endswith("a single run's error taken as 2 points)")

    def test_which_is_known_as_well_as_repeated_cells_tell_it(self):
        """Of one pair of runs Student's t has one degree of freedom: × 12.7, not × 1.96."""
        one, other = (cell(mean, None, 1) | {"one_run": 6.0, "freedom": 1} for mean in (95.0, 70.0))
        assert claims.above(one, other)[0] is None
        assert claims.above(one | {"freedom": math.inf}, other | {"freedom": math.inf})[0] is True

    def test_and_two_points_where_those_are_close(self, fill):
        found = claims.cells("mnist_noise", "cpu", fill(tables.load("mnist_noise"), lambda *_: [80.0]))
        assert {_comparison.spread(cell) for cell in found.values()} == {2.0}

    def test_a_margin_is_asked_for_beside(self):
        assert claims.above(cell(95.0), cell(92.0), margin=2.0)[0] is True
        assert claims.above(cell(95.0), cell(92.0), margin=4.0)[0] is False
        assert claims.above(cell(95.0), cell(90.0, by=cell(92.0)), margin=4.0)[0] is None  # of what outdoes it, too

    def test_less_than_the_papers_scale_refutes_no_level(self):
        assert claims.limited((False, "behind"), "paper") == (False, "behind")
        assert claims.limited((False, "behind"), "cpu") == (None, "behind (tier cpu is less than the paper's: open)")
        assert claims.limited((True, "ahead"), "cpu") == (True, "ahead")
        assert claims.limited((None, "missing"), "cpu") == (None, "missing")


@pytest.mark.parametrize("name", sorted({claim.table for claim in claims.every()}))
def test_a_row_of_which_nothing_is_printed_breaks_no_claim(name, fill, monkeypatch):
    """README's first recipe: a row more in a table."""
    table = tables.load(name)
    old = table.rows[0]
    cell_of, tuning_of = table.cell, table.tuning
    more = replace(
        table,
        rows=(*table.rows, "a new row"),
        cell=lambda row, *args, **how: cell_of(old if row == "a new row" else row, *args, **how),
        tuning=tuning_of and (lambda row, *args, **how: tuning_of(old if row == "a new row" else row, *args, **how)),
    )
    load, store = tables.load, fill(table, lambda *_: [60.0], seeds=2)
    before = [claim.judge("cpu", store).status for claim in claims.of(name)]
    monkeypatch.setattr(tables, "load", lambda asked: more if asked == name else load(asked))
    assert [claim.judge("cpu", store).status for claim in claims.of(name)] == before


def test_a_row_that_is_better_at_a_smaller_epsilon_is_outdone(fill):
    """There a network keeps to the larger one too, so the row's step size at the larger is not its best."""
    table = tables.load("mnist_dp_batches")
    row = table.rows[0]
    curve = lambda r, column, seed: [{3.0: 95.0, 1.0: 96.0, 0.5: 94.0}[column] if r == row else 97.0]  # noqa: E731
    found = claims.cells(table.name, "cpu", fill(table, curve, seeds=2))
    (better, where), *others = (found[row, column]["outdone"] for column in table.columns)
    assert (better["mean"], better["n"], where) == (96.0, 2, "at ε = 1")
    assert others == [None, None]
    assert not any(found[table.rows[1], column]["outdone"] for column in table.columns)


def test_a_row_is_outdone_by_what_is_stored_with_another_step_size(fill, tmp_path):
    """A search that went on, or was done again, chose another; what it chose before is stored still."""
    table = tables.load("mnist_noise")
    row, store = "LeNet-5", fill(table, lambda *_: [95.0], seeds=2)
    points = table.points(row, 0.1, "cpu")
    for point, accuracy in ((points[2], 96.0), (points[0], 97.0), (points[3], 94.0)):
        for seed in range(2):
            store.write(table.name, make_record(table.cell(row, 0.1, seed=seed, tier="cpu", **point), accuracy + seed))
    found = claims.cells(table.name, "cpu", Store(store.root))
    better, where = found[row, 0.1]["outdone"]
    assert (better["mean"], better["n"], where) == (97.5, 2, f"with step size {points[0]['lr']:g}")
    assert all(cell["outdone"] is None for key, cell in found.items() if key != (row, 0.1))
    told = report.text(table, "cpu", Store(store.root))
    assert (
        f"searches did not choose in the end:\n  LeNet-5 at σ = 0.1: 97.50 ± 0.50 (2) with {points[0]['lr']:g}\n"
        f"  LeNet-5 at σ = 0.1: 96.50 ± 0.50 (2) with {points[2]['lr']:g}\n" in told
    )


def test_the_moments_accountant_gains_what_abadi_says():
    judged = BY_NAME["The moments accountant gains over strong composition"].judge("cpu", None)
    assert judged.status == "holds"
    assert "moments: ε = 1.2586, printed 1.26; strong composition: ε = 9.3376, printed 9.34" in judged.evidence


@pytest.mark.parametrize(("at_2", "status"), [(94.6, "holds"), (93.0, "fails"), (94.2, "open")])
@pytest.mark.parametrize("tier", ["cpu", "paper"])
def test_abadi_s_accuracies_are_reached_within_half_a_point_or_missed_in_either_tier(at_2, status, tier, fill):
    """Whose runs are the same."""
    table = tables.load("mnist_abadi")
    store = fill(table, lambda row, epsilon, seed: [{8.0: 97.0, 2.0: at_2, 0.5: 90.0}[epsilon] + seed / 10], seeds=3)
    judged = BY_NAME["abadi's own settings reach its accuracies"].judge(tier, store)
    assert (judged.status, "less than the paper's" in judged.evidence) == (status, False)


def test_amplified_steps_have_more_delta_than_abadi_says_and_not_more_than_the_theorem():
    """The exact δ by integrating the densities of one step."""
    judged = BY_NAME["Sampling makes (ε, δ) of a lot (qε, qδ)"].judge("cpu", None)
    assert judged.status == "fails"
    claimed, x = 0.01 * math.sqrt(2 * math.log(1.25e5)) / 4, np.linspace(-60, 60, 2_000_001)
    without, included = norm.pdf(x, 0, 4), norm.pdf(x, 1, 4)
    exact = np.trapezoid(np.maximum(0, 0.99 * without + 0.01 * included - math.exp(claimed) * without), x)
    assert f"at qε = {claimed:.3g} a step has δ = {exact:.2g}, where 1e-07 is claimed" in judged.decisive[0]
    assert f"{exact:.2g}" == "7.2e-07"
    assert [text[: len("beside: σ = 4")] for text in judged.contrary] == [f"beside: σ = {z}" for z in (4, 1, 8, 8)]
    assert "at qε = 0.00606 a step has δ = 2.7e-08, where 1e-07 is claimed" in judged.contrary[2]  # with more noise


def test_permuted_lots_cost_more_than_is_counted_of_independent_ones():
    judged = BY_NAME["Permuted lots have the guarantee of independent ones"].judge("cpu", None)
    assert judged.status == "fails"
    assert judged.parts == (
        "ε = 1.26 is counted of 10000 independent lots at σ = 4; permuted ones have at least 1.07, and 13.3 is proven",
        "ε = 8 is counted of 70637 independent lots at σ = 2; permuted ones have at least 11.3, and 145 is proven",
        "ε = 2 is counted of 21502 independent lots at σ = 4; permuted ones have at least 1.64, and 21.8 is proven",
        "ε = 0.5 is counted of 2901 independent lots at σ = 8; permuted ones have at least 0.229, and 2.86 is proven",
        "beside: of the first, PLD counts 0.947 of independent lots",
    )
    assert judged.decisive == judged.parts[1:2]


def test_what_defines_no_claims_is_refused(monkeypatch):
    claim = BY_NAME["Noise-free accuracy"]
    monkeypatch.setattr(registry, "names", lambda room: ("mine",))
    for found, got in (
        (SimpleNamespace(), "None"),
        (SimpleNamespace(CLAIMS=claim), "Claim"),
        (SimpleNamespace(CLAIMS=(claim, "more")), r"\['more'\]"),
    ):
        monkeypatch.setattr(registry, "load", lambda room, name, found=found: found)
        with pytest.raises(ValueError, match=rf"^lib/claims/mine\.py: expected CLAIMS, a sequence of Claim; got {got}"):
            claims.every()
    with pytest.raises(ValueError, match=r"^Noise-free accuracy: expected judge\(.* a Verdict; got True"):
        replace(claim, judge=lambda tier, store: True).judge("cpu", None)


def test_a_claim_quotes_or_asks():
    assert all(bool(claim.says) != bool(claim.asks) for claim in claims.every())


TEXTS = tables.load("agnews_noise")


def texts_as_printed(row, column, seed):
    return [TEXTS.printed[row, column].mean]


@pytest.mark.parametrize("claim", claims.of("agnews_noise"), ids=lambda claim: claim.name)
def test_claims_about_texts_hold_on_the_printed_numbers_and_are_open_without(claim, fill):
    assert claim.judge("cpu", fill(TEXTS, lambda *_: None)).status == "open"
    assert claim.judge("cpu", fill(TEXTS, texts_as_printed, seeds=2)).status == "holds"


@pytest.mark.parametrize(
    ("name", "row", "values", "told"),
    [
        ("LN-BiLSTM tolerates weight noise", "LN-BiLSTM-DL", {2.0: 82.2}, "82.20 ± 0.00 (2), 7.14 less"),
        ("Without layer norm BiLSTM does not", "BiLSTM-DL", {1.0: 88.0}, "lose 3.60 and 1.34 points (2)"),
        ("Without layer norm BiLSTM does not", "BiLSTM-DL", {2.0: 85.0}, "lose 6.93 and 4.34 points (2)"),
    ],
)
def test_claims_about_texts_can_fail(name, row, values, told, fill):
    def curve(r, column, seed):
        return [values[column]] if r == row and column in values else texts_as_printed(r, column, seed)

    judged = BY_NAME[name].judge("paper", fill(TEXTS, curve, tier="paper", seeds=2))
    assert judged.status == "fails"
    assert told in judged.evidence


@pytest.mark.parametrize(
    ("alone", "apart", "error", "freedom"), [(1, 12, 8.49, 5), (6, 12, 8.49, 30), (1, 2, 2.0, math.inf)]
)
def test_a_single_runs_error_is_that_of_its_rows_repeated_cells_or_of_all(alone, apart, error, freedom, fill):
    """Two runs so far ``apart`` are 12/√2 from another in standard deviations, of one degree of freedom each; but for
    the first row's, which do not train alike, and tell nothing of the last one where that has its own."""
    table = tables.load("mnist_noise")
    first, last = table.rows[0], table.rows[-1]
    single = [(last, column) for column in table.columns[:alone]]

    def scored(row, column, seed):
        if seed and (row, column) in single:
            return None
        return [50.0 + seed * (40 if row == first and alone == 1 else apart)]

    found = claims.cells("mnist_noise", "cpu", fill(table, scored, seeds=2))[single[0]]
    assert found["one_run"] == pytest.approx(error, abs=0.01)
    assert found["freedom"] == freedom


def test_comparisons_are_as_many_as_pairs_and_columns(fill):
    """By one run each 6.7 points are told of two comparisons, and not of four."""
    table = tables.load("mnist_dpsgd_bn")
    low, *others = "DPSGD (LeNet-5)", "GN-LeNet-5", "DPSGD (LN-LeNet-5)"
    store = fill(table, lambda row, column, seed: [90.0 - 6.7 * (row == low)])
    for rows, ok in ((others, None), (others[:1], False)):
        found = claims.compared(table.name, [(low, row) for row in rows], "cpu", store, columns=(1.0, 0.5))
        assert [part[0] for part in found] == [ok] * (2 * len(rows))


def test_one_of_many_cells_drops_by_chance(fill):
    """By one run each 5.8 points more than are allowed are told of one cell, and not of the lowest of several."""
    table, row = tables.load("agnews_noise"), "LN-BiLSTM-DL"
    store = fill(table, lambda row, column, seed: [90.0 - 12.8 * (column == 2.0)], tier="paper")
    assert noise_robustness.unharmed(table.name, (row,), 7.0, "paper", store).status == "open"
    assert noise_robustness._dropped(table.name, (row,), 7.0, "paper", store, columns=(2.0,))[0][0] is False


@pytest.mark.parametrize(
    ("clean", "noisy", "others", "its", "told"),
    [
        (cell(99.0), cell(98.0), cell(99.0), cell(95.0), True),
        (cell(99.0), cell(95.0), cell(99.0), cell(98.0), False),
        (cell(99.0), cell(98.0), cell(99.0), cell(97.9), None),
        (cell(99.0), cell(98.0), cell(99.0), cell(95.0, at_an_end=True), None),  # it may lose less
        (cell(99.0, at_an_end=True), cell(98.0), cell(99.0), cell(95.0), None),  # may lose more
        (cell(99.0), cell(98.0, at_an_end=True), cell(99.0, at_an_end=True), cell(95.0), True),
        (cell(99.0), cell(95.0, at_an_end=True), cell(99.0), cell(98.0), None),
        (cell(99.0), cell(95.0), cell(99.0, left_open=3.0), cell(98.0), None),
        (cell(99.0, left_open=2.0), cell(98.0), cell(99.0), cell(95.0, left_open=1.0), None),
        (cell(99.0, left_open=1.0), cell(98.0), cell(99.0), cell(95.0, left_open=1.0), True),
    ],
)
def test_a_smaller_loss_is_told_where_no_other_step_size_might_undo_it(clean, noisy, others, its, told):
    assert claims.smaller_loss(clean, noisy, others, its)[0] is told


@pytest.mark.parametrize(
    ("noisy", "suspect", "told"), [(95.0, 2.0, True), (80.0, 0.0, False), (80.0, 2.0, None), (95.0, 0.0, None)]
)
def test_a_drop_is_told_where_no_other_step_size_might_undo_it(noisy, suspect, told, monkeypatch):
    """The step size of the cell with the noise ``suspect`` is at an end of its search."""
    table, row = tables.load("agnews_noise"), "LN-BiLSTM-DL"
    found = {(row, sigma): cell(mean, at_an_end=sigma == suspect) for sigma, mean in ((0.0, 96.0), (2.0, noisy))}
    monkeypatch.setattr(noise_robustness, "cells", lambda *of: found)
    assert noise_robustness._dropped(table.name, (row,), 7.0, "paper", None, columns=(2.0,))[0][0] is told


@pytest.mark.parametrize(("at_1", "status", "least"), [(5, "open", 9.6), (3, "fails", 16.0)])
def test_a_curve_that_never_arrives_refutes_a_factor_that_it_is_long_enough_to_exceed(at_1, status, least, fill):
    """In 48 epochs."""

    def curve(row, column, seed):
        return [50.0] * 48 if column == 10.0 else [50.0] * (at_1 - 1) + [98.0]

    verdict = noise_robustness.factor_seven(FIGURE.name, "cpu", fill(FIGURE, curve))
    assert verdict.status == status
    assert f"{at_1:.1f} epochs at σ = 1 and ∞ at σ = 10, × {least:.1f} to ∞" in verdict.evidence


def test_epochs_to_an_accuracy_are_the_mean_of_the_seeds(fill):
    figure = tables.load("mnist_convergence")
    store = fill(figure, lambda row, column, seed: [50.0] * (1 + 3 * seed) + [98.0] * 2, seeds=2)
    assert noise_robustness.epochs_to_reach(figure.rows[0], 1.0, 95.0, "cpu", store) == (2 + 5) / 2


def test_a_gain_is_no_drop_however_large(monkeypatch):
    found = {("LN-BiLSTM-DL", sigma): cell(mean) for sigma, mean in ((0.0, 85.0), (2.0, 96.0))}
    monkeypatch.setattr(noise_robustness, "cells", lambda *of: found)
    parts = noise_robustness._dropped("agnews_noise", ("LN-BiLSTM-DL",), 7.0, "paper", None, columns=(2.0,))
    assert [ok for ok, _ in parts] == [True]


def test_two_points_are_of_the_spread_and_not_of_its_square(fill):
    """Every cell's two runs are 2.4 apart: 1.7 points, with a variance of 2.9."""
    table = tables.load("mnist_noise")
    alone = table.cells[-1]

    def scored(row, column, seed):
        return None if seed and (row, column) == alone else [80.0 + 2.4 * seed]

    found = claims.cells("mnist_noise", "cpu", fill(table, scored, seeds=2))
    assert _comparison.spread(found[alone]) == 2.0


def test_the_same_accuracy_is_open_while_a_curve_is_missing(fill):
    store = fill(FIGURE, lambda row, column, seed: None if column == 10 else [98.4], tier="paper")
    assert BY_NAME["Large noise: the same accuracy in the end"].judge("paper", store).status == "open"


@pytest.mark.parametrize(("worst", "status"), [(98.05, "open"), (95.0, "fails")])
def test_the_two_cells_farthest_apart_are_so_by_chance(worst, status, monkeypatch):
    """0.95 points are more than 0.5 at 5 %, and not at 5 % ÷ the number of pairs."""
    row, last = "BN-LeNet-5", TABLE.columns[-1]
    found = {(row, c): cell(worst if c == last else 99.0) | {"column": c} for c in TABLE.columns}
    monkeypatch.setattr(noise_robustness, "cells", lambda *of: found)
    assert noise_robustness._flat((row,), "paper", None).status == status


@pytest.mark.parametrize(("means", "told"), [((99.0, 99.3), None), ((99.3, 99.0), None), ((99.0, 99.05), True)])
def test_two_cells_are_alike_only_where_neither_may_be_far_above_the_other(means, told):
    of_row = [cell(mean) | {"column": column} for column, mean in enumerate(means)]
    assert _alike.alike(of_row, "cpu", of=1)[0] is told


@pytest.mark.parametrize(("worst", "best", "told"), [(True, False, None), (False, True, False)])
def test_cells_are_apart_unless_the_worst_may_be_better_with_another_step_size(worst, best, told):
    of_row = [cell(mean, at_an_end=end) | {"column": end} for mean, end in ((95.0, worst), (99.0, best))]
    assert _alike.alike(of_row, "paper", of=1)[0] is told


@pytest.mark.parametrize(("rows", "status"), [(TABLE.rows[:1], "fails"), (TABLE.rows[:2], "open")])
def test_one_of_two_cells_is_below_what_is_printed_by_chance(rows, status, fill):
    """By one run each 4.2 points are told of one cell, and not of one of two."""
    store = fill(TABLE, lambda row, column, seed: None if column else [98.2 - 4.2], tier="paper")
    assert claims.printed_reached(TABLE.name, [(row, 0.0) for row in rows], "paper", store).status == status


def test_one_of_two_losses_on_texts_is_larger_by_chance(fill):
    """By one run each 8.4 points are told of one comparison of two losses, and not of one of two."""
    curve = lambda row, column, seed: [90.0 - 8.4 * (row.startswith("LN") and column == 2.0)]  # noqa: E731
    store = fill(TEXTS, curve, tier="paper")
    assert BY_NAME["Without layer norm BiLSTM does not"].judge("paper", store).status == "open"
