"""The claims about D_pub alone: each can hold, can fail, and is open while results are missing."""

import pytest

from lib import claims, tables
from lib.claims import public_alone
from lib.claims.public_alone import EQUAL, RIVALS
from lib.tables.bc_public_alone import ALONE, PLAIN, TABLE

AT_EQUAL_EPSILON, PRINTED = public_alone.CLAIMS


def accuracy_of(mean):
    return lambda row, column, seed: None if mean is None else [mean + 0.1 * seed]


@pytest.mark.parametrize(
    ("private", "alone", "status"),
    [(None, 90.0, "open"), (80.0, None, "open"), (95.0, 90.0, "holds"), (80.0, 90.0, "fails"), (90.0, 90.0, "open")],
)
def test_batch_clipping_is_compared_with_its_network_on_the_public_images(private, alone, status, fill):
    fill(tables.load(EQUAL), accuracy_of(private), seeds=3)
    verdict = AT_EQUAL_EPSILON.judge("cpu", fill(TABLE, accuracy_of(alone), seeds=3))
    assert verdict.status == status
    if status in ("holds", "fails"):
        assert all(f"{row} {private + 0.1:.2f}" in verdict.evidence for row in RIVALS)
        assert all(f"{ALONE.format(network)} {alone + 0.1:.2f}" in verdict.evidence for network in RIVALS.values())
        assert "beside: ε = 2: IC without BN" in verdict.evidence


@pytest.mark.parametrize(
    ("alone", "tier", "status"),
    [
        (None, "paper", "open"),
        (30.0, "paper", "holds"),
        (30.0, "cpu", "open"),  # more epochs may reach what is printed
        (50.0, "paper", "fails"),
        (50.0, "cpu", "fails"),
        (40.5, "paper", "open"),  # of 40.58, not told apart
    ],
)
def test_what_bc_prints_is_compared_with_its_network_on_the_public_images(alone, tier, status, fill):
    verdict = PRINTED.judge(tier, fill(TABLE, accuracy_of(alone), tier=tier, seeds=3))
    assert verdict.status == status
    assert ("BN-LeNet-5, m = 64, σ = .5 at C = 0.2: printed 84.80" in verdict.evidence) == (alone is not None)


def test_both_are_among_all_claims():
    assert set(public_alone.CLAIMS) <= set(claims.every())


def test_one_of_four_comparisons_is_lost_by_chance(fill):
    """By one run each 6 points are told of one comparison, and not of one of four."""
    fill(tables.load(EQUAL), accuracy_of(80.0))
    assert AT_EQUAL_EPSILON.judge("cpu", fill(TABLE, accuracy_of(86.0))).status == "open"


def test_one_of_four_printed_numbers_is_exceeded_by_chance(fill):
    """By one run 4.5 points more than 40.58 are told of one number, and not of one of four."""
    assert PRINTED.judge("paper", fill(TABLE, accuracy_of(40.58 + 4.5), tier="paper")).status == "open"


def test_each_row_is_compared_with_its_own_network(fill):
    fill(tables.load(EQUAL), accuracy_of(80.0), seeds=3)
    alone = fill(TABLE, lambda row, column, seed: [98.0 if row == ALONE.format(PLAIN) else 60.0], seeds=3)
    verdict = AT_EQUAL_EPSILON.judge("cpu", alone)
    assert [text.partition(": ")[2].partition(" 8")[0] for text in verdict.decisive] == [
        "BC without BN, batches of 64"
    ] * 2
