"""What every private method says of its privacy, beside the accountants asked for the same by hand.

A method hands its run's δ, relation, sampler and course of noise to the accountant; one of them lost on the way would
leave every ε plausible.
"""

import math

import pytest
from conftest import make_run

from lib import accounting, methods, models
from lib.accounting import Event

N, L, EPOCHS = 1437, 100, 3
Q, PERIOD = L / N, N // L
STEPS = EPOCHS * PERIOD
SETTINGS = {"lr": 1.0, "epochs": EPOCHS, "batch_size": L, "optimizer": "sgd", "clip_norm": 0.5, "noise_multiplier": 3.0}
METHODS = {
    "dpsgd": {},
    "batch_clipping": {"mini_set_size": 1},
    "adaptive_layerwise": {"mini_set_size": 1, "layers": "modules", "gradient_norm_examples": 9, "public_examples": 9},
    "si_dpsgd": {},
}
LAYERS = {"adaptive_layerwise": 3}  # modules of LeNet-300-100, each clipped by itself
CHANGES = {
    "as it is": {},
    "δ": {"delta": 1e-7},
    "replace one": {"neighbouring_relation": "replace_one"},
    "replace one, of a fixed size": {"neighbouring_relation": "replace_one", "sampler": "without_replacement"},
    "falling noise": {"noise_multiplier_decay": 0.8},
    "another batch size": {"batch_size": 50},
}


def privacy(method: str, **changes) -> dict:
    run = make_run(**({"method": method, "sampler": "poisson", **SETTINGS, **METHODS.get(method, {})} | changes))
    return methods.build(run, N, models.build(run.model)).privacy()


def by_hand(method: str, *, batch_size: int = L, noise_multiplier_decay: float = 1.0, **how) -> list[Event]:
    """An event per epoch, of the noise that it has per layer."""
    period, z = N // batch_size, 3.0 / math.sqrt(LAYERS.get(method, 1))
    relation, sampler = how.get("neighbouring_relation", "add_or_remove_one"), how.get("sampler", "poisson")
    noise = [z * noise_multiplier_decay**epoch for epoch in range(EPOCHS)]
    return [Event(of_epoch, batch_size / N, period, sampler, relation) for of_epoch in noise]


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("method", METHODS)
def test_the_claimed_epsilon_is_that_of_the_same_events_composed_by_hand(method, changes):
    block, delta = privacy(method, **changes), changes.get("delta", 1e-5)
    expected = accounting.composed_epsilon(by_hand(method, **changes), delta=delta)
    assert block["claimed"] == {"pld": pytest.approx(expected, rel=1e-6)}
    assert block["delta"] == delta
    if method != "si_dpsgd":
        assert block["proven"]["epsilon"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_what_is_proven_of_si_dpsgd_is_of_its_own_transcript(changes):
    period = N // changes.get("batch_size", L)
    decay = changes.get("noise_multiplier_decay", 1.0)
    # One participation moves every θ_t that follows by the same C, against noise that falls from epoch to epoch.
    moved = math.sqrt(sum(1 / decay ** (2 * (step // period)) for step in range(EPOCHS * period))) / 3.0
    expected = accounting.si_dpsgd_proven_epsilon(
        moved=moved,
        sampling_prob=changes.get("batch_size", L) / N,
        steps=EPOCHS * period,
        delta=changes.get("delta", 1e-5),
        sampler=changes.get("sampler", "poisson"),
        neighbouring_relation=changes.get("neighbouring_relation", "add_or_remove_one"),
    )
    assert privacy("si_dpsgd", **changes)["proven"]["epsilon"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sampler", "relation"),
    [("poisson", "add_or_remove_one"), ("poisson", "replace_one"), ("without_replacement", "replace_one")],
)
def test_a_private_pca_is_one_gaussian_query_on_all_examples_under_the_runs_relation(sampler, relation):
    changes = {"pca_noise_multiplier": 4.0, "noise_multiplier": 1e5}  # beside so much noise training costs nothing
    block = privacy("dpsgd", sampler=sampler, neighbouring_relation=relation, **changes)
    exact = accounting.analytic_gaussian(noise_multiplier=4.0, delta=1e-5, neighbouring_relation=relation)
    assert block["claimed"]["pld"] == pytest.approx(exact, rel=1e-3)


def test_of_si_dpsgd_a_falling_clip_norm_takes_the_noise_along():
    """What an early participation moved by the first C then stands against the noise of a smaller one."""
    moved = math.sqrt(sum(1 / 0.5 ** (2 * (step // PERIOD)) for step in range(STEPS))) / 3.0
    expected = accounting.si_dpsgd_proven_epsilon(moved=moved, sampling_prob=Q, steps=STEPS)
    assert privacy("si_dpsgd", clip_norm_decay=0.5)["proven"]["epsilon"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sampler", "accountant"), [("shuffled", "gdp"), ("fixed_order", "gdp"), ("with_replacement", "pld")]
)
def test_what_is_proven_of_si_dpsgd_is_of_its_sampler(sampler, accountant):
    """Of which depends how often an example takes part."""
    how = {"moved": math.sqrt(STEPS) / 3.0, "sampling_prob": Q, "steps": STEPS}
    proven = privacy("si_dpsgd", sampler=sampler, accountant=accountant)["proven"]["epsilon"]
    assert proven == pytest.approx(accounting.si_dpsgd_proven_epsilon(**how, sampler=sampler))
    assert proven != pytest.approx(accounting.si_dpsgd_proven_epsilon(**how))


def test_of_si_dpsgd_a_rising_clip_norm_is_that_of_the_participation_itself():
    """The latest one moves the weights the farthest, by as much beside its own noise as in every step."""
    expected = accounting.si_dpsgd_proven_epsilon(moved=math.sqrt(STEPS) / 3.0, sampling_prob=Q, steps=STEPS)
    assert privacy("si_dpsgd", clip_norm_decay=2.0)["proven"]["epsilon"] == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
def test_every_change_is_counted(method):
    """Were one dropped, two of these would be the same number."""
    found = [privacy(method, **changes)["claimed"]["pld"] for changes in CHANGES.values()]
    assert len({round(epsilon, 9) for epsilon in found}) == len(found)


WHOLE = {"mini_set_size": L, "sampler": "without_replacement"}
WITH = {"sampler": "with_replacement"}
CORRELATED = {"noise_power": 0.0, "sampler": "fixed_order", "accountant": "gdp"}


@pytest.mark.parametrize(
    ("method", "changes", "added", "replaced"),
    [
        ("dpsgd", {}, "C,", "2C,"),
        ("dpsgd", WITH, "2C,", None),  # drawn in another's place
        ("batch_clipping", {}, "C,", "2C,"),
        ("batch_clipping", {"mini_set_size": L}, "2C,", None),  # the clipped mean turns around
        ("batch_clipping", WHOLE, None, "2C,"),
        ("adaptive_layerwise", {}, "C in each of 3 layers,", "2C in each of 3 layers,"),
        ("adaptive_layerwise", {"mini_set_size": L}, "2C in each of 3 layers,", None),
        ("adaptive_layerwise", {"adaptive_clipping": "multiplication_factors"}, "C,", "2C,"),
        ("correlated_noise", CORRELATED, "1.732 C of S = A^0,", "3.464 C of S = A^0,"),  # once in each of 3 epochs
    ],
)
def test_the_sensitivity_in_words_is_that_of_the_relation(method, changes, added, replaced):
    for relation, expected in (("add_or_remove_one", added), ("replace_one", replaced)):
        if expected:
            why = privacy(method, neighbouring_relation=relation, **changes)["proven"]["why"]
            assert why.startswith(f"sensitivity {expected} accountant ")


def test_a_calibrated_run_keeps_to_its_epsilon_at_its_own_delta_and_relation():
    changes = {"noise_multiplier": None, "epsilon": 2.0, "delta": 1e-7, "neighbouring_relation": "replace_one"}
    block = privacy("dpsgd", **changes)
    how = {"sampling_prob": Q, "steps": STEPS, "delta": 1e-7, "neighbouring_relation": "replace_one"}
    assert block["noise_multiplier"] == pytest.approx(accounting.noise_multiplier(epsilon=2.0, **how))
    assert block["claimed"]["pld"] == accounting.epsilon(noise_multiplier=block["noise_multiplier"], **how) <= 2.0


def test_of_correlated_noise_the_sensitivity_and_the_delta_are_counted():
    """In a fixed order with p = 1, SI-DPSGD: at step t an example's participations so far stand against one noise."""
    changes = {"noise_power": 1.0, "accountant": "gdp", "sampler": "fixed_order", "delta": 1e-7}
    run = make_run(**({"method": "correlated_noise"} | SETTINGS | changes))
    block = methods.build(run, N, models.build(run.model)).privacy()
    added_up = [1 + step // PERIOD for step in range(STEPS)]  # participations of the first batch's examples so far
    mu = math.sqrt(sum(k * k for k in added_up)) / 3.0
    assert block["claimed"]["gdp"] == pytest.approx(
        accounting.analytic_gaussian(noise_multiplier=1 / mu, delta=1e-7), rel=1e-6
    )


IN_ORDER = {"sampler": "fixed_order", "accountant": "gdp"}


@pytest.mark.parametrize("changes", [{}, {"validation_examples": 100}, IN_ORDER])
def test_an_example_that_is_removed_leaves_its_place(changes):
    """With one less, steps, sampling probability and what is held out, drawn by a permutation of all, would change."""
    assert "leaves its place" in privacy("dpsgd", **changes)["proven"]["assumes"]
    replaced = {"sampler": "without_replacement", "neighbouring_relation": "replace_one", "accountant": "pld"}
    assert "leaves its place" not in privacy("dpsgd", **changes | replaced)["proven"]["assumes"]


def test_the_time_and_memory_that_a_record_tells_are_not_counted():
    assert "time and memory that every record tells, are not counted" in privacy("dpsgd")["proven"]["assumes"]


def test_beside_a_private_pca_the_sensitivity_in_words_is_still_that_of_a_step():
    said = privacy("dpsgd", sampler="with_replacement", pca_noise_multiplier=5.0)["proven"]["why"]
    assert "sensitivity 2C" in said


def test_what_is_proven_of_si_dpsgd_has_each_steps_own_size():
    """A participation moves every θ_t that follows by its own η C, against noise that is scaled by theirs."""
    factors = [0.5 ** (step // PERIOD) for step in range(STEPS)]
    moved = accounting.si_dpsgd_moved(
        step_sizes=factors, clip_norms=[0.5] * STEPS, noise_stds=[1.5] * STEPS, momentum=0.9
    )
    expected = accounting.si_dpsgd_proven_epsilon(moved=moved, sampling_prob=Q, steps=STEPS)
    found = privacy("si_dpsgd", lr_schedule="exponential", lr_decay=0.5, momentum=0.9)
    assert found["proven"]["epsilon"] == pytest.approx(expected)
