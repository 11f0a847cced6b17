"""The claims about batch clipping: each can hold, can fail, and is open while results are missing."""

import pytest

from lib import claims, figures, report, tables
from lib.claims import gaussian_dp, public_alone
from lib.figures import gradient_norms

NAMES = ("bc_ic_vs_bc", "bc_alc_vs_fgc", "bc_batch_norm", "bc_equal_epsilon")
BY_NAME = {claim.name: claim for claim in claims.of(*NAMES)}
BETTER = {  # claim → rows that it says are better, and one that is worse
    "Batch clipping is ahead of individual clipping": ("resnet-18, BC", "resnet-18, IC"),
    "Without batch norm, too, batch clipping outperforms individual clipping": (
        "convnet without BN, BC",
        "convnet without BN, IC",
    ),
    "The enhanced clip norms beat Zhang's": ("resnet-18, BC", "resnet-18, BC, Zhang's"),
    "ResNet-18: layerwise beats full-gradient clipping, even at discounted noise": (
        "resnet-18, ALC",
        "resnet-18, FGC, same ε",
    ),
    "Batch norm gives about 5 points under batch clipping": ("convnet", "convnet without BN"),
    "MNIST at equal ε: batch clipping against individual clipping": (
        "BC, batches of 64",
        "BC without BN, batches of 64",
        "IC without BN",
    ),
    "MNIST at equal ε: both together": ("BC, ALC, batches of 64", "IC without BN"),
    "MNIST at equal ε: layerwise against full-gradient clipping": ("BC, ALC, batches of 64", "BC, batches of 64"),
    "MNIST at equal ε: enhanced against Zhang's clip norms": ("BC, ALC", "BC, Zhang's ALC"),
    "MNIST at equal ε: batch norm under batch clipping": ("BC", "BC, batches of 64", "BC without BN"),
    "MNIST at equal ε: four groups against single layers": ("BC, ALC, four groups", "BC, ALC"),
    "MNIST at equal ε: multiplication factors against layerwise clipping": ("BC, multiplication factors", "BC, ALC"),
    "MNIST at equal ε: fixing converged weights": ("BC, weights fixed that hover", "BC"),
}
SETTINGS = {  # claim → its row, the column that is best there, and one that is not
    "Smaller batches are more accurate without privacy": ("convnet", 64, 1024),
    "BN-LeNet-5: large batches are less accurate under batch clipping": ("BN-LeNet-5, σ = 2.5, C = .2", 64, 1024),
    "Little noise: accuracy increases up to C = 0.2": ("convnet, m = 1024, σ = .01875", 0.2, 0.1),
    "Little noise: accuracy decreases beyond C = 0.9": ("convnet, m = 1024, σ = .01875", 0.9, 1.5),
    "Large noise: accuracy decreases from C = 0.1 on": ("convnet, m = 1024, σ = .5", 0.1, 0.14),
    "BN-LeNet-5 is most accurate with C = 0.2": ("BN-LeNet-5, m = 64, σ = .5", 0.2, 0.9),
}
DROPS = "Noise costs convnet 15 points, then 10"
SENSITIVE = "ResNet-18 is more sensitive to noise than convnet"
STABLE = "Little noise: accuracy is stable from C = 0.2 to 0.9"
SLOWLY = "The norms of the layers' gradients fall slowly"
OF_SETTINGS = {
    claim.name: claim for claim in claims.of("bc_sgd", "bc_gradient_norms", "bc_batch_size", "bc_clip_norm", "bc_noise")
}
NO_PENALTY = "Multiplication factors cost no √L"
BY_PROOF = {claim.name for claim in gaussian_dp.CLAIMS}
GOOD = ("resnet-18, BC", "resnet-18 without BN, BC", "convnet without BN, BC", "convnet, BC", "convnet", "BN-LeNet-5")


def test_every_claim_about_results_is_tested():
    elsewhere = BY_PROOF | {claim.name for claim in public_alone.CLAIMS}
    assert {*BETTER, NO_PENALTY} == set(BY_NAME) - elsewhere
    assert {*SETTINGS, SENSITIVE, DROPS, STABLE, SLOWLY} == set(OF_SETTINGS) - BY_PROOF


@pytest.mark.parametrize("name", BETTER)
@pytest.mark.parametrize("status", ["open", "fails", "holds"])
def test_a_claim_is_open_fails_and_holds(name, status, fill):
    *better, worse = BETTER[name]

    def curve(row, column, seed):
        if status == "open":
            return None
        if status == "fails" and row == worse:
            return [90.0]
        good = row in (*better, *GOOD) or (row.endswith("ALC") and row != worse)
        return [55.0 + (BY_NAME[name].table != "bc_batch_norm") if good else 50.0]

    verdict = BY_NAME[name].judge("paper", fill(tables.load(BY_NAME[name].table), curve, tier="paper", seeds=2))
    assert verdict.status == status
    assert (worse in verdict.evidence) == (status != "open")
    assert ("90.00 ± 0.00 (2)" in verdict.evidence) == (status == "fails")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    ("best", "worse", "tier", "status"),
    [
        (None, None, "paper", "open"),
        (60.0, 50.0, "paper", "holds"),
        (60.0, 50.0, "cpu", "holds"),
        (60.0, 70.0, "paper", "fails"),
        (60.0, 70.0, "cpu", "open"),  # it may, in as many epochs as bc's
    ],
)
def test_of_its_row_a_setting_is_best(name, best, worse, tier, status, fill):
    its_row, its_best, its_worse = SETTINGS[name]

    def curve(row, column, seed):
        if best is None or row != its_row:
            return None
        return [best if column == its_best else worse if column == its_worse else 50.0]

    store = fill(tables.load(OF_SETTINGS[name].table), curve, tier=tier, seeds=2)
    verdict = OF_SETTINGS[name].judge(tier, store)
    assert verdict.status == status
    assert (f"{worse:.2f} ± 0.00 (2)" if best else "what decides it is not stored yet") in verdict.evidence


@pytest.mark.parametrize(
    ("lost", "tier", "status"), [(10.0, "paper", "holds"), (30.0, "paper", "fails"), (30.0, "cpu", "open")]
)
def test_noise_costs_convnet_less(lost, tier, status, fill):
    def curve(row, column, seed):
        return [80.0 - (column == 1.0) * (lost if row.startswith("convnet") else 20.0)]

    verdict = OF_SETTINGS[SENSITIVE].judge(tier, fill(tables.load("bc_noise"), curve, tier=tier, seeds=2))
    assert verdict.status == status
    assert f"2σ = 1: convnet, C = .14 and resnet-18, C = .095 lose {lost:.2f} and 20.00 points (2)" in verdict.evidence


@pytest.mark.parametrize(
    ("lost", "tier", "status"),
    [((15.0, 10.0), "paper", "holds"), ((15.0, 20.0), "paper", "fails"), ((5.0, 10.0), "cpu", "open")],
)
def test_noise_costs_convnet_about_what_bc_says(lost, tier, status, fill):
    def curve(row, column, seed):
        return [70.0 + 0.02 * seed - lost[0] * (column >= 0.4) - lost[1] * (column >= 1.2)]

    verdict = OF_SETTINGS[DROPS].judge(tier, fill(tables.load("bc_noise"), curve, tier=tier, seeds=2))
    assert verdict.status == status
    assert f"2σ = 0.4 {70.01 - lost[0]:.2f} ± 0.01 (2), {lost[0]:.2f} less, where bc has about 15" in verdict.evidence


@pytest.mark.parametrize("name", [SENSITIVE, DROPS, STABLE, SLOWLY])
def test_without_results_what_a_setting_does_is_open(name, fill):
    claim = OF_SETTINGS[name]
    verdict = claim.judge("paper", fill(tables.load(claim.table), lambda *_: None))
    assert (verdict.status, verdict.parts) == ("open", ("what decides it is not stored yet",))


@pytest.mark.parametrize(
    ("moved", "apart", "tier", "status"),
    [
        (2.0, 0.02, "cpu", "holds"),
        (-2.0, 0.02, "paper", "holds"),
        (5.0, 0.02, "paper", "fails"),
        (-5.0, 0.02, "paper", "fails"),
        (5.0, 0.02, "cpu", "open"),  # the more epochs, the less a longer step gains
        (2.0, 4.0, "paper", "open"),
    ],
)
@pytest.mark.parametrize("where", [0.5, 0.9])
def test_accuracy_is_stable_over_a_range_of_clip_norms(where, moved, apart, tier, status, fill):
    def curve(row, column, seed):
        return [55.0 + apart * seed + moved * (column == where) - 20.0 * (column < 0.2 or column > 0.9)]

    verdict = OF_SETTINGS[STABLE].judge(tier, fill(tables.load("bc_clip_norm"), curve, tier=tier, seeds=2))
    assert verdict.status == status
    assert f"C = {where:g} {55 + apart / 2 + moved:.2f} ± {apart / 2:.2f} (2), C = 0.2 " in verdict.evidence


@pytest.mark.parametrize(
    ("last", "tier", "status"),
    [
        ((3.3, 3.9, 1.0), "paper", "holds"),  # of three two fall, from 4 in two epochs, by less than to 4 × .9²
        ((3.2, 3.9, 1.0), "paper", "fails"),
        ((4.0, 3.9, 5.0), "paper", "fails"),
        ((4.0, 3.9, 5.0), "cpu", "open"),
        ((3.9, None, None), "paper", "fails"),  # what was not finite counts as none that falls
    ],
)
def test_norms_fall_slowly_where_most_do(last, tier, status, fill):
    table = tables.load("bc_gradient_norms")
    store = fill(table, lambda *_: [70.0], tier=tier)
    record = store.get(table.cell("resnet-18", 64, seed=0, tier=tier))
    record["history"]["gradient_norms"] = {f"Linear {i}.weight": [4.0, 9.0, norm] for i, norm in enumerate(last)}
    verdict = OF_SETTINGS[SLOWLY].judge(tier, store)
    assert verdict.status == status
    slowly = sum(norm is not None and 3.24 < norm < 4 for norm in last)
    assert f"resnet-18: of 3 tensors {slowly} fall by at most 10% an epoch and " in verdict.evidence


@pytest.mark.parametrize(
    ("gain", "apart", "status"), [(5.0, 0.5, "holds"), (8.5, 0.02, "fails"), (6.6, 4.0, "open"), (20.0, 4.0, "fails")]
)
def test_about_five_points_is_told_where_the_spread_allows(gain, apart, status, fill):
    def curve(row, column, seed):
        return [50.0 + gain * (row == "convnet") + apart * seed]

    store = fill(tables.load("bc_batch_norm"), curve, tier="paper", seeds=2)
    verdict = BY_NAME["Batch norm gives about 5 points under batch clipping"].judge("paper", store)
    assert verdict.status == status
    assert ("(not told apart from 5 ± 2.5 points)" in verdict.evidence) == (status == "open")


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("ResNet-18: layerwise beats full-gradient clipping, even at discounted noise", "fails"),
        ("The enhanced clip norms beat Zhang's", "fails"),
        ("Batch clipping is ahead of individual clipping", "open"),  # it may, in as many epochs as bc's
    ],
)
def test_at_less_than_the_papers_scale_rows_that_are_cut_alike_may_fail_and_gains_may_not(name, status, fill):
    *_, worse = BETTER[name]
    table = tables.load(BY_NAME[name].table)
    store = fill(table, lambda row, column, seed: [70.0 if row == worse else 40.0], seeds=2)
    assert BY_NAME[name].judge("cpu", store).status == status


@pytest.mark.parametrize("accuracy", [18.0, 22.0])
def test_runs_that_are_too_short_to_learn_anything_do_not_tell_who_converges(accuracy, fill):
    store = fill(tables.load("bc_ic_vs_bc"), lambda row, column, seed: [accuracy if "BC" in row else 11.0], seeds=2)
    verdict = BY_NAME["Batch clipping is ahead of individual clipping"].judge("cpu", store)
    assert verdict.status == ("open" if accuracy == 18.0 else "holds")
    told = f"resnet-18, BC {accuracy:.2f} ± 0.00 (2) after 2 epochs, resnet-18, IC 11.00 ± 0.00 (2)"
    assert verdict.parts[0] == told + (" (too early to tell)" if accuracy == 18.0 else "")


@pytest.mark.parametrize(("tuned", "status"), [(60.0, "holds"), (40.0, "fails")])
def test_the_enhanced_clip_norms_are_judged_with_the_better_of_two_clip_norms(tuned, status, fill):
    def curve(row, column, seed):
        return [{"resnet-18, BC, C = .095": tuned, "resnet-18, BC": 30.0}.get(row, 50.0)]

    store = fill(tables.load("bc_ic_vs_bc"), curve, tier="paper", seeds=2)
    verdict = BY_NAME["The enhanced clip norms beat Zhang's"].judge("paper", store)
    assert verdict.status == status
    assert verdict.decisive[0].startswith(f"resnet-18, BC, C = .095 {tuned:.2f} ± 0.00 (2)")
    assert any(text.startswith("beside: resnet-18, BC 30.00") for text in verdict.parts)


@pytest.mark.parametrize(("individual", "status"), [(30.0, "holds"), (44.0, "fails")])
def test_who_converges_is_judged_with_the_better_of_two_clip_norms_of_each(individual, status, fill):
    def curve(row, column, seed):
        tuned = {"resnet-18, BC": 17.0, "resnet-18, BC, C = .095": 45.0, "resnet-18, IC": individual}
        return [tuned.get(row, 11.0)]

    store = fill(tables.load("bc_ic_vs_bc"), curve, tier="paper", seeds=2)
    verdict = BY_NAME["Batch clipping is ahead of individual clipping"].judge("paper", store)
    assert verdict.status == status
    (decisive,) = verdict.decisive
    assert decisive.startswith("resnet-18, BC, C = .095 45.00")
    assert f"resnet-18, IC {individual:.2f}" in decisive


@pytest.mark.parametrize("missing", ["resnet-18, BC", "resnet-18, BC, C = .095", "the other"])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("The enhanced clip norms beat Zhang's", "resnet-18, BC, Zhang's"),
        ("Batch clipping is ahead of individual clipping", "resnet-18, IC, C = .095"),
    ],
)
def test_the_better_of_two_clip_norms_is_not_known_from_one(name, other, missing, fill):
    def behind(row, column, seed):
        return None if row == missing.replace("the other", other) else [50.0 if row == other else 40.0]

    store = fill(tables.load("bc_ic_vs_bc"), behind, tier="paper", seeds=2)
    assert BY_NAME[name].judge("paper", store).status == "open"


@pytest.mark.parametrize(("gap", "status"), [(5.0, "open"), (7.0, "holds")])
def test_the_better_of_two_clip_norms_is_told_at_half_the_doubt(gap, status, fill):
    def curve(row, column, seed):  # a standard error of 1 from three seeds, so t is 4.30 at 5 % and 6.21 at half of it
        return [{"resnet-18, BC, C = .095": 50.0 + gap + (seed - 1) * 3**0.5}.get(row, 50.0)]

    store = fill(tables.load("bc_ic_vs_bc"), curve, tier="paper", seeds=3)
    verdict = BY_NAME["The enhanced clip norms beat Zhang's"].judge("paper", store)
    assert verdict.status == status


@pytest.mark.parametrize(
    ("factor", "moved", "status"), [(1.0, 1.8, "holds"), (8**0.5, 1.8, "fails"), (1.0, 4.4, "fails")]
)
def test_the_penalty_is_read_off_the_noise_and_what_it_hides(factor, moved, status, fill, monkeypatch):
    found = {"BC": 1.9, "BC, multiplication factors": moved, "BC, ALC": 4.5}
    monkeypatch.setattr(
        "lib.store.audit", lambda name: {row: {"multiple": multiple} for row, multiple in found.items()}
    )
    table = tables.load("bc_equal_epsilon")
    store = fill(table, lambda row, column, seed: [70.0])
    for column in table.columns:
        (record,) = report.records(table, "BC, multiplication factors", column, "cpu", store)
        record["privacy"]["noise_multiplier"] *= factor
    verdict = BY_NAME[NO_PENALTY].judge("cpu", store)
    assert verdict.status == status
    assert f"with multiplication factors {factor:.2f} times the noise of one full clip" in verdict.evidence


def test_cells_with_different_epsilon_say_each_and_the_ledger_their_range(fill):
    table = tables.load("bc_equal_epsilon")
    store = fill(table, lambda row, column, seed: [70.0])
    assert "8 by pld / 8 / none" in report.text(table, "cpu", store)
    assert report.privacy(table, "cpu", store) == "2 to 8 by pld / 2 to 8 / none (sensitivity C)"


def test_a_cell_whose_runs_were_attacked_one_by_one_says_the_range(fill):
    table = tables.load("bc_equal_epsilon")
    store = fill(table, lambda row, column, seed: [70.0], seeds=2)
    for record in report.records(table, "BC", 8.0, "cpu", store):
        record["privacy"]["audited"] = {"epsilon": 0.1 + record["run"]["seed"] / 4}
    assert "  8 by pld / 8 / 0.1 to 0.35\n" in report.text(table, "cpu", store)


def test_gradient_norms_are_drawn_by_kind_of_layer(fill):
    table = tables.load("bc_gradient_norms")
    store = fill(table, lambda row, column, seed: [70.0, 80.0])
    assert report.gradient_norms(table, "cpu", store).empty
    gradient_norms.drawn(table, "cpu", store)  # nothing is measured: an empty panel, not an error
    record = store.get(table.cell("convnet", 64, seed=0, tier="cpu"))
    record["history"]["gradient_norms"] = {"NoisyConv2d 0.weight": [3.0, 2.0], "BatchNorm2d 2.weight": [1.0, None]}
    frame = report.gradient_norms(table, "cpu", store)
    assert frame[["layer", "tensor", "epoch", "norm"]].values.tolist()[:2] == [
        ["NoisyConv2d", "0.weight", 1, 3.0],
        ["NoisyConv2d", "0.weight", 2, 2.0],
    ]
    figure = gradient_norms.drawn(table, "cpu", store)
    assert [text.get_text() for text in figure.legends[0].texts] == ["convolution", "norm"]
    assert len(figure.axes[0].get_lines()) == 2


def test_a_table_of_batch_sizes_is_drawn(fill):
    table = tables.load("bc_sgd")
    store = fill(table, lambda row, column, seed: [70.0])
    assert figures.against_column(table, "cpu", store).axes[0].get_xticklabels()[0].get_text() == "m = 64"


@pytest.mark.parametrize(("factor", "moved", "status"), [(1.0, 2.1, "fails"), (2.0, 1.8, "fails"), (1.0, 2.0, "holds")])
def test_no_penalty_at_all_is_allowed_though_layers_have_one(factor, moved, status, fill, monkeypatch):
    found = {"BC": 1.9, "BC, multiplication factors": moved, "BC, ALC": 4.5}
    monkeypatch.setattr("lib.store.audit", lambda name: {row: {"multiple": by} for row, by in found.items()})
    table = tables.load("bc_equal_epsilon")
    store = fill(table, lambda row, column, seed: [70.0])
    for row, times in (("BC, multiplication factors", factor), ("BC, ALC", 8**0.5)):
        for column in table.columns:
            (record,) = report.records(table, row, column, "cpu", store)
            record["privacy"]["noise_multiplier"] *= times
    assert BY_NAME[NO_PENALTY].judge("cpu", store).status == status


STEPS = tables.load("bc_step_sizes")
OWN_STEPS, LAYERS_OWN_STEPS = claims.of(STEPS.name)


@pytest.mark.parametrize(
    ("individual", "seeds", "status"),
    [
        (12.0, 2, "holds"),
        (44.0, 2, "open"),
        (46.0, 2, "fails"),
        (60.0, 2, "fails"),
        (46.0, 1, "open"),
        (None, 2, "open"),
    ],
)
def test_each_kind_of_clipping_has_the_best_of_its_step_sizes(individual, seeds, status, fill):
    """Batch clipping is at 50 with bc's step size, and individual clipping, else at 10, at most with 16 times that."""

    def curve(row, column, seed):
        if row.endswith("BC") or "BC," in row:
            return [50.0 if column == 0.025 else 40.0]
        best = individual if column == 0.4 else 10.0
        return best and [best + (0.8 * (2 * seed - 1) if individual == 44.0 else 0.0)]

    verdict = OWN_STEPS.judge("paper", fill(STEPS, curve, tier="paper", seeds=seeds))
    assert verdict.status == status
    assert "convnet without BN, BC 50.00" in verdict.evidence
    assert ("with 0.4, after" in verdict.evidence) == (individual is not None)
    assert ("of 14 step sizes not stored yet" in verdict.evidence) == (individual is None)


@pytest.mark.parametrize("ahead", [60.0, 30.0])
def test_nothing_is_told_where_the_one_behind_is_best_at_the_longest_step(ahead, fill):
    """Individual clipping has 45 and is behind, or ahead: the one behind has it with 4096 times bc's step size."""

    def curve(row, column, seed):
        longest = column == max(STEPS.columns)
        if row.endswith("BC") or "BC," in row:
            return [ahead if longest == (ahead == 30.0) else 20.0]
        return [45.0 if longest == (ahead == 60.0) else 10.0]

    verdict = OWN_STEPS.judge("paper", fill(STEPS, curve, tier="paper", seeds=2))
    assert verdict.status == "open"
    assert verdict.evidence.count("(the lower one's step size is the longest)") == 2


@pytest.mark.parametrize(
    ("whole", "at", "status"),
    [
        (45.0, 6.4, "holds"),
        (55.0, 6.4, "fails"),
        (50.2, 6.4, "open"),
        (45.0, max(STEPS.columns), "open"),
        (None, 6.4, "open"),
    ],
)
def test_layers_and_one_full_clip_have_the_best_of_their_step_sizes(whole, at, status, fill):
    """Layers are at 50 with bc's step size, else lower."""

    def curve(row, column, seed):
        if "FGC" in row:
            return whole and [whole + 0.2 * seed - 30.0 * (column != at)]
        return [50.0 + 0.2 * seed - 30.0 * (column != 0.025)]

    verdict = LAYERS_OWN_STEPS.judge("paper", fill(STEPS, curve, tier="paper", seeds=2))
    assert verdict.status == status
    assert len(verdict.parts) == 1
    assert whole is None or f"resnet-18, FGC, same ε {whole + 0.1:.2f} ± 0.10 (2) with {at:g}, " in verdict.evidence
    assert ("not told apart" in verdict.evidence) == (whole == 50.2)


@pytest.mark.parametrize(
    ("claim", "better", "points"),
    [
        ("ResNet-18: layerwise beats full-gradient clipping, even at discounted noise", "FGC, same σ", 6.0),
        ("ResNet-18: with step sizes of their own, too, layerwise beats full-gradient clipping", "FGC", 6.5),
        ("Large noise: accuracy decreases from C = 0.1 on", 0.5, 6.0),
        ("MNIST at equal ε: both together", "IC without BN", 6.0),
    ],
)
def test_one_of_several_comparisons_is_lost_by_chance(claim, better, points, fill):
    """By one run each so many points are told of one comparison, and not of several."""
    (claim,) = (found for found in claims.every() if found.name == claim)
    table = tables.load(claim.table)
    curve = lambda row, column, seed: [50.0 + points * (better == column or str(better) in row)]  # noqa: E731
    assert claim.judge("paper", fill(table, curve, tier="paper")).status == "open"
