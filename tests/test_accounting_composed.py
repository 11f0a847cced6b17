"""Several events, one after the other on the same data."""

import math

import pytest

from lib import accounting

FULL = (2.0, 3.0, 5.0)  # noise multipliers of queries on all examples: √Σ 1/z²-GDP, exactly


@pytest.mark.parametrize(("accountant", "slack"), [("gdp", 1e-9), ("pld", 1e-3), ("rdp", 0.2)])
def test_full_batches_are_gaussian(accountant, slack):
    events = [accounting.Event(z, 1.0, 1) for z in FULL]
    mu = math.sqrt(sum(1 / z**2 for z in FULL))
    exact = accounting.analytic_gaussian(noise_multiplier=1 / mu, delta=1e-5)
    found = accounting.composed_epsilon(events, accountant=accountant)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + slack)


@pytest.mark.parametrize("accountant", ["pld", "rdp", "rdp_2020", "moments", "strong_composition"])
def test_one_event_in_two_parts_is_the_event(accountant):
    whole = accounting.epsilon(noise_multiplier=1.5, sampling_prob=0.02, steps=300, accountant=accountant)
    parts = [accounting.Event(1.5, 0.02, steps) for steps in (100, 0, 200)]
    assert accounting.composed_epsilon(parts, accountant=accountant) == pytest.approx(whole, rel=1e-6)


def test_one_query_with_large_losses_does_not_coarsen_many_with_small_ones():
    """Private PCA before training with much noise: so many steps are Gaussian, and µ² adds up."""
    query, training = accounting.Event(300.0, 1.0, 1), accounting.Event(30.0, 1e-4, 100_000)
    mu = math.hypot(1 / 300, 1e-4 * math.sqrt(100_000 * math.expm1(1 / 30**2)))
    for events in ((query, training), (training, query)):
        found = accounting.composed_epsilon(events)
        assert accounting.gdp_epsilon(mu, 1e-5) < found < 1.001 * accounting.gdp_epsilon(mu, 1e-5)
        assert found < accounting.composed_epsilon(events, accountant="rdp")


def test_the_central_limit_adds_squares():
    kind = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
    whole = accounting.epsilon(noise_multiplier=3.0, sampling_prob=0.02, steps=300, accountant="clt", **kind)
    parts = [accounting.Event(3.0, 0.02, steps, *kind.values()) for steps in (100, 200)]
    assert accounting.composed_epsilon(parts, accountant="clt") == pytest.approx(whole, rel=1e-9)


def test_more_costs_more_and_nothing_costs_nothing():
    one, two = accounting.Event(1.5, 0.02, 300), accounting.Event(4.0, 1.0, 1)
    assert accounting.composed_epsilon([one, two]) > accounting.composed_epsilon([one])
    assert accounting.composed_epsilon([]) == accounting.composed_epsilon([accounting.Event(1.5, 0.02, 0)]) == 0.0
    assert accounting.composed_epsilon([one, accounting.Event(0.0, 0.1, 1)]) == math.inf


def test_an_event_that_the_accountant_does_not_cover_is_refused():
    events = [accounting.Event(1.5, 0.02, 300), accounting.Event(1.5, 0.02, 300, "shuffled")]
    with pytest.raises(ValueError, match="expected one of gdp for sampler 'shuffled'"):
        accounting.composed_epsilon(events)
    with pytest.raises(ValueError, match=r"accountant: expected one of clt, .*; got 'prv'"):
        accounting.composed_epsilon([], accountant="prv")


@pytest.mark.parametrize("accountant", ["pld", "rdp", "gdp"])
def test_events_of_two_neighbouring_relations_are_refused(accountant):
    """Their ε would hold under neither: a PCA counted for one example more, in front of training for one replaced."""
    events = [accounting.Event(1.0, 1.0, 1), accounting.Event(2.0, 1.0, 5, neighbouring_relation="replace_one")]
    with pytest.raises(ValueError, match="expected one for all events; got add_or_remove_one and replace_one"):
        accounting.composed_epsilon(events, accountant=accountant)


def test_noise_and_steps_keep_to_the_budget():
    def falling(z: float) -> list[accounting.Event]:
        return [accounting.Event(z * 0.9**epoch, 0.02, 50) for epoch in range(4)]

    z = accounting.smallest_noise(falling, epsilon=1.0, accountant="rdp")
    assert accounting.composed_epsilon(falling(z), accountant="rdp") <= 1.0
    assert accounting.composed_epsilon(falling(0.999 * z), accountant="rdp") > 1.0

    def after_pca(steps: int) -> list[accounting.Event]:
        return [accounting.Event(8.0, 1.0, 1), accounting.Event(1.5, 0.02, steps)]

    steps = accounting.most_steps(after_pca, epsilon=1.5, accountant="rdp")
    spent = [accounting.composed_epsilon(after_pca(count), accountant="rdp") for count in (steps, steps + 1)]
    assert spent[0] <= 1.5 < spent[1]


def test_no_step_is_left_where_what_comes_first_spends_all():
    """By the limit, where the search begins, there is room."""

    def after_pca(steps: int) -> list[accounting.Event]:
        return [accounting.Event(4.0, 1.0, 1), accounting.Event(8.0, 0.02, steps)]

    alone = {name: accounting.composed_epsilon(after_pca(0), accountant=name) for name in ("gdp", "rdp")}
    assert alone["gdp"] < 0.97 < alone["rdp"]
    assert accounting.most_steps(after_pca, epsilon=0.97, accountant="rdp") == 0
