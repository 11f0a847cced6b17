"""How much noise a run has: by its events alone, whatever the discount and the clip norm."""

import math
from dataclasses import replace

import pytest

from lib import accounting
from lib.claims import abadi
from lib.methods._budget import _smallest_noise, budget
from lib.run import Run
from lib.sampling import Sampler
from lib.tables import mnist_abadi

RUN = Run(
    dataset="digits",
    model="lenet5",
    method="dpsgd",
    optimizer="sgd",
    lr=0.1,
    epochs=3,
    batch_size=128,
    sampler="poisson",
    clip_norm=1.0,
    epsilon=2.0,
)
SAMPLER = Sampler("poisson", 1437, 128)
DISCOUNTS = [math.sqrt(layers) for layers in range(2, 300)]


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_a_discount_multiplies_the_noise_and_never_exceeds_the_budget(decay):
    """Not by a rounding either."""
    run = replace(RUN, noise_multiplier_decay=decay)
    plain = budget(run, SAMPLER)
    for discount in DISCOUNTS:
        found = budget(replace(run, clip_norm=discount), SAMPLER, discount)
        assert found.noise_multiplier == pytest.approx(discount * plain.noise_multiplier, rel=1e-15)
        assert found.events[0].noise_multiplier >= plain.noise_multiplier
        assert found.epsilon("pld") <= 2.0


def test_what_is_alike_is_searched_once(monkeypatch):
    _smallest_noise.cache_clear()
    searched, search = [], accounting.smallest_noise
    monkeypatch.setattr(accounting, "smallest_noise", lambda *args, **how: searched.append(how) or search(*args, **how))
    run = replace(RUN, accountant="gdp", sampler="fixed_order", epsilon=2.5)
    sampler = replace(SAMPLER, name="fixed_order")
    for clip_norm in (1.0, 0.5):
        for lr in (0.1, 1.0):
            budget(replace(run, clip_norm=clip_norm, lr=lr), sampler, 1 / clip_norm)
    budget(replace(run, delta=1e-6), sampler)
    assert [how["delta"] for how in searched] == [1e-5, 1e-6]


def test_the_private_pca_has_no_discount():
    """It comes first, with its own noise, and leaves less to training."""
    run = replace(RUN, model="pca_1000", pca_noise_multiplier=8.0)
    plain, discounted = (budget(run, SAMPLER, discount) for discount in (1.0, 2.0))
    assert plain.noise_multiplier > budget(RUN, SAMPLER).noise_multiplier
    assert [event.noise_multiplier for event in discounted.events] == [8.0, plain.noise_multiplier]
    assert discounted.noise_multiplier == 2 * plain.noise_multiplier
    assert discounted.epsilon("pld") <= 2.0


def test_the_private_pca_is_counted_by_every_accountant_of_batches_of_a_fixed_size():
    """Of which RDP and the central limit theorem count Poisson sampling under add_or_remove_one alone."""
    how = {"sampler": "without_replacement", "neighbouring_relation": "replace_one", "noise_multiplier": 2.0}
    run = replace(RUN, model="pca_1000", pca_noise_multiplier=8.0, epsilon=None, accountant="rdp", **how)
    found, plain = (
        budget(r, replace(SAMPLER, name="without_replacement"))
        for r in (run, replace(run, model="lenet5", pca_noise_multiplier=None))
    )
    for accountant in accounting.accountants(sampler=run.sampler, neighbouring_relation=run.neighbouring_relation):
        assert found.epsilon(accountant) > plain.epsilon(accountant)


def test_steps_that_the_budget_allows_count_the_discounted_noise():
    run = replace(RUN, noise_multiplier=2.0, epochs=100)
    for discount in (1.0, 2.0):
        found = budget(run, SAMPLER, discount)
        (event,) = found.events
        assert event.noise_multiplier == 2.0 / discount
        assert found.epsilon("pld") <= 2.0
    assert found.steps < budget(run, SAMPLER).steps


@pytest.mark.parametrize("epsilon", [8.0, 2.0])
def test_abadi_s_experiments_end_with_their_budget_and_later_by_a_tighter_count(epsilon):
    """Of the same steps; one step more would exceed ε, of which the private PCA has had its share."""
    sampler, steps = Sampler("poisson", 60_000, 600), {}
    for row, accountant in mnist_abadi.ACCOUNTANTS.items():
        found = budget(mnist_abadi.cell(row, epsilon, seed=0, tier="paper"), sampler)
        assert found.epsilon(accountant) <= epsilon < replace(found, steps=found.steps + 1).epsilon(accountant)
        assert found.events[0].sampling_prob == 1.0  # the PCA's
        steps[row] = found.steps
    assert (
        f"counted of {steps[mnist_abadi.MOMENTS]} independent lots" in abadi._of_experiment(epsilon)[1]
    )  # the claim's
    assert 1.2 * steps[mnist_abadi.MOMENTS] < steps[mnist_abadi.PLD] < mnist_abadi.MOST * sampler.steps_per_epoch
