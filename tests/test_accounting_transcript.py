"""What is proven of SI-DPSGD's transcript, against closed forms, brute force and the exact lower bound."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import poisson

from lib import accounting
from lib.accounting import _transcript, si_dpsgd_moved, si_dpsgd_proven_epsilon


def moved(step_sizes, momentum=0.0, clip_norms=None, z=1.0) -> float:
    clip_norms = clip_norms or [1.0] * len(step_sizes)
    return si_dpsgd_moved(
        step_sizes=step_sizes, clip_norms=clip_norms, noise_stds=[z * c for c in clip_norms], momentum=momentum
    )


def test_one_participation_at_a_constant_step_size_is_the_square_root_of_the_steps():
    assert moved([0.1] * 400, z=5.0) == pytest.approx(math.sqrt(400) / 5.0)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("decay", [1.0, 0.7])
def test_no_single_participation_moves_the_transcript_further(momentum, decay):
    """Each participation by itself, step by step through momentum and schedule as an optimiser would."""
    T, z = 7, 2.0
    eta, clip = [0.3 * decay**t for t in range(T)], [1.0 + 0.5 * t for t in range(T)]
    for s in range(T):
        velocity = position = squares = 0.0
        for t in range(T):
            velocity = momentum * velocity + (clip[s] if t == s else 0.0)
            position += eta[t] * velocity
            squares += (position / (eta[t] * z * clip[t])) ** 2
        assert math.sqrt(squares) <= moved(eta, momentum, clip, z) * (1 + 1e-12)


def test_without_noise_or_clipping_nothing_is_proven():
    assert moved([0.1] * 3, z=0.0) == math.inf
    assert moved([0.1], clip_norms=[math.inf]) == math.inf
    assert moved([math.inf]) == math.inf
    assert si_dpsgd_proven_epsilon(moved=math.inf, sampling_prob=0.1, steps=3) == math.inf
    assert si_dpsgd_proven_epsilon(moved=0.5, sampling_prob=0.1, steps=0) == 0.0


@pytest.mark.parametrize("bad", [math.nan, -1.0])
def test_what_is_no_length_is_refused(bad):
    with pytest.raises(ValueError, match=f"moved: expected at least 0; got {bad}"):
        si_dpsgd_proven_epsilon(moved=bad, sampling_prob=0.1, steps=3)
    with pytest.raises(ValueError, match="step_sizes: expected numbers of at least 0"):
        moved([0.1, bad])
    with pytest.raises(ValueError, match="momentum: expected numbers of at least 0"):
        moved([0.1], momentum=bad)


@pytest.mark.parametrize(("sampler", "most"), [("poisson", 10), ("with_replacement", 30)])
def test_a_small_delta_is_no_obstacle(sampler, most):
    how = {"moved": 0.1, "sampling_prob": 0.1, "steps": 30, "sampler": sampler}
    first, second = (si_dpsgd_proven_epsilon(**how, delta=delta) for delta in (1e-9, 1e-15))
    assert first < second < most


def test_in_a_fixed_order_it_is_the_gaussian_of_all_participations():
    found = si_dpsgd_proven_epsilon(moved=0.3, sampling_prob=0.1, steps=30, sampler="fixed_order")
    assert found == pytest.approx(accounting.analytic_gaussian(noise_multiplier=1 / 0.9, delta=1e-5), rel=1e-6)
    twice = {"sampler": "shuffled", "neighbouring_relation": "replace_one"}
    found = si_dpsgd_proven_epsilon(moved=0.3, sampling_prob=0.1, steps=30, **twice)
    assert found == pytest.approx(accounting.analytic_gaussian(noise_multiplier=1 / 1.8, delta=1e-5), rel=1e-6)


def test_poisson_sampling_is_the_mixture_over_all_patterns():
    """T = 4: all 16 patterns one by one, each with its own √Σk_t², is at most what is proven."""
    T, q, z, epsilon = 4, 0.2, 1.5, 1.0
    exact = 0.0
    for pattern in itertools.product((0, 1), repeat=T):
        probability = q ** sum(pattern) * (1 - q) ** (T - sum(pattern))
        mu = math.sqrt(np.sum(np.cumsum(pattern) ** 2.0)) / z
        if mu:
            exact += probability * accounting.delta(
                epsilon=epsilon, noise_multiplier=1 / mu, sampling_prob=1.0, steps=1, accountant="gdp"
            )
    proven = si_dpsgd_proven_epsilon(moved=math.sqrt(T) / z, sampling_prob=q, steps=T, delta=exact)
    assert epsilon <= proven < 3 * epsilon


@pytest.mark.parametrize(("z", "q", "steps"), [(7.1, 32 / 60_000, 18_750), (2.0, 0.02, 100), (30.0, 0.01, 300)])
def test_it_is_above_the_exact_value_for_a_linear_loss(z, q, steps):
    proven = si_dpsgd_proven_epsilon(moved=math.sqrt(steps) / z, sampling_prob=q, steps=steps)
    assert proven >= accounting.si_dpsgd_epsilon(noise_multiplier=z, sampling_prob=q, steps=steps)


def test_an_example_that_is_drawn_displaces_another():
    """Drawn k times, k by Poisson(−T ln(1 − q)), it moves the transcript by 2k: the mixture of those Gaussians."""
    how = {"moved": 0.2, "sampling_prob": 0.01, "steps": 100}
    epsilon, times = si_dpsgd_proven_epsilon(**how, sampler="with_replacement"), np.arange(1, 30)
    deltas = [accounting.analytic_gaussian(epsilon=epsilon, noise_multiplier=1 / (0.2 * 2 * k)) for k in times]
    assert poisson.pmf(times, -100 * math.log1p(-0.01)) @ deltas == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize(
    ("sampler", "relation"), [("without_replacement", "add_or_remove_one"), ("with_replacement", "replace_one")]
)
def test_what_no_theorem_covers_is_refused(sampler, relation):
    with pytest.raises(ValueError, match="neighbouring_relation"):
        si_dpsgd_proven_epsilon(moved=0.1, sampling_prob=0.1, steps=10, sampler=sampler, neighbouring_relation=relation)


@pytest.mark.parametrize("lengths", [(1, 100, 100), (100, 5, 100), (2, 2, 1)])
def test_as_many_steps_clip_norms_and_noises_are_expected(lengths):
    steps, clips, noises = ([1.0] * length for length in lengths)
    with pytest.raises(ValueError, match=r"^step_sizes, clip_norms, noise_stds: expected T of each; got shapes \("):
        si_dpsgd_moved(step_sizes=steps, clip_norms=clips, noise_stds=noises)


@pytest.mark.parametrize("sampler", ["shuffled", "fixed_order"])
@pytest.mark.parametrize(("steps", "times"), [(1, 1), (10, 1), (11, 2), (39, 4)])
def test_an_epoch_that_has_begun_counts(sampler, steps, times):
    found = si_dpsgd_proven_epsilon(moved=0.3, sampling_prob=0.1, steps=steps, sampler=sampler)
    exact = accounting.analytic_gaussian(noise_multiplier=1 / (0.3 * times), delta=1e-5)
    assert found == pytest.approx(exact, rel=1e-6)


def test_participations_that_are_left_out_are_fewer_than_is_negligible():
    for sampler in ("poisson", "with_replacement"):
        event = accounting.Event(1.0, 0.1, 30, sampler)
        counts, weights = _transcript._participations(event, 1e-22)
        law = _transcript.binom(30, 0.1) if sampler == "poisson" else _transcript.poisson(-30 * math.log1p(-0.1))
        assert law.sf(counts[-1]) <= 1e-22
        assert len(counts) == len(weights) == counts[-1] + 1


def test_what_is_left_out_is_counted():
    """All that is not counted is taken for lost."""
    how = {"moved": 0.5, "sampling_prob": 0.1, "steps": 30}
    epsilon = si_dpsgd_proven_epsilon(**how, delta=1e-5)
    counts, weights = _transcript._participations(accounting.Event(1.0, 0.1, 30), 1e-12)
    counted = float(weights @ _transcript.gdp_deltas(counts * 0.5, epsilon))
    assert counted == pytest.approx(1e-5 - 1e-12, rel=1e-9, abs=0)


def test_what_is_moved_beyond_all_floats_has_no_epsilon():
    assert si_dpsgd_proven_epsilon(moved=1e160, sampling_prob=0.01, steps=1000) == math.inf
