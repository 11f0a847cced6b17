"""The likelihood ratio of all iterates, against sums over every pattern of participations, and what it finds."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm
from test_audit_canaries import IN_ORDER, N, private, proven

from lib.accounting import Spectrum
from lib.audit import canaries, iterates, records
from lib.audit.canaries import attack
from lib.store import RESULTS, Store


def by_hand(x: np.ndarray, q: np.ndarray, strategy: np.ndarray, z: float) -> float:
    """log Σ_p P(p) N(x; p, z² S⁻¹ S⁻ᵀ) − log N(x; 0, …) over all participations p of one canary, x and q (T,)."""
    inverse = np.linalg.inv(toeplitz(strategy, np.zeros_like(strategy)))
    law = multivariate_normal(cov=z**2 * inverse @ inverse.T)
    logs = []
    for participations in product((0, 1), repeat=len(x)):
        p = np.array(participations)
        if probability := math.prod(np.where(p, q, 1 - q)):
            logs.append(math.log(probability) + law.logpdf(x - p))
    return float(logsumexp(logs) - law.logpdf(x))


@pytest.mark.parametrize(
    ("spectrum", "q"),
    [
        (Spectrum(power=0.5, steps=6), [0, 1, 0, 0, 1, 0]),
        (Spectrum(power=0.5, steps=6, bands=2), [1, 0, 1, 0, 1, 0]),
        (Spectrum(power=1.0, steps=6), [0, 0, 1, 0, 0, 1]),
        (Spectrum(power=0.5, steps=6, bands=3, banded="strategy"), [0, 0.3, 0, 0, 0.3, 0]),
        (Spectrum(power=0.25, steps=6, bands=2, banded="strategy"), [0.2, 0, 0.2, 0, 0.2, 0]),
        (Spectrum(power=0.0, steps=6), [0.1] * 6),
    ],
    ids=str,
)
def test_it_is_the_sum_over_every_pattern_of_participations(spectrum, q):
    q, x = np.array(q, dtype=float)[:, None].repeat(5, 1), 2 * np.random.default_rng(0).standard_normal((6, 5))
    found = iterates.correlated(x, q, spectrum.strategy, 0.8)
    assert found == pytest.approx([by_hand(x[:, i], q[:, i], spectrum.strategy, 0.8) for i in range(5)])


WATCHED = {
    "dpsgd": private(noise_multiplier_decay=0.9, clip_norm_decay=0.8),
    "momentum": private(momentum=0.9, lr_schedule="linear"),
    "individual clipping": private(
        method="batch_clipping", sampler="without_replacement", neighbouring_relation="replace_one", mini_set_size=1
    ),
    "in a fixed order": private(**IN_ORDER),
    "square root": private(
        method="correlated_noise", noise_power=0.5, noise_multiplier=5.0, clip_norm_decay=0.8, **IN_ORDER
    ),
    "in turns": private(method="correlated_noise", noise_power=0.5, noise_bands=4),
}


@pytest.mark.parametrize("run", WATCHED.values(), ids=WATCHED)
def test_what_it_sees_is_the_participation_under_noise_of_the_runs_size(run, monkeypatch):
    """S x ÷ z has unit noise, and in the mean S q ÷ z of those included: nothing else, whatever the run decays."""
    seen, correlated, log_ratio = [], iterates.correlated, iterates.log_ratio

    def of_all(x, q, strategy, z):
        s = toeplitz(strategy, np.zeros_like(strategy))
        seen.extend(zip(s @ x / z, s @ q / z, strict=True))
        return correlated(x, q, strategy, z)

    def of_step(q, above, z):
        seen.append(((above + 0.5) / z, q / z))
        return log_ratio(q, above, z)

    monkeypatch.setattr(iterates, "correlated", of_all)
    if run.method != "correlated_noise":
        monkeypatch.setattr(iterates, "log_ratio", of_step)
    included = attack(run, examples=N, canaries=N, released="transcript").included
    replaced = run.neighbouring_relation == "replace_one"
    if replaced:  # each step is compared with that of the opposite gradient
        assert all(np.allclose(of_one[0], -of_other[0]) for of_one, of_other in zip(seen[::2], seen[1::2], strict=True))
        seen = seen[::2]
    x = np.array([of_step for of_step, _ in seen])  # (T, m)
    mean = np.array([np.broadcast_to(of_step, N) for _, of_step in seen])
    absent, above = (x + replaced * mean)[:, ~included], (x - mean)[:, included]
    assert len(seen) == 100
    assert absent.mean() == pytest.approx(0, abs=4 / absent.size**0.5)
    assert absent.std(axis=1) == pytest.approx(1, abs=0.1)
    assert above.mean() == pytest.approx(0, abs=6 / above.size**0.5)


ONCE = {
    "shuffled": private(sampler="shuffled", accountant="gdp", noise_multiplier=0.5),
    "the rest sits out": private(sampler="shuffled", accountant="gdp", batch_size=600, noise_multiplier_decay=0.9),
    "balls and bins": private(sampler="balls_and_bins", accountant="pld", noise_multiplier=0.5),
    "of opposite gradient": private(
        sampler="shuffled", accountant="gdp", noise_multiplier=0.5, neighbouring_relation="replace_one"
    ),
}


def once_an_epoch(x: np.ndarray, z: np.ndarray, q: float, per_epoch: int) -> float:
    """log Σ_p P(p) N(x; p, z²) − log N(x; 0, z²) over all p (T,) with at most one participation an epoch."""
    logs = []
    for turns in product(range(-1, per_epoch), repeat=len(x) // per_epoch):  # -1: the example sits out
        p, chance = np.zeros(len(x)), 1.0
        for epoch, turn in enumerate(turns):
            if turn >= 0:
                p[epoch * per_epoch + turn] = 1
            chance *= q if turn >= 0 else max(0.0, 1 - per_epoch * q)
        if chance:
            logs.append(math.log(chance) + norm.logpdf(x, p, z).sum())
    return float(logsumexp(logs) - norm.logpdf(x, 0.0, z).sum())


@pytest.mark.parametrize("name", ONCE)
def test_where_a_canary_comes_once_an_epoch_it_is_the_sum_over_every_pattern_of_that(name, monkeypatch):
    seen, observe = [], iterates.Iterates.observe

    def of_step(self, method, moved, gradient, step):
        z = method.noise_std(step) / method.clip_norm(step)
        seen.append((gradient * run.batch_size / method.clip_norm(step), z))
        observe(self, method, moved, gradient, step)

    monkeypatch.setattr(iterates.Iterates, "observe", of_step)
    run = replace(ONCE[name], batch_size=20 if name == "the rest sits out" else 22, epochs=2)
    found = attack(run, examples=66, canaries=66, released="transcript").scores
    x, z = (np.array(column) for column in zip(*seen, strict=True))
    assert len(x) == 6
    chance = 1 / 3 if run.batch_size == 22 else 20 / 66
    expected = [once_an_epoch(x[:, i], z, chance, 3) for i in range(66)]
    if run.neighbouring_relation == "replace_one":
        expected = [ratio - once_an_epoch(-x[:, i], z, chance, 3) for i, ratio in enumerate(expected)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ONCE)
def test_it_tells_more_than_where_batches_are_taken_for_poissons(name, monkeypatch):
    """Of the coins, which are log(1 + e^∓Λ) nats each if all that is known is Λ."""
    nats = []
    for once in (iterates.ONCE_AN_EPOCH, ()):
        monkeypatch.setattr(iterates, "ONCE_AN_EPOCH", once)
        found = attack(ONCE[name], examples=N, canaries=N, released="transcript")
        nats.append(np.logaddexp(0, np.where(found.included, -1, 1) * found.scores).mean())
    assert nats[0] < min(nats[1], math.log(2)) - 0.003


@pytest.mark.parametrize("run", (WATCHED | ONCE).values(), ids=WATCHED | ONCE)
def test_it_says_how_likely_a_canary_is_included(run):
    """P(included | Λ) = 1/(1 + e^−Λ), as the coins are fair; in ten bins from the least likely to the most."""
    found = attack(run, examples=N, canaries=N, released="transcript")
    probability, order = expit(found.scores), np.argsort(found.scores)
    for bin_ in np.array_split(order, 10):
        p = probability[bin_]
        assert abs(np.sum(found.included[bin_] - p)) < 4 * max(0.5, np.sum(p * (1 - p)) ** 0.5)
    assert np.mean(np.maximum(probability, 1 - probability)) > 0.55  # it does tell something


def test_replaced_by_its_opposite_a_canary_is_as_far_from_it_as_is_proven():
    """By one whole batch, twice the mean of an empty place in units of the noise: 2/z-GDP, with Λ ~ N(±µ²/2, µ²)."""
    run = private(neighbouring_relation="replace_one", batch_size=N, epochs=1, noise_multiplier=1.5, accountant="pld")
    found = attack(run, examples=N, canaries=N, released="transcript")
    mu = 2 / 1.5
    assert found.scores[found.included].mean() == pytest.approx(mu**2 / 2, abs=4 * mu / 1000**0.5)
    assert found.scores[~found.included].mean() == pytest.approx(-(mu**2) / 2, abs=4 * mu / 1000**0.5)
    assert found.scores[found.included].std() == pytest.approx(mu, rel=0.1)
    last = attack(run, examples=N, canaries=N).scores / (run.lr / N * run.clip_norm)
    assert last[found.included].mean() - last[~found.included].mean() == pytest.approx(2.0, abs=0.3)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_in_a_fixed_order_it_has_all_of_the_gdp_that_is_proven(power):
    """Λ ~ N(±µ²/2, µ²), µ = ‖S π‖/z for participations π; in the first batch of the epoch that is what is proven."""
    spectrum = Spectrum(power=power, steps=100)
    z = spectrum.sensitivity(period=20) / 2
    s = toeplitz(spectrum.strategy, np.zeros(100))
    squares = [np.sum(s[:, first::20].sum(1) ** 2) / z**2 for first in range(20)]
    assert max(squares) == pytest.approx(squares[0]) == pytest.approx(4)
    run = private(method="correlated_noise", noise_power=power, noise_multiplier=z, **IN_ORDER)
    found = attack(run, examples=N, canaries=N, released="transcript")
    present, absent = found.scores[found.included], found.scores[~found.included]
    assert present.mean() == pytest.approx(np.mean(squares) / 2, abs=0.25)
    assert absent.mean() == pytest.approx(-np.mean(squares) / 2, abs=0.25)
    assert absent.var() == pytest.approx(np.mean(squares) + np.var(squares) / 4, rel=0.15)


@pytest.mark.parametrize("name", ["dpsgd", "in a fixed order", "square root", "in turns"])
def test_it_finds_more_than_the_last_iterate_alone(name):
    run = WATCHED[name]
    found = {released: attack(run, examples=N, released=released) for released in canaries.RELEASED}
    assert found["last"].one_run() < found["transcript"].one_run() <= proven(run)


def test_a_canary_whose_batch_never_comes_tells_nothing():
    """N = 2000 in batches of 300: the last 200 of the order sit out."""
    run = private(**IN_ORDER, batch_size=300)
    found = attack(run, examples=N, canaries=N, released="transcript")
    assert (found.scores == 0).sum() == 200


def test_one_band_is_dpsgd():
    one_band = private(method="correlated_noise", noise_power=0.5, noise_bands=1)
    found, expected = (attack(run, examples=N, released="transcript").scores for run in (one_band, private()))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("changes", [{}, IN_ORDER | {"method": "correlated_noise", "noise_power": 0.5}], ids=str)
def test_without_noise_all_is_seen(changes):
    run = private(noise_multiplier=0.0, epochs=20, **changes)
    found = attack(run, examples=N, canaries=N, released="transcript")
    assert np.median(found.scores[found.included]) > 1e9
    assert np.median(found.scores[~found.included]) < 0


def test_of_si_dpsgd_every_iterate_counts_by_the_participations_to_be_expected(monkeypatch):
    moved, row = [], canaries.Canaries.moved
    monkeypatch.setattr(canaries.Canaries, "moved", lambda model: moved.append(row(model)) or moved[-1])
    found = attack(private(method="si_dpsgd", noise_multiplier=8.0), examples=N, canaries=50, released="transcript")
    assert found.scores == pytest.approx(sum((step + 1) * row.numpy() for step, row in enumerate(moved)))


def test_the_test_is_that_of_the_sampler(monkeypatch):
    monkeypatch.setattr(canaries.bounds, "one_run", lambda *_, delta: 1.0)
    monkeypatch.setattr(canaries.bounds, "many_runs", lambda *_, delta: 2.0)
    scores, included = np.zeros(4), np.array([True, False, True, False])
    for sampler, expected in {"poisson": 2.0, "fixed_order": 2.0, "without_replacement": 1.0, "shuffled": 1.0}.items():
        assert canaries.Attack(scores, included, 1e-5, sampler).epsilon() == expected


def test_the_stored_audits_are_of_every_iterate_but_for_si_dpsgd():
    methods = set()
    for _, record in Store(RESULTS).filed():
        if audit := record["privacy"]["audited"]:
            last = record["run"]["method"] == "si_dpsgd"
            assert ("the last iterate" if last else "every iterate") in audit["attack"], record["id"]
            assert audit["attack"] == records.attack(records._run(record))
            methods.add(record["run"]["method"])
    assert methods == {"dpsgd", "si_dpsgd", "correlated_noise", "batch_clipping"}
