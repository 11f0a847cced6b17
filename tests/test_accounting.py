"""The contract that every accountant keeps for every sampler it covers, and what the interface refuses."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lib import accounting
from lib.accounting import rdp

Q = 0.02
COVERED = [  # every (accountant, sampler, neighbouring relation) that may be written
    (accountant, sampler, relation)
    for sampler, relation in itertools.product(accounting.SAMPLERS, accounting.NEIGHBOURING_RELATIONS)
    for accountant in accounting.accountants(sampler=sampler, neighbouring_relation=relation)
]
covered = pytest.mark.parametrize(("accountant", "sampler", "relation"), COVERED)


def how(accountant, sampler, relation):
    """The three names, and a q: 1 for the one accountant that amplifies nothing under Poisson sampling."""
    q = 1.0 if (accountant, sampler) == ("gdp", "poisson") else Q
    return {"sampling_prob": q, "accountant": accountant, "sampler": sampler, "neighbouring_relation": relation}


@covered
def test_nothing_done_costs_nothing(accountant, sampler, relation):
    kind = how(accountant, sampler, relation)
    assert accounting.epsilon(noise_multiplier=1.0, steps=0, **kind) == 0.0
    assert accounting.epsilon(noise_multiplier=0.0, steps=0, **kind) == 0.0
    assert accounting.noise_multiplier(epsilon=1.0, steps=0, **kind) == 0.0


@covered
def test_no_noise_is_no_privacy(accountant, sampler, relation):
    kind = how(accountant, sampler, relation)
    assert accounting.epsilon(noise_multiplier=0.0, steps=1, **kind) == math.inf
    assert accounting.steps(epsilon=1.0, noise_multiplier=0.0, **kind) == 0
    if accountant != "strong_composition":
        assert accounting.delta(epsilon=1.0, noise_multiplier=0.0, steps=1, **kind) == 1.0


@covered
def test_monotone(accountant, sampler, relation):
    kind = how(accountant, sampler, relation)
    by_noise = [accounting.epsilon(noise_multiplier=z, steps=60, **kind) for z in (2.0, 4.0, 8.0, 16.0)]
    assert by_noise == sorted(by_noise, reverse=True)
    assert len(set(by_noise)) == 4
    by_steps = [accounting.epsilon(noise_multiplier=4.0, steps=steps, **kind) for steps in (60, 240, 960)]
    assert by_steps == sorted(by_steps)
    assert len(set(by_steps)) == 3
    by_delta = [accounting.epsilon(noise_multiplier=4.0, steps=240, delta=d, **kind) for d in (1e-8, 1e-5, 1e-3)]
    assert by_delta == sorted(by_delta, reverse=True)
    assert len(set(by_delta)) == 3


@covered
def test_epsilon_and_delta_are_inverse(accountant, sampler, relation):
    run = {"noise_multiplier": 4.0, "steps": 240} | how(accountant, sampler, relation)
    if accountant == "strong_composition":
        with pytest.raises(ValueError, match="accountant: expected one of clt, gdp, moments, pld, rdp, rdp_2020 to"):
            accounting.delta(epsilon=1.0, **run)
        return
    epsilon = accounting.epsilon(delta=1e-5, **run)
    assert accounting.delta(epsilon=epsilon, **run) == pytest.approx(1e-5, rel=1e-3)
    assert accounting.delta(epsilon=2 * epsilon, **run) < 1e-5


@covered
def test_calibrate_then_count_is_the_identity(accountant, sampler, relation):
    kind = {"steps": 60} | how(accountant, sampler, relation)
    z = accounting.noise_multiplier(epsilon=1.0, **kind)
    assert 0.998 <= accounting.epsilon(noise_multiplier=z, **kind) <= 1.0
    assert accounting.epsilon(noise_multiplier=z / 1.001, **kind) > 1.0


@covered
@pytest.mark.parametrize("z", [8.0, 16.0, 64.0, 256.0])  # where the search has tried it as the end of a bracket
def test_count_then_calibrate_is_the_identity(accountant, sampler, relation, z):
    kind = {"steps": 60} | how(accountant, sampler, relation)
    epsilon = accounting.epsilon(noise_multiplier=z, **kind)
    if not epsilon:  # δ alone covers every example
        return
    found = accounting.noise_multiplier(epsilon=epsilon, **kind)
    assert found == pytest.approx(z, rel=2e-4)
    assert accounting.epsilon(noise_multiplier=found, **kind) <= epsilon


@covered
def test_as_many_steps_as_the_budget_allows(accountant, sampler, relation):
    kind = {"noise_multiplier": 8.0} | how(accountant, sampler, relation)
    steps = accounting.steps(epsilon=1.5, **kind)
    assert steps > 0
    assert accounting.epsilon(steps=steps, **kind) <= 1.5 < accounting.epsilon(steps=steps + 1, **kind)


@pytest.mark.parametrize("begin", [1.0, 64.0])
@pytest.mark.parametrize("accountant", ["pld", "rdp", "rdp_2020"])
def test_where_a_search_begins_does_not_change_what_it_finds(accountant, begin, monkeypatch):
    asked = [
        lambda: accounting.noise_multiplier(epsilon=0.5, sampling_prob=Q, steps=300, accountant=accountant),
        lambda: accounting.steps(epsilon=0.5, noise_multiplier=3.0, sampling_prob=Q, accountant=accountant),
    ]
    found = [ask() for ask in asked]
    monkeypatch.setattr(accounting, "_limit", lambda *_: begin)
    assert [ask() for ask in asked] == found


@pytest.mark.parametrize("sampler", ["poisson", "without_replacement"])
@pytest.mark.parametrize(("epsilon", "steps"), [(0.1, 100), (1.0, 1000), (8.0, 1000)])
def test_a_search_begins_near_what_it_finds(sampler, epsilon, steps):
    """An account of PLD takes a quarter of a second: it should not be asked of many z."""
    relation = "add_or_remove_one" if sampler == "poisson" else "replace_one"
    events = lambda z: [accounting.Event(z, Q, steps, sampler, relation)]  # noqa: E731
    begun = accounting._limit(accounting._calibration.smallest_noise, events, epsilon, 1e-5)
    assert 0.5 < begun / accounting.smallest_noise(events, epsilon=epsilon) < 2.0


@pytest.mark.parametrize("accountant", ["rdp", "rdp_2020", "moments"])
def test_upper_bounds_lie_above_the_tight_one(accountant):
    assert accounting.is_upper_bound(accountant=accountant)
    for z, steps in itertools.product((0.8, 2.0), (1, 500)):
        run = {"noise_multiplier": z, "sampling_prob": Q, "steps": steps}
        assert accounting.epsilon(**run, accountant=accountant) >= accounting.epsilon(**run)


def test_every_mismatch_is_refused():
    names = accounting.accountants()
    pairs = itertools.product(accounting.SAMPLERS, accounting.NEIGHBOURING_RELATIONS)
    for accountant, (sampler, relation) in itertools.product(names, pairs):
        if (accountant, sampler, relation) not in COVERED:
            kind = how(accountant, sampler, relation)
            for steps in (0, 1):
                with pytest.raises(ValueError, match=r"^accountant: expected .*; got"):
                    accounting.epsilon(noise_multiplier=1.0, steps=steps, **kind)


def test_a_refusal_names_what_would_do():
    run = {"noise_multiplier": 1.0, "sampling_prob": Q, "steps": 1}
    with pytest.raises(ValueError, match=r"one of gdp for sampler 'shuffled' .*; got 'pld', which covers poisson and"):
        accounting.epsilon(**run, sampler="shuffled")
    with pytest.raises(ValueError, match=r"expected one of clt, pld, rdp for sampler 'without_replacement' under"):
        accounting.epsilon(
            **run, sampler="without_replacement", neighbouring_relation="replace_one", accountant="moments"
        )
    with pytest.raises(ValueError, match=r"expected none, as no accountant here covers it, for sampler 'with_repl"):
        accounting.epsilon(**run, sampler="with_replacement", neighbouring_relation="replace_one")
    with pytest.raises(ValueError, match=r"sampling_prob: expected 1 for accountant 'gdp' and sampler 'poisson'"):
        accounting.epsilon(**run, accountant="gdp")
    with pytest.raises(ValueError, match=r"sampling_prob: expected less than 1 for sampler 'with_replacement'; got 1"):
        accounting.epsilon(**run | {"sampling_prob": 1}, sampler="with_replacement")


def test_events_that_share_a_shuffled_epoch_each_count_it():
    """In steps 50 to 149, of epochs of 100, an example can be twice."""
    quiet, loud = ({"sampling_prob": 0.01, "sampler": "shuffled", "noise_multiplier": z} for z in (100.0, 1.0))
    events = [accounting.Event(**quiet, steps=50), accounting.Event(**loud, steps=100)]
    counted = accounting.composed_epsilon(events, accountant="gdp")
    twice = accounting.analytic_gaussian(noise_multiplier=1 / math.sqrt(2 + 1e-4), delta=1e-5)
    assert counted == pytest.approx(twice)
    alone = [accounting.Event(**loud, steps=100), accounting.Event(**quiet, steps=50)]
    assert accounting.composed_epsilon(alone, accountant="gdp") < counted
    fixed = [replace(event, sampler="fixed_order") for event in events]  # whose epochs have no end to be at
    assert accounting.composed_epsilon(fixed, accountant="gdp") < counted


def test_the_moments_of_all_examples_are_those_that_sampling_tends_to():
    """λ(λ + 1)/2z² in closed form at q = 1, integrated just below."""
    run = {"noise_multiplier": 2.0, "steps": 3, "delta": 1e-5, "accountant": "moments"}
    closed = min((3 * k * (k + 1) / 8 + math.log(1e5)) / k for k in range(1, 33))
    assert accounting.epsilon(sampling_prob=1.0, **run) == pytest.approx(closed)
    assert accounting.epsilon(sampling_prob=1 - 1e-9, **run) == pytest.approx(closed, rel=1e-6)


def test_an_epoch_that_several_events_share_goes_on_where_the_last_left_it():
    """Of epochs of four: steps 0 to 2, 3 to 5, in two of them, and 6 and 7, in the second alone."""
    events = [accounting.Event(2.0, 0.25, steps, "shuffled") for steps in (3, 3, 2)]
    expected = accounting.analytic_gaussian(noise_multiplier=2 / math.sqrt(1 + 2 + 1), delta=1e-5)
    assert accounting.composed_epsilon(events, accountant="gdp") == pytest.approx(expected)


def test_in_shuffled_epochs_a_replaced_example_costs_twice_one_that_is_left_out():
    kind = {"sampling_prob": 0.01, "steps": 1000, "sampler": "shuffled", "accountant": "gdp"}
    replaced = accounting.epsilon(noise_multiplier=4.0, neighbouring_relation="replace_one", **kind)
    assert replaced == accounting.epsilon(noise_multiplier=2.0, neighbouring_relation="add_or_remove_one", **kind)


def test_batches_that_fill_an_epoch_are_its_steps_although_their_share_is_rounded():
    assert accounting.Event(1.0, 7 / 651, 10, "shuffled").steps_per_epoch == 93  # 651 / 7, and 1 / (7 / 651) is less


def test_shuffled_epochs_count_participations():
    kind = {"sampling_prob": 300 / 1000, "sampler": "shuffled", "accountant": "gdp"}  # three batches and a rest
    for steps, participations in ((1, 1), (3, 1), (4, 2), (6, 2), (7, 3)):
        expected = accounting.analytic_gaussian(noise_multiplier=5 / math.sqrt(participations), delta=1e-5)
        assert accounting.epsilon(noise_multiplier=5, steps=steps, **kind) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": -1}, "noise_multiplier: expected a finite number of at least 0; got -1"),
        ({"noise_multiplier": math.inf}, "noise_multiplier: expected a finite number of at least 0; got inf"),
        ({"noise_multiplier": "1"}, "noise_multiplier: expected a finite number of at least 0; got '1'"),
        ({"sampling_prob": 0}, r"sampling_prob: expected a number in \(0, 1\]; got 0"),
        ({"sampling_prob": 1.1}, r"sampling_prob: expected a number in \(0, 1\]; got 1.1"),
        ({"sampling_prob": math.nan}, r"sampling_prob: expected a number in \(0, 1\]; got nan"),
        ({"steps": -1}, "steps: expected a whole number of at least 0; got -1"),
        ({"steps": 1.5}, "steps: expected a whole number of at least 0; got 1.5"),
        ({"steps": True}, "steps: expected a whole number of at least 0; got True"),
        ({"delta": 0}, r"delta: expected a number in \(0, 1\); got 0"),
        ({"delta": 1.0}, r"delta: expected a number in \(0, 1\); got 1.0"),
        (
            {"sampler": "uniform"},
            "sampler: expected one of poisson, without_.*, with_.*, shuffled, fixed_order; got 'uniform'",
        ),
        ({"neighbouring_relation": "any"}, "neighbouring_relation: expected one of add_.*, replace_one; got 'any'"),
        ({"accountant": "prv"}, "accountant: expected one of clt, gdp, moments, pld, rdp, .*; got 'prv'"),
        (
            {"noise_multiplier": 1e-5},
            "noise_multiplier: expected what accountant 'pld' can count; got 1e-05 to 1e-05: math range error",
        ),
    ],
)
def test_bad_values_are_refused(changes, message):
    run = {"noise_multiplier": 1.0, "sampling_prob": Q, "steps": 1} | changes
    with pytest.raises(ValueError, match=f"^{message}$"):
        accounting.epsilon(**run)


def test_noise_too_small_to_find_delta_is_refused_by_name():
    with pytest.raises(ValueError, match="noise_multiplier: expected what accountant 'pld' can count; got"):
        accounting.delta(epsilon=1.0, noise_multiplier=1e-5, sampling_prob=Q, steps=1)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan])
def test_bad_budgets_are_refused(epsilon):
    for ask in (
        lambda: accounting.noise_multiplier(epsilon=epsilon, sampling_prob=Q, steps=1),
        lambda: accounting.steps(epsilon=epsilon, sampling_prob=Q, noise_multiplier=1.0),
        lambda: accounting.delta(epsilon=epsilon, sampling_prob=Q, noise_multiplier=1.0, steps=1),
        lambda: accounting.si_dpsgd_delta(epsilon=epsilon, sampling_prob=Q, noise_multiplier=1.0, steps=1),
    ):
        with pytest.raises(ValueError, match=r"^epsilon: expected a finite number of more than 0; got"):
            ask()


def test_a_budget_out_of_reach_is_named():
    run = {"sampling_prob": Q, "steps": 10}
    with pytest.raises(ValueError, match=r"^epsilon: expected at least 0.36, what 'moments' gives at .*; got 0.05$"):
        accounting.noise_multiplier(epsilon=0.05, accountant="moments", **run)
    with pytest.raises(
        ValueError, match=r"^epsilon: expected less than .*, what 'rdp' gives at .*; got 1000000000000.0$"
    ):
        accounting.noise_multiplier(epsilon=1e12, accountant="rdp", **run)
    with pytest.raises(ValueError, match=r"^epsilon: expected less than .*, which 10,000,000 steps spend; got 9.0$"):
        accounting.steps(epsilon=9.0, noise_multiplier=1e4, sampling_prob=Q, accountant="rdp")
    with pytest.raises(
        ValueError, match=r"^delta: expected less, as it alone covers every example: ε is 0, what 'pld'"
    ):
        accounting.noise_multiplier(epsilon=1.0, sampling_prob=1e-7, steps=10, delta=1e-5, accountant="pld")
    with pytest.raises(
        ValueError, match=r"^delta: expected less, as it alone covers every example: ε is 0, what 'pld'"
    ):
        accounting.smallest_noise(lambda z: [], epsilon=1.0)


def test_noise_ends_where_its_range_does():
    """Wherever the search begins."""
    highest = accounting._calibration.NOISE_RANGE[1]
    with pytest.raises(ValueError, match=r"^epsilon: expected at least 1\.02, what 'the limit' gives at noise"):
        accounting._calibration.smallest_noise(lambda z: 1.02 * highest / z, 1.0, about=2.0**20)
    found = accounting._calibration.smallest_noise(lambda z: 0.99 * highest / z, 1.0, about=2.0**20)
    assert 0.99 * highest <= found <= highest


def test_whole_numbers_of_either_type_are_one_event():
    assert accounting.Event(4, 1, 18_750.0) == accounting.Event(4.0, 1.0, 18_750)


@covered
@pytest.mark.parametrize("z", [1e-100, 1e-153, 1e-200])
def test_almost_no_noise_is_almost_no_privacy(accountant, sampler, relation, z):
    """dp-accounting's divergences are no numbers where z² is at the end of floats, and the least of them was ε = 0."""
    assert accounting.epsilon(noise_multiplier=z, steps=3, **how(accountant, sampler, relation)) == math.inf


def test_an_accounts_nan_keeps_to_no_budget(monkeypatch):
    """It is not larger than any."""
    of_no_number = SimpleNamespace(epsilon=lambda events, delta: math.nan, delta=lambda events, epsilon: math.nan)
    monkeypatch.setattr(accounting._registry, "load", lambda name: of_no_number)
    done = {"noise_multiplier": 0.987654, "sampling_prob": Q, "steps": 1}  # nobody has asked for, and is remembered
    for ask in (accounting.epsilon, lambda **done: accounting.delta(epsilon=1.0, **done)):
        with pytest.raises(ValueError, match=r"can count; got 0.987654 to 0.987654: what it finds is not a number$"):
            ask(**done)


def test_more_than_floats_hold_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^noise_multiplier: expected a finite number of at least 0; got 1000"):
        accounting.epsilon(noise_multiplier=10**400, sampling_prob=Q, steps=1)
    assert accounting.steps(epsilon=1.0, noise_multiplier=1e-200, sampling_prob=Q) == 0


def test_rdp_counts_steps_that_are_next_to_nothing():
    """Their divergences are less than the rounding of 1."""
    for z, q, steps in ((100.0, 1e-6, 1), (10.0, 1e-7, 1), (1.0, 1e-12, 10**6)):
        how = {"noise_multiplier": z, "sampling_prob": q, "steps": steps}
        assert 0.0 <= accounting.delta(epsilon=1.0, accountant="rdp", **how) < 1e-5
        assert 0.0 <= accounting.epsilon(accountant="rdp", **how) < 1.0


@pytest.mark.parametrize("z", [0.5, 4.0, 100.0])
def test_rdp_of_full_batches_is_that_of_gaussian_noise_for_a_replaced_example(z):
    """Which moves the sum by 2C, so that the divergence is four times that of one left out; no ε is below the exact."""
    how = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
    orders, divergences = rdp.one_step(z, 1.0, "without_replacement", None)
    assert divergences == pytest.approx(4 * orders / (2 * z**2))
    found = accounting.epsilon(noise_multiplier=z, sampling_prob=1.0, steps=1, accountant="rdp", **how)
    assert found >= accounting.analytic_gaussian(noise_multiplier=z, delta=1e-5, neighbouring_relation="replace_one")


def test_rdp_without_replacement_falls_with_the_noise_to_the_end():
    how = {"sampling_prob": 0.6, "steps": 1, "sampler": "without_replacement", "neighbouring_relation": "replace_one"}
    spent = [accounting.epsilon(noise_multiplier=z, accountant="rdp", **how) for z in (30.0, 256.0, 1e3, 3e3, 3e4, 3e8)]
    assert spent == sorted(spent, reverse=True)
    assert spent[-1] < 0.01


def test_without_steps_an_account_that_does_not_fit_is_refused_all_the_same():
    how = {"sampling_prob": 0.01, "steps": 0}
    assert accounting.noise_multiplier(epsilon=1.0, **how) == 0.0
    for wrong, words in (
        ({"epsilon": -1.0}, "epsilon: expected"),
        ({"delta": 7.0}, "delta: expected"),
        ({"accountant": "nonsense"}, "accountant: expected"),
        ({"sampler": "shuffled"}, "accountant: expected one of gdp for sampler 'shuffled'"),
    ):
        with pytest.raises(ValueError, match=words):
            accounting.noise_multiplier(**{"epsilon": 1.0} | how | wrong)
