"""The white-box attack through the library's own steps: below what is proven, above what v1 claims."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from conftest import make_run
from torch import nn

from lib import accounting, data, store
from lib.audit import attacked, canaries, mislabelled, v1
from lib.audit.attacked import coins, train
from lib.audit.canaries import Attack, Canaries, attack
from lib.generators import generator
from lib.grads import clipped_sum
from lib.layers import NoisyLinear, PublicBatchNorm, WithPublic
from lib.methods import build
from lib.methods.dpsgd import cross_entropy
from lib.models import build as build_model
from lib.run import Run

N = 2000  # 20 steps per epoch


def private(**changes) -> Run:
    settings = {"method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 0.7, "noise_multiplier": 1.0}
    return make_run(**(settings | {"batch_size": 100, "epochs": 5, "lr": 0.3} | changes))


IN_ORDER = {"sampler": "fixed_order", "accountant": "gdp"}
RUNS = {
    "dpsgd": private(),
    "momentum and schedule": private(momentum=0.9, lr_schedule="linear"),
    "in a fixed order": private(**IN_ORDER),
    "square root": private(method="correlated_noise", noise_power=0.5, **IN_ORDER),
    "in turns": private(method="correlated_noise", noise_power=0.5, noise_bands=4),
    "si_dpsgd": private(method="si_dpsgd", noise_multiplier=8.0),
}


def proven(run: Run) -> float:
    return build(run, N, build_model("lenet_300_100")).privacy()["proven"]["epsilon"]


def test_the_canaries_gradients_are_constant_and_do_not_meet():
    """The fourth's is the opposite."""
    model, numbers = Canaries(torch.tensor([1, 1, 1, -1, 1])), torch.tensor([3, 1, 3])
    for _ in range(2):
        total, norms = clipped_sum(model, cross_entropy, numbers, torch.zeros_like(numbers), clip_norm=0.7)
        assert norms.tolist() == pytest.approx([canaries.SCALE] * 3)
        assert (-total["rows.weight"][:, 0]).tolist() == pytest.approx([0, 0.7, 0, -2 * 0.7, 0])
        with torch.no_grad():
            model.rows.weight += 100 * torch.randn(5, 1, dtype=torch.float64)


@pytest.mark.parametrize("released", canaries.RELEASED)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_what_is_found_is_at_most_what_is_proven(run, released):
    found = attack(run, examples=N, canaries=1000, released=released)
    assert found.one_run() <= proven(run)
    assert found.many_runs() <= proven(run)
    assert found.epsilon() <= proven(run)


def test_rows_that_depend_on_each_other_are_no_independent_runs():
    found = attack(private(sampler="without_replacement", neighbouring_relation="replace_one"), examples=N, canaries=9)
    with pytest.raises(
        ValueError, match=r"sampler: expected one of poisson, balls_and_bins, fixed_order, or one_run\(\); got 'without"
    ):
        found.many_runs()


def test_the_scores_are_those_of_the_mixture_that_is_counted():
    """θ_T of DPSGD, K = 5 participations among T = 100 steps: N(K, T z²) against N(0, T z²), in units of (η/L)·C."""
    run = private(**IN_ORDER)
    found = attack(run, examples=N, canaries=2000)
    scores = found.scores * run.batch_size / (run.lr * run.clip_norm)
    absent, present = scores[~found.included], scores[found.included]
    assert present.mean() - absent.mean() == pytest.approx(5.0, abs=4 * 10 * (2 / 1000) ** 0.5)
    assert absent.std() == pytest.approx(10, rel=0.1)
    assert present.std() == pytest.approx(10, rel=0.1)


def test_si_dpsgd_is_caught_and_dpsgd_with_the_same_noise_is_not():
    """v1's claim is DPSGD's ε.  The last iterate alone refutes it, the whole transcript by far more."""
    settings = {"noise_multiplier": 3.0, "epochs": 20, "accountant": "rdp_2020"}
    claimed = accounting.epsilon(
        noise_multiplier=3.0, sampling_prob=100 / N, steps=400, accountant="rdp_2020", delta=1e-5
    )
    found = {
        (method, released): attack(
            private(method=method, **settings), examples=N, canaries=2000, released=released
        ).one_run()
        for method in ("dpsgd", "si_dpsgd")
        for released in canaries.RELEASED
    }
    assert found["dpsgd", "last"] < claimed
    assert found["dpsgd", "transcript"] < claimed
    assert claimed < found["si_dpsgd", "last"] < found["si_dpsgd", "transcript"]
    assert found["si_dpsgd", "last"] <= accounting.si_dpsgd_epsilon(
        noise_multiplier=3.0, sampling_prob=100 / N, steps=400
    )


def test_where_v1s_code_tests_nothing_is_hidden():
    run = private(method="si_dpsgd", test_at="mu", noise_multiplier=50.0)
    assert attack(run, examples=N, canaries=1000).one_run() > 4


@pytest.mark.slow
def test_v1s_mnist_settings_are_refuted_from_the_last_iterate():
    run = private(
        method="si_dpsgd", noise_multiplier=7.1, clip_norm=3.1, batch_size=32, epochs=10, accountant="rdp_2020"
    )
    claimed = accounting.epsilon(noise_multiplier=7.1, sampling_prob=32 / 60_000, steps=18_750, accountant="rdp_2020")
    assert claimed < 0.0501
    assert 1 < attack(run, examples=60_000).one_run() <= 9.11
    assert attack(replace(run, method="dpsgd"), examples=60_000).one_run() < claimed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"canaries": N + 1}, f"canaries: expected 1 to {N}, the number of examples; got {N + 1}"),
        ({"released": "first"}, "released: expected one of last, transcript; got 'first'"),
        (
            {"run": make_run()},
            "method: expected one of dpsgd, si_dpsgd, correlated_noise, or batch_clipping of mini-sets of one; .*; "
            "got 'non_private'",
        ),
        (
            {"run": private(sampler="with_replacement")},
            "a sampler other than with_replacement; .*; got 'dpsgd', 'with_replacement' and",
        ),
    ],
)
def test_what_it_cannot_attack_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        attack(**({"run": private(), "examples": N} | changes))


def test_mislabelled_images_are_remembered_without_privacy(monkeypatch):
    """On the digits: a network that is trained long remembers the wrong labels that it was shown."""
    monkeypatch.setattr(mislabelled, "EXAMPLES", 1000)
    monkeypatch.setattr(mislabelled, "CANARIES", 300)
    found = mislabelled._measured(replace(mislabelled.NON_PRIVATE, dataset="digits", epochs=60, lr=0.003))
    assert found["canary_accuracy"] > 80
    assert found["epsilon"] > 1
    assert 70 < found["accuracy"] <= 100  # percent of the test images


def test_every_canary_has_a_wrong_label_and_every_other_image_its_own(monkeypatch):
    monkeypatch.setattr(mislabelled, "EXAMPLES", 1000)
    monkeypatch.setattr(mislabelled, "CANARIES", 300)
    trained = []
    monkeypatch.setattr(mislabelled, "train", lambda *of: trained.append(of) or nullcontext())
    run = replace(mislabelled.NON_PRIVATE, dataset="digits")
    mislabelled._measured(run)
    ((_, _, _, y, present),) = trained
    labels = data.load("digits").train_labels
    own = labels[torch.randperm(len(labels), generator=generator(0, "audit images"))[:1000]]
    assert (y[:300] != own[:300]).all()
    assert torch.equal(y[300:], own[300:])
    assert torch.equal(present[:300], coins(run, 300))
    assert present[300:].all()


def test_the_stored_attack_by_wrong_labels_is_of_these_runs():
    stored = store.audit("mislabelled")
    assert {name: found["run"] for name, found in stored.items()} == {
        name: run.hashed for name, run in mislabelled.RUNS.items()
    }


@pytest.mark.parametrize("statistics", ["public", "per_example"])
def test_through_batch_norm_that_sees_public_images_no_more_is_found_than_proven(statistics):
    """Examples in orthogonal coordinates under a first layer without bias, so that each has weights of its own."""
    count, draws = 400, torch.Generator().manual_seed(0)
    x, y = 30 * torch.eye(count), torch.randint(10, (count,), generator=draws)
    settings = {"norm": "public_batch", "public_examples": 8, "statistics": statistics, "batch_size": 40, "lr": 3.0}
    run = private(**settings, epochs=20, noise_multiplier=0.6)

    def found(run: Run) -> tuple[float, float | None]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            first = NoisyLinear(count, 16, bias=False)
            model = nn.Sequential(first, PublicBatchNorm(16), nn.Tanh(), NoisyLinear(16, 10))
        model = WithPublic(model, torch.randn(8, count, generator=draws), statistics=statistics, gradient=False)
        included = coins(run, count)
        with train(run, model, x, y, included), torch.no_grad():
            scores = -cross_entropy(model(x), y)
        block = build(run, count, model).privacy()
        return Attack(scores.double().numpy(), included.numpy(), run.delta, run.sampler).one_run(), block["proven"][
            "epsilon"
        ]

    at_least, proven = found(run)
    assert 0 < at_least <= proven
    assert found(replace(run, noise_multiplier=0.0))[0] > 1


def test_the_steps_of_an_attack_follow_the_runs_schedule():
    """Without noise and with a canary that is always in, its row moves by Σ_t η_t."""
    how = {"method": "dpsgd", "optimizer": "sgd", "sampler": "fixed_order", "accountant": "gdp"}
    run = make_run(**how, clip_norm=1.0, noise_multiplier=0.0, batch_size=1, epochs=4, lr=0.3, lr_schedule="linear")
    model = canaries.Canaries(torch.ones(1))
    with attacked.train(
        run, model, torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long), torch.tensor([True])
    ):
        moved = float(model.moved())
    assert moved == pytest.approx(0.3 * (1 + 0.75 + 0.5 + 0.25), rel=1e-6)


def test_the_coins_are_fair_and_of_the_seed():
    coins = [attacked.coins(make_run(seed=seed), 100_000) for seed in range(2)]
    assert all(abs(float(flips.double().mean()) - 0.5) < 5 * 0.5 / 100_000**0.5 for flips in coins)
    assert abs(float((coins[0] == coins[1]).double().mean()) - 0.5) < 0.01


def test_the_coins_are_of_a_generator_of_their_own():
    run = make_run(sampler="poisson", method="dpsgd", clip_norm=1.0, noise_multiplier=1.0)
    first = torch.rand(1000, generator=generator(run.seed, "audit"))
    assert torch.equal(attacked.coins(run, 1000), first < 0.5)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"sampler": "with_replacement"}, False),
        ({"norm": "public_batch", "public_examples": 8, "statistics": "per_example"}, True),
        ({"norm": "public_batch", "public_examples": 8, "statistics": "mixed"}, False),
        ({"method": "batch_clipping"}, True),
        ({"method": "batch_clipping", "mini_set_size": 64}, False),
    ],
    ids=str,
)
def test_what_canaries_fit(changes, expected):
    assert canaries.fits(private(**changes)) == expected


def test_what_v1_claims_is_by_its_own_accountant_and_of_all_its_steps(monkeypatch):
    found = SimpleNamespace(one_run=lambda: 1.0, many_runs=lambda: 2.0)
    monkeypatch.setattr(v1, "attack", lambda *_, **how: found)
    how = {"noise_multiplier": 7.1, "sampling_prob": 32 / 60_000, "steps": 18_750, "accountant": "rdp_2020"}
    assert {found["claimed"] for found in v1.measure().values()} == {accounting.epsilon(**how)}


def test_v1s_attacks_are_of_these_runs():
    asked = {name: (run.method, run.test_at, released) for name, (run, released) in v1.ATTACKS.items()}
    assert asked == {
        "SI-DPSGD, last iterate": ("si_dpsgd", "theta", "last"),
        "SI-DPSGD, all iterates": ("si_dpsgd", "theta", "transcript"),
        "SI-DPSGD as its code tests it, at µ_T": ("si_dpsgd", "mu", "last"),
        "DPSGD, last iterate": ("dpsgd", "theta", "last"),
        "DPSGD, all iterates": ("dpsgd", "theta", "transcript"),
    }


def test_an_attack_follows_the_clip_norm_and_has_the_runs_delta_and_generators(monkeypatch):
    asked = []
    for room in (attacked, canaries):
        monkeypatch.setattr(room, "generator", lambda seed, name: asked.append(name) or generator(seed, name))
    how = {"method": "dpsgd", "optimizer": "sgd", "sampler": "fixed_order", "accountant": "gdp", "delta": 1e-3}
    steps = {"batch_size": 1, "epochs": 4, "lr": 0.3, "clip_norm": 1.0, "clip_norm_decay": 0.5}
    run = make_run(**how, **steps, noise_multiplier=0.0)
    found = attack(run, examples=8, canaries=8)
    assert found.scores[found.included] == pytest.approx(0.3 * (1 + 0.5 + 0.25 + 0.125), rel=1e-6)
    assert not found.scores[~found.included].any()
    assert (found.delta, asked) == (1e-3, ["audit", "audit places", "sampling"])
