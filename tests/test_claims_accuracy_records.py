"""The claims of new accuracy records: each can hold, can fail, and is open while results or proofs are missing."""

import pytest

from lib import report, tables
from lib.claims import accuracy_records

BY_NAME = {claim.name: claim for claim in accuracy_records.CLAIMS}
V1, V2 = (f"New accuracy records on MNIST, by {method}" for method in ("SI-DPSGD", "DPSGD with normalisation"))
MNIST = tables.load("mnist_si_dpsgd")


def as_printed(table):
    def curve(row, column, seed):
        cell = table.printed.get((row, column))
        return [60.0 if cell is None else cell.mean]

    return curve


def judged(claim, fill, tier="paper", curve=None):
    """By two seeds that agree."""
    table = tables.load(claim.table)
    return claim.judge(tier, fill(table, curve or as_printed(table), tier=tier, seeds=2))


@pytest.fixture
def account(monkeypatch):
    """``account(proven, audited)``: what all records say of their privacy."""

    def account(proven, audited=None):
        block = {"proven": {"epsilon": proven}, "audited": audited and {"epsilon": audited}}
        monkeypatch.setattr(report, "records", lambda *_: iter([{"privacy": block}] * 2))

    return account


@pytest.mark.parametrize("claim", accuracy_records.CLAIMS, ids=lambda claim: claim.name)
def test_without_results_a_claim_is_open(claim, fill):
    assert judged(claim, fill, curve=lambda *_: None).status == "open"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (V1, "open"),  # above all that is printed, at an ε that is not proven
        ("New accuracy records on CIFAR-10, by SI-DPSGD", "open"),
        (V2, "holds"),
        ("New accuracy records on CIFAR-10, by DPSGD with normalisation", "holds"),
    ],
)
def test_on_the_printed_numbers(name, status, fill):
    assert judged(BY_NAME[name], fill).status == status


def test_every_epsilon_at_which_something_earlier_is_printed_is_judged(fill):
    """ε = ∞ is none, and at ε = .1 and less nothing but the network of TensorFlow Privacy is."""
    evidence = judged(BY_NAME[V1], fill).parts
    assert [part.split(":")[0] for part in evidence] == [f"ε = {e:g}" for e in (7, 3, 1, 0.5, 0.1, 0.05, 0.025)]
    assert "SI-DPSGD (BN-LeNet-5) 99.15 ± 0.00 (2), of earlier work at most 97.10 is printed: +2.05" in evidence[2]
    assert "at most 84.10 is printed: +15.04" in evidence[4]


def test_v2_s_records_are_under_dpsgd_which_latent_is_not(fill):
    assert "at most 95.00 is printed" in judged(BY_NAME[V2], fill).parts[2]


@pytest.mark.parametrize(
    ("proven", "audited", "status", "how"),
    [
        (0.025, None, "holds", "ε ≤ 0.025 is proven"),
        (0.025, 0.02, "holds", "ε ≤ 0.025 is proven"),
        (0.026, 0.02, "open", "no such ε is proven"),
        (None, 0.02, "open", "no such ε is proven"),
        (None, 0.03, "fails", "an attack shows ε ≥ 0.03"),
    ],
)
def test_an_accuracy_is_a_record_at_an_epsilon_that_training_keeps_to(proven, audited, status, how, fill, account):
    store = fill(MNIST, as_printed(MNIST), tier="paper", seeds=2)
    account(proven, audited)
    verdict = BY_NAME[V1].judge("paper", store)
    assert verdict.status == status
    assert verdict.parts[-1].endswith(how)


@pytest.mark.parametrize(("tier", "status"), [("paper", "fails"), ("cpu", "open")])
def test_what_is_below_is_none_at_the_papers_scale(tier, status, fill, account):
    store = fill(MNIST, lambda row, column, seed: [96.0], tier=tier, seeds=2)
    account(0.025)
    verdict = BY_NAME[V1].judge(tier, store)
    assert verdict.status == status
    assert "at most 97.16 is printed: -1.16" in verdict.parts[0]


def test_below_is_not_told_while_another_row_is_missing_which_may_be_above(fill):
    def curve(row, column, seed):
        return None if row == "SI-DPSGD (BN-LeNet-5)" else [20.0]

    verdict = judged(BY_NAME[V1], fill, curve=curve)
    assert verdict.status == "open"
    assert "1 of 3 rows not stored yet" in verdict.evidence


@pytest.mark.parametrize("gap", [0.6, -0.9])
def test_the_best_of_three_rows_is_above_by_chance_and_one_of_seven_epsilons_below(gap, fill):
    """By .6 and .9 ± .1 (3): t = 6 where three comparisons ask for 7.6, and 9 where seven ask for 11.8."""

    def curve(row, column, seed):
        return [97.16 + gap + (seed - 1) * 0.1 * 3**0.5] if row == "SI-DPSGD (BN-LeNet-5)" else [50.0]

    store = fill(MNIST, curve, tier="paper", seeds=3)
    told = BY_NAME[V1].judge("paper", store).parts[0]
    assert f"{97.16 + gap:.2f} ± 0.10 (3), of earlier work at most 97.16 is printed" in told
    assert told.endswith(f"{gap:+.2f} (not told apart)")


def test_beside_v2_s_are_the_earlier_networks_as_trained_here_and_what_others_print(fill):
    store = fill(MNIST, lambda row, column, seed: [90.0 if "[1]" in row else 96.0], seeds=2)
    evidence = BY_NAME[V2].judge("cpu", store).evidence
    assert "beside: ε = 3: DPSGD (LN-LeNet-5) 96.00 ± 0.00 (2), DPSGD [1] 90.00 ± 0.00 (2): +6.00" in evidence
    assert "beside: elsewhere, TensorFlow Privacy" in evidence
