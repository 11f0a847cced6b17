"""The numbers that the papers print, and the ones that belong beside them, to the printed digits; δ = 1e-5."""

import math

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from lib import accounting
from lib.accounting import clt, pld

ABADI = {"noise_multiplier": 4.0, "sampling_prob": 0.01, "steps": 10_000}
V1_MNIST = {"noise_multiplier": 7.1, "sampling_prob": 32 / 60_000, "steps": 10 * 60_000 / 32}
V1_CIFAR = {"noise_multiplier": 10.0, "sampling_prob": 16 / 50_000, "steps": 40 * 50_000 / 16}
BC = {"sampling_prob": 64 / 54_000, "steps": math.ceil(50 * 54_000 / 64)}
WITHOUT_REPLACEMENT = {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}


@pytest.mark.parametrize(
    ("setting", "accountant", "epsilon", "digits"),
    [
        (ABADI, "moments", 1.26, 2),
        (ABADI, "strong_composition", 9.34, 2),
        (ABADI, "rdp_2020", 1.2586, 4),
        (ABADI, "rdp", 1.035, 3),
        (ABADI, "pld", 0.947, 3),
        (V1_MNIST, "rdp_2020", 0.0500, 4),
        (V1_MNIST, "rdp", 0.033, 3),
        (V1_MNIST, "pld", 0.0283, 4),
        (V1_CIFAR, "rdp_2020", 0.0555, 4),
        (V1_CIFAR, "rdp", 0.036, 3),
        (V1_CIFAR, "pld", 0.0313, 4),
    ],
)
def test_poisson(setting, accountant, epsilon, digits):
    assert round(accounting.epsilon(**setting, accountant=accountant), digits) == epsilon


@pytest.mark.parametrize(("setting", "coarse"), [(V1_MNIST, 0.0326), (V1_CIFAR, 0.0518)])
def test_the_customary_grid_is_too_wide_for_v1(setting, coarse):
    step = from_gaussian_mechanism(setting["noise_multiplier"], sampling_prob=setting["sampling_prob"])  # grid 1e-4
    assert round(step.self_compose(int(setting["steps"])).get_epsilon_for_delta(1e-5), 4) == coarse
    assert accounting.epsilon(**setting) < 0.9 * coarse


@pytest.mark.parametrize(
    ("sigma", "mu", "approximate", "add_or_remove", "replace"),
    [
        (2.5 / math.sqrt(8), 0.52, 2.09, 1.57, 2.08),
        (2.5 / math.sqrt(16), 1.17, 5.23, 4.13, 5.26),
        (2.5, 0.116, 0.401, 0.347, 0.401),
        (1.5 / math.sqrt(8), 1.99, 9.94, 7.93, 9.70),
    ],
)
def test_batch_clipping(sigma, mu, approximate, add_or_remove, replace):
    """One direction throughout is the Poisson pair; bc's claim C_{m/N}(G_{1/σ}) joins both in every step."""

    def to(value, like):  # as many digits as ``like`` is written with
        return round(value, 3 if like < 0.5 else 2)

    ours = WITHOUT_REPLACEMENT | BC | {"noise_multiplier": 2 * sigma}  # bc's noise is N(0, (2Cσ)²)
    assert to(clt.mu(accounting.Event(**ours)), mu) == mu
    assert to(accounting.epsilon(**ours, accountant="clt"), approximate) == approximate
    assert to(accounting.epsilon(**ours), replace) == replace
    assert to(accounting.epsilon(**BC, noise_multiplier=sigma), add_or_remove) == add_or_remove


def test_batch_clipping_without_useful_privacy():
    weak = {"noise_multiplier": 0.5 / math.sqrt(8)} | BC
    assert round(accounting.epsilon(**weak)) == 791
    weaker = {"noise_multiplier": 2 * 0.01875 / math.sqrt(62)} | BC | WITHOUT_REPLACEMENT
    assert accounting.epsilon(**weaker, accountant="clt") == math.inf


@pytest.mark.parametrize(("sigma", "value"), [(2.5, 1.514), (1.5, 5.783)])
def test_h(sigma, value):
    """bc prints 1.513 for the first; its formula gives 1.5142, and either gives µ = 0.52."""
    assert round(clt.h(sigma / math.sqrt(8)), 3) == value


@pytest.mark.parametrize(
    ("setting", "claimed", "epsilon", "delta"), [(V1_MNIST, 0.05, 9.10, 0.487), (V1_CIFAR, 0.036, 31.6, 0.933)]
)
def test_si_dpsgd(setting, claimed, epsilon, delta):
    found = accounting.si_dpsgd_epsilon(**setting)
    assert round(found, 2 if found < 10 else 1) == epsilon
    assert round(accounting.si_dpsgd_delta(epsilon=claimed, **setting), 3) == delta


@pytest.mark.parametrize(("q", "delta"), [(1e-6, 1e-5), (0.01, 0.1)])
def test_strong_composition_of_a_step_that_needs_less_delta_than_there_is(q, delta):
    """δ₀ is at most 1, and ε₀ then √(2 ln 1.25)/z."""
    found = accounting.epsilon(
        noise_multiplier=1.0, sampling_prob=q, steps=1, delta=delta, accountant="strong_composition"
    )

    def composed(share):
        step = q * math.sqrt(2 * math.log(1.25 / min(1.0, share * delta / q)))
        return step * math.sqrt(2 * math.log(1 / ((1 - share) * delta))) + step**2

    assert found == pytest.approx(min(composed(share / 1000) for share in range(1, 1000)), rel=1e-3)


def test_strong_composition_without_the_linear_amplification_is_far_worse():
    """Why it is no upper bound: with ln(1 + q(e^ε − 1)) for qε, even at the best split, ε is 26.2."""
    q, steps = ABADI["sampling_prob"], ABADI["steps"]

    def composed(share):
        first = accounting.classical_gaussian(noise_multiplier=4.0, delta=share * 1e-5 / (steps * q))
        step = math.log1p(q * math.expm1(first))
        return step * math.sqrt(2 * steps * math.log(1 / ((1 - share) * 1e-5))) + steps * step**2

    assert round(min(composed(share / 1000) for share in range(1, 1000)), 1) == 26.2
    assert not accounting.is_upper_bound(accountant="strong_composition")


@pytest.mark.parametrize("sampling_prob", [1e-4, 0.1, 0.9])
@pytest.mark.parametrize("noise_multiplier", [0.5, 2.0])
def test_a_poisson_step_is_dp_accountings(noise_multiplier, sampling_prob):
    event = accounting.Event(noise_multiplier, sampling_prob, 1)
    ours = pld.one_round(noise_multiplier, sampling_prob, event.sampler, event.neighbouring_relation, 1e-3)
    theirs = from_gaussian_mechanism(noise_multiplier, sampling_prob=sampling_prob, value_discretization_interval=1e-3)
    epsilons = [0.0, 0.01, 0.1, 1.0, 5.0]
    assert ours.get_delta_for_epsilon(epsilons) == pytest.approx(theirs.get_delta_for_epsilon(epsilons), abs=1e-11)
    assert ours.get_epsilon_for_delta(1e-5) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-6)


@pytest.mark.parametrize("sigma", [5e6, 5e7])
def test_the_limit_keeps_its_digits_where_there_is_much_noise(sigma):
    """h(σ) → 1/(√2 σ)."""
    assert clt.h(sigma) * sigma * math.sqrt(2) == pytest.approx(1.0, abs=1e-5)
