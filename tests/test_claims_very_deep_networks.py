"""Claims about CIFAR-10: each can hold, can fail, and is open while results are missing."""

import pytest

from lib import claims, report, tables
from lib.claims import very_deep_networks
from lib.tables import cifar10_dpsgd_bn

NOISE, FIGURE, PUBLIC, SI = (
    tables.load(name) for name in ("cifar10_noise", "cifar10_convergence", "cifar10_dpsgd_bn", "cifar10_si_dpsgd")
)
JUDGES = {claim.name.removeprefix("CIFAR-10: "): claim.judge for claim in very_deep_networks.CLAIMS}
UNPRINTED = {  # on which the claims about rows that are ours would hold
    "TF-tutorial, as short": 60.0,
    "LN-TF-tutorial, as short": 61.0,
    "TF-tutorial, as short, on BN's features": 60.0,
    "LN-TF-tutorial, as short, on BN's features": 61.0,
    "GN-VGG": 10.0,
    "VGG without normalisation": 10.0,
    "GN-VGG, on BN's features": 10.0,
    "VGG without normalisation, on BN's features": 10.0,
    "BN-TF-tutorial, each example with public": 62.0,
    "BN-VGG, each example with public": 79.6,
    "DPSGD (GN-VGG-16), from scratch": 10.0,
    "DPSGD (GN-Fast-CIFAR-ResNet), from scratch": 12.0,
}


def as_printed(table, changes=None):
    """What the papers print, 10 % for no convergence; ``changes``: row → value, or (row, column) → value."""
    changes = changes or {}

    def curve(row, column, seed):
        if (row, column) in changes or row in changes:
            return [changes.get((row, column), changes.get(row))]
        if (row, column) not in table.printed:
            return [UNPRINTED.get(row, 50.0)]
        return [table.printed[row, column].mean or 10.0]

    return curve


@pytest.mark.parametrize(
    "claim", [c for c in very_deep_networks.CLAIMS if c.table != FIGURE.name], ids=lambda claim: claim.name
)
def test_it_holds_on_the_printed_numbers_and_is_open_without(claim, fill):
    table = tables.load(claim.table)
    assert claim.judge("cpu", fill(table, lambda *_: None)).status == "open"
    better = {"BN-VGG, each example with public": 80.0}
    assert claim.judge("paper", fill(table, as_printed(table, better), tier="paper", seeds=2)).status == "holds"


@pytest.mark.parametrize(
    ("name", "table", "changes"),
    [
        ("BN networks tolerate weight noise", NOISE, {("BN-VGG-16", 2.0): 89.7}),
        ("one norm layer less, more vulnerable", NOISE, {("ResNet-18-mod", 1.0): 87.0}),
        ("a norm after the last layer protects", NOISE, {("BN-ResNet-18", 2.0): 87.0}),
        ("ResNet-18's own norm layers protect it", NOISE, {("ResNet-18", 1.0): 19.5}),
        ("batch norm helps DPSGD most, all trained as briefly", PUBLIC, {"LN-TF-tutorial, as short": 72.5}),
        ("batch norm helps DPSGD most, all trained as briefly", PUBLIC, {"TF-tutorial, as short": 72.5}),
        (
            "batch norm helps DPSGD most on the same features",
            PUBLIC,
            {"LN-TF-tutorial, as short, on BN's features": 72.5},
        ),
        ("batch norm helps DPSGD most on the same features", PUBLIC, {"GN-VGG, on BN's features": 81.0}),
        ("so does batch norm that is private", PUBLIC, {"LN-TF-tutorial, as short": 62.5}),
        ("the light VGG loses less", PUBLIC, {("DPSGD (BN-VGG)", 2.0): 60.25}),
        ("the light VGG loses less", PUBLIC, {("GN-VGG", None): 99.0}),  # its network can more without privacy
        ("the light VGG needs batch norm in the layers that train privately", PUBLIC, {"GN-VGG": 79.0}),
        (
            "the light VGG needs batch norm in the layers that train privately",
            PUBLIC,
            {"VGG without normalisation, on BN's features": 79.0},
        ),
        ("the BN-VGG row, with a guarantee", PUBLIC, {"BN-VGG, each example with public": 77.5}),
        ("SI-DPSGD is more accurate than DPSGD at the same claimed ε", SI, {"SI-DPSGD (TF-tutorial)": 66.0}),
        ("very deep networks train with SI-DPSGD alone", SI, {"DPSGD (GN-VGG-16), from scratch": 45.0}),
        ("very deep networks train with SI-DPSGD alone", SI, {("SI-DPSGD (VGG-16)", 0.05): 11.0}),
        ("very deep networks train with SI-DPSGD alone", SI, {("SI-DPSGD (ResNet-18)", 0.05): 11.0}),
    ],
)
def test_it_can_fail(name, table, changes, fill):
    judged = JUDGES[name]("paper", fill(table, as_printed(table, changes), tier="paper", seeds=2))
    assert judged.status == "fails"


@pytest.mark.parametrize("poor", [45.0, 73.0])
def test_training_on_poor_public_features_refutes_nothing(poor, fill):
    store = fill(PUBLIC, as_printed(PUBLIC, {"GN-VGG": poor}), tier="paper", seeds=2)
    judged = JUDGES["the light VGG needs batch norm in the layers that train privately"]("paper", store)
    assert judged.status == "open"
    assert f"(without privacy {poor:.2f} ± 0.00 (2), BN-VGG 80.70 ± 0.00 (2): poor features)" in judged.evidence


@pytest.mark.parametrize("accuracy", [56.0, 78.0])
def test_fewer_epochs_from_scratch_and_of_pretraining_tell_nothing(accuracy, fill):
    store = fill(SI, as_printed(SI, {"SI-DPSGD (TF-tutorial)": accuracy}), seeds=2)
    judged = JUDGES["SI-DPSGD is more accurate than DPSGD at the same claimed ε"]("cpu", store)
    assert judged.status == "open"
    assert "(tier cpu cuts them short differently: open)" in judged.evidence


@pytest.mark.parametrize("accuracy", [45.0, 11.0])
def test_what_dpsgd_does_to_a_narrow_network_in_few_epochs_tells_nothing_of_very_deep_ones(accuracy, fill):
    store = fill(SI, as_printed(SI, {"DPSGD (GN-VGG-16), from scratch": accuracy}), seeds=2)
    judged = JUDGES["very deep networks train with SI-DPSGD alone"]("cpu", store)
    assert judged.status == "open"
    assert f"{accuracy:.2f} ± 0.00 (2) (tier cpu is less than the paper's: open)" in judged.evidence


def curve_of(row, column, seed):
    """60 % at epoch 2, and for σ = 10 at epoch 14, with one step size."""
    late = column == 10.0 and row == FIGURE.rows[0]
    return [30.0] * (13 if late else 1) + [62.0, 62.2 if late else 62.0]


def test_the_factor_of_order_7(fill):
    judge = JUDGES["slower by a factor of order 7"]
    assert judge("cpu", fill(FIGURE, curve_of)).status == "holds"


def test_curves_that_end_too_early_decide_nothing(fill):
    short = fill(FIGURE, lambda row, column, seed: curve_of(row, column, seed)[:5])
    judged = JUDGES["slower by a factor of order 7"]("cpu", short)
    assert judged.status == "open"
    assert "∞ at σ = 10" in judged.evidence


@pytest.mark.parametrize(("last", "status"), [(62.3, "holds"), (60.0, "fails")])
def test_the_same_accuracy_in_the_end(last, status, fill):
    curve = lambda row, column, seed: [last if column == 10 and row == FIGURE.rows[0] else 62.0]  # noqa: E731
    assert JUDGES["the same accuracy in the end"]("paper", fill(FIGURE, curve, tier="paper", seeds=2)).status == status


def test_every_cifar_table_has_a_claim():
    assert all(claims.of(table.name) for table in (NOISE, FIGURE, PUBLIC, SI))


def test_rows_on_features_that_were_pretrained_apart_are_not_compared(fill):
    """Pretraining again gives other weights; the report says where seeds of one cell have several."""
    row, words = (
        "GN-VGG, on BN's features",
        "on data that changed between seeds of a cell",
    )
    store = fill(PUBLIC, as_printed(PUBLIC, {}), tier="paper", seeds=2)
    assert words not in report.text(PUBLIC, "paper", store)
    for record in report.records(PUBLIC, row, 4.0, "paper", store):
        if record["run"]["seed"] == 1:
            record["env"]["data_sha256"] = "of other weights"
    judged = JUDGES["batch norm helps DPSGD most on the same features"]("paper", store)
    assert judged.status == "open"
    (text,) = judged.decisive
    assert text.startswith("ε = 4: ")
    assert text.endswith(" (on features that were pretrained apart)")
    assert f"{words} (features change where they are pretrained again): {row}\n" in report.text(PUBLIC, "paper", store)


@pytest.mark.parametrize(("lost", "status"), [(18.5, "open"), (20.5, "fails")])
def test_one_of_several_gaps_is_larger_by_chance(lost, status, fill):
    """By one run each 8.5 points are told of one gap, and not of the largest of three."""
    lose = {cifar10_dpsgd_bn.BN_VGG: lost, cifar10_dpsgd_bn.PLAIN: 10.0}
    store = fill(
        tables.load("cifar10_dpsgd_bn"),
        lambda row, column, seed: [80.0 - lose[row] * (column is not None) if row in lose else 50.0],
        tier="paper",
    )
    assert JUDGES["the light VGG loses less"]("paper", store).status == status


@pytest.mark.parametrize("row", [cifar10_dpsgd_bn.BN, cifar10_dpsgd_bn.BN_VGG])
def test_a_row_without_a_guarantee_does_not_count_among_those_that_have_one(row, fill):
    short = {"BN-VGG, each example with public": 77.5, row: 99.0}
    store = fill(PUBLIC, as_printed(PUBLIC, short), tier="paper", seeds=2)
    assert JUDGES["the BN-VGG row, with a guarantee"]("paper", store).status == "fails"


@pytest.mark.parametrize(
    ("name", "changes", "status"),
    [
        # neither is printed to converge: nothing is asked
        ("one norm layer less, more vulnerable", {("VGG-16-mod", 2.0): 30.0}, "holds"),
        ("a norm after the last layer protects", {("BN-VGG-16", 2.0): 5.0}, "fails"),  # one is
        ("BN networks tolerate weight noise", {("BN-VGG-16", 2.0): 89.85}, "holds"),  # 1.9 points less than without
    ],
)
def test_what_a_norm_does_is_asked_where_a_network_with_it_or_without_is_printed_to_converge(
    name, changes, status, fill
):
    store = fill(NOISE, as_printed(NOISE, changes), tier="paper", seeds=2)
    assert JUDGES[name]("paper", store).status == status


@pytest.mark.parametrize(("accuracy", "status"), [(93.5, "open"), (96.5, "fails")])
def test_one_of_several_networks_is_below_by_chance(accuracy, status, fill):
    """By one run each 6 points are told of one pair, and not of one of three."""
    store = fill(NOISE, as_printed(NOISE, {("ResNet-18", 1.0): 87.0, ("ResNet-18-mod", 1.0): accuracy}), tier="paper")
    assert JUDGES["one norm layer less, more vulnerable"]("paper", store).status == status


def test_at_less_than_the_papers_scale_a_network_that_fails_is_no_evidence(fill):
    store = fill(NOISE, as_printed(NOISE, {("ResNet-18", 1.0): 19.5}), seeds=2)
    assert JUDGES["ResNet-18's own norm layers protect it"]("cpu", store).status == "open"


def test_features_that_may_be_poor_refute_nothing(fill):
    """By one run each it cannot be told whether 75.0 are 5 points below 80.7."""
    store = fill(PUBLIC, as_printed(PUBLIC, {"GN-VGG": 75.5}), tier="paper")
    judged = JUDGES["the light VGG needs batch norm in the layers that train privately"]("paper", store)
    assert judged.status == "open"
    assert any("poor features" in text for text in judged.decisive)


def test_si_dpsgd_is_compared_where_dpsgd_is_printed(fill):
    store = fill(SI, as_printed(SI), tier="paper", seeds=2)
    judged = JUDGES["SI-DPSGD is more accurate than DPSGD at the same claimed ε"]("paper", store)
    assert [text.partition(":")[0] for text in judged.decisive] == ["ε = 8", "ε = 4", "ε = 2"]


def test_the_epochs_are_counted_to_both_accuracies(fill):
    judged = JUDGES["slower by a factor of order 7"]("cpu", fill(FIGURE, curve_of))
    assert {word for text in judged.decisive for word in ("40 %", "60 %") if word in text} == {"40 %", "60 %"}
