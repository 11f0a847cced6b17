"""Methods: what they leave in the gradients, what noise they add, and what they say of their privacy."""

import math
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from conftest import make_run
from scipy import stats
from torch import nn

from lib import accounting, grads, methods, models, registry
from lib.layers import WithPublic
from lib.methods import _gradient_norms, dpsgd
from lib.methods._gradient_norms import GradientNorms
from lib.run import Run
from lib.train import train

N = 1437  # training examples of the digits


def private(**changes) -> Run:
    settings = {"method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 1.0, "noise_multiplier": 1.0}
    return make_run(**(settings | changes))


def build(run: Run, model: nn.Module | None = None, examples: int = N) -> methods.Method:
    """The method of ``run`` on the digits; the model, if it does not matter, as the run says."""
    return methods.build(run, examples, model or models.build(run.model, norm=run.norm))


def one_step(run: Run, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    build(run, model).backward(model, x, y, 0)
    return [parameter.grad for parameter in model.parameters()]


def data(examples: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    return torch.rand(examples, 1, 28, 28, generator=draws), torch.arange(examples) % 10


@pytest.mark.parametrize("gradient", ["off", "on"])
@pytest.mark.parametrize("halvings", range(9))
def test_examples_that_share_statistics_are_in_one_microbatch(gradient, halvings):
    """Of 24, which divides no size of a microbatch, however often that is halved."""
    public = {"norm": "public_batch", "statistics": "mixed", "public_dataset": "kmnist", "public_examples": 5}
    method = build(private(**public, statistics_batch=24, statistics_gradient=gradient))
    assert method._microbatch(torch.zeros(600, 1, 28, 28), halvings) % 24 == 0


@pytest.mark.parametrize("method", ["dpsgd", "si_dpsgd"])
def test_without_noise_and_clipping_it_is_sgd(method):
    plain = make_run(optimizer="sgd", lr=0.1, momentum=0.5)
    same = replace(plain, method=method, clip_norm=None, noise_multiplier=0.0, accountant="gdp")
    expected, found = train(plain), train(same)
    assert found["history"]["test_accuracy"] == expected["history"]["test_accuracy"]
    model, (x, y) = models.build("lenet5"), data(64)
    gradients = one_step(same, model, x, y)
    expected = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    torch.testing.assert_close(gradients, list(expected), rtol=1e-4, atol=1e-6)


def test_the_noise_is_z_times_the_clip_norm_over_the_batch_size():
    run = private(noise_multiplier=3.0, clip_norm=0.5, batch_size=64)
    x, y = data(0)
    gradients = one_step(run, models.build("lenet_300_100"), x, y)  # an empty batch is noise alone
    values = torch.cat([g.flatten() for g in gradients])
    assert values.std() == pytest.approx(3.0 * 0.5 / 64, rel=0.01)  # 266,610 values: seven standard errors
    assert stats.kstest(values[:5000].numpy() / (3.0 * 0.5 / 64), "norm").pvalue > 1e-3


def test_the_sum_is_divided_by_the_expected_batch_size_whatever_came():
    model, (x, y) = models.build("lenet_300_100"), data(20)
    few, many = (one_step(private(noise_multiplier=0.0, batch_size=size), model, x, y) for size in (10, 40))
    torch.testing.assert_close(few, [4 * g for g in many])


class TestMemory:
    """That of a GPU, which runs out where more than ``most`` examples are gone through at once."""

    @pytest.fixture
    def tried(self, monkeypatch):
        sizes, most = [], 20

        def clipped_sum(*of, microbatch_size, **how):
            sizes.append(microbatch_size)
            if microbatch_size > most:
                raise torch.OutOfMemoryError
            return grads.clipped_sum(*of, microbatch_size=microbatch_size, **how)

        monkeypatch.setattr(dpsgd, "clipped_sum", clipped_sum)
        monkeypatch.setattr(_gradient_norms, "clipped_sum", clipped_sum)
        return sizes

    def test_as_many_are_gone_through_at_once_as_it_holds(self, tried):
        model, (x, y) = models.build("lenet5"), data(60)
        method = build(private(clip_norm=0.1))
        total = method.summed(model, x, y, 0)
        expected, _ = grads.clipped_sum(model, dpsgd.cross_entropy, x, y, clip_norm=0.1)
        torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-6)
        method.summed(model, x, y, 1)
        assert tried == [256, 128, 64, 32, 16, 16]

    def test_so_are_they_under_individual_clipping_as_batch_clipping_has_it(self, tried):
        model, (x, y) = models.build("lenet5"), data(60)
        total = build(private(method="batch_clipping", clip_norm=0.1), model).summed(model, x, y, 0)
        expected, _ = grads.clipped_sum(model, dpsgd.cross_entropy, x, y, clip_norm=0.1)
        torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-6)
        assert tried == [256, 128, 64, 32, 16]

    def test_so_are_public_examples_whose_gradients_are_measured(self, tried):
        model, public = models.build("lenet5"), data(30)
        norms, measured = GradientNorms(30).measure(model, public), GradientNorms(20)
        assert tried == [256, 128, 64, 32, 16]
        first = measured.measure(model, public)
        torch.testing.assert_close({name: norm[:20] for name, norm in norms.items()}, first)

    def test_examples_that_share_statistics_are_not_torn_apart(self, tried):
        settings = {"norm": "public_batch_without_affine", "statistics": "mixed", "public_examples": 5}
        run = private(**settings, statistics_batch=24, model="lenet_300_100")
        model = WithPublic(
            models.build(run.model, norm=run.norm), data(5)[0], statistics="mixed", gradient=True, shared_by=24
        )
        with pytest.raises(torch.OutOfMemoryError):
            build(run, model).summed(model, *data(48), 0)
        assert tried[-1] == 24


@pytest.mark.parametrize("clipped", ["gradient", "layer"])
def test_one_example_moves_the_sum_by_at_most_the_clip_norm(clipped):
    run = private(clip_norm=0.01, clipped=clipped)
    model, (x, y) = models.build("lenet5", norm="layer"), data(5)
    method = build(run)
    whole, without = (method.summed(model, x[:n], y[:n], 0) for n in (5, 4))
    moved = sum((whole[name] - without[name]).square().sum() for name in whole).sqrt()
    assert moved == pytest.approx(0.01, rel=1e-3)  # the bound is reached: every layer's gradient is longer than C/√L


def test_of_an_examples_views_the_mean_gradient_is_clipped():
    """So an example moves the sum by no more than with a single view, and the proof is the same."""
    run = private(clip_norm=0.01, augmentation="shift", augmult=3)
    model, (x, y), method = models.build("lenet5", norm="layer"), data(15), build(run)
    gradients = []
    for i in range(5):
        loss = F.cross_entropy(model(x[3 * i : 3 * i + 3]), y[i].expand(3))
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        gradients.append(gradient * min(1.0, 0.01 / float(gradient.norm())))
    whole, without = (
        torch.cat([g.flatten() for g in method.summed(model, x[: 3 * n], y[:n], 0).values()]) for n in (5, 4)
    )
    torch.testing.assert_close(whole, sum(gradients), rtol=1e-4, atol=1e-7)
    assert (whole - without).norm() == pytest.approx(0.01, rel=1e-3)
    assert method.privacy() == build(replace(run, augmult=1)).privacy()


def test_clip_norm_and_noise_follow_their_factors_epoch_by_epoch():
    run = private(batch_size=N // 4, epochs=3, clip_norm=2.0, clip_norm_decay=0.5, noise_multiplier_decay=0.9)
    method = build(run)
    steps = [0, 3, 4, 11]
    assert [method.clip_norm(step) for step in steps] == [2.0, 2.0, 1.0, 0.5]
    assert [method.noise_std(step) for step in steps] == pytest.approx([2.0, 2.0, 0.9, 0.81 * 0.5])
    events = [(event.noise_multiplier, event.steps) for event in method.budget.events]
    assert events == [(1.0, 4), (0.9, 4), (pytest.approx(0.81), 4)]


SPENT_BY_PCA = {"model": "pca_1000", "pca_noise_multiplier": 4.0, "noise_multiplier": 5.0, "epsilon": 0.5}


class TestBudget:
    def test_noise_from_epsilon(self):
        run = private(noise_multiplier=None, epsilon=2.0, batch_size=128)
        block = build(run).privacy()
        assert block["steps"] == 2 * (N // 128)
        assert block["claimed"]["pld"] == pytest.approx(2.0, rel=1e-3)
        assert block["claimed"]["pld"] <= 2.0
        assert block["noise_multiplier"] == pytest.approx(
            accounting.noise_multiplier(epsilon=2.0, sampling_prob=128 / N, steps=block["steps"])
        )

    def test_steps_from_epsilon_and_noise(self):
        method = build(private(noise_multiplier=1.0, epsilon=1.5, epochs=50))
        one_more = accounting.epsilon(noise_multiplier=1.0, sampling_prob=64 / N, steps=method.steps + 1)
        assert 0 < method.steps < 50 * (N // 64)
        assert method.privacy()["claimed"]["pld"] <= 1.5 < one_more

    def test_training_ends_when_it_is_spent(self):
        run = private(noise_multiplier=1.0, epsilon=1.5, epochs=50)
        record = train(run)
        steps = build(run).steps
        assert record["privacy"]["steps"] == steps
        assert len(record["history"]["test_accuracy"]) == math.ceil(steps / (N // 64)) < 50

    def test_a_budget_that_is_not_reached_ends_nothing(self):
        assert build(private(epsilon=1e3)).steps == 2 * (N // 64)

    def test_private_pca_is_part_of_it(self):
        run = private(noise_multiplier=None, epsilon=2.0, accountant="rdp", model="pca_1000")
        with_pca, without = (build(replace(run, pca_noise_multiplier=z)) for z in (4.0, None))
        assert with_pca.budget.noise_multiplier > 1.05 * without.budget.noise_multiplier
        assert with_pca.budget.events == [accounting.Event(4.0, 1.0, 1), *with_pca.budget.events[1:]]
        assert with_pca.budget.epsilon("rdp") <= 2.0

    def test_a_schedule_of_noise_is_within_it(self):
        run = private(noise_multiplier=None, epsilon=2.0, accountant="rdp", noise_multiplier_decay=0.9)
        assert build(run).budget.epsilon("rdp") == pytest.approx(2.0, rel=1e-3)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"noise_multiplier": None}, "noise_multiplier: expected one, or an epsilon, for method 'dpsgd'; got None"),
            ({"clip_norm": None}, "clip_norm: expected one for method 'dpsgd'"),
            ({"noise_multiplier": 0.01, "epsilon": 0.1}, "epsilon: expected enough for one step at noise multiplier"),
            (SPENT_BY_PCA, "epsilon: expected enough for one step at noise multiplier 5; got 0.5"),
            (
                SPENT_BY_PCA | {"noise_multiplier_decay": 0.9},
                "epsilon: expected enough for one step at noise multiplier 5; got 0.5",
            ),
            (
                {"noise_multiplier": None, "epsilon": 0.1, "accountant": "moments"},
                "epsilon: expected at least .*; got 0.1",
            ),
        ],
    )
    def test_what_cannot_be_kept_to_is_refused(self, changes, message):
        with pytest.raises(ValueError, match=message):
            build(private(**changes))


@pytest.mark.parametrize(
    ("sampler", "relation", "accountant", "prover"),
    [
        ("poisson", "add_or_remove_one", "rdp_2020", "pld"),
        ("poisson", "replace_one", "pld", "pld"),
        ("with_replacement", "add_or_remove_one", "pld", "pld"),
        ("without_replacement", "replace_one", "clt", "pld"),
        ("shuffled", "add_or_remove_one", "gdp", "gdp"),
        ("shuffled", "replace_one", "gdp", "gdp"),
    ],
)
def test_the_claimed_epsilon_is_the_accountants_and_the_proven_one_an_upper_bound(
    sampler, relation, accountant, prover
):
    run = private(sampler=sampler, neighbouring_relation=relation, accountant=accountant, noise_multiplier=4.0)
    block = build(run).privacy()
    assert (block["sampler"], block["neighbouring_relation"], block["delta"]) == (sampler, relation, 1e-5)
    how = {"noise_multiplier": 4.0, "sampling_prob": 64 / N, "steps": 2 * (N // 64)}
    how |= {"sampler": sampler, "neighbouring_relation": relation}
    assert block["claimed"] == {accountant: accounting.epsilon(**how, accountant=accountant)}
    assert block["proven"]["epsilon"] == accounting.epsilon(**how, accountant=prover)
    assert accounting.is_upper_bound(accountant=prover)
    assert "not counted" in block["proven"]["assumes"]


def test_where_one_accountant_has_no_bound_the_next_is_asked():
    """A δ that pld's own rounding exceeds; without noise nobody has one."""
    proven = build(private(delta=1e-14)).privacy()["proven"]
    how = {"noise_multiplier": 1.0, "sampling_prob": 64 / N, "steps": 2 * (N // 64), "delta": 1e-14}
    assert math.isinf(accounting.epsilon(**how))
    assert proven["epsilon"] == accounting.epsilon(**how, accountant="rdp")
    assert proven["why"].endswith("accountant rdp")
    assert build(private(noise_multiplier=0.0)).privacy()["proven"]["why"].endswith("accountant pld")


def test_what_a_proof_assumes_is_said():
    assumes = build(private()).privacy()["proven"]["assumes"]
    for assumed in ("number of classes", "the seed and the data's hash, which are published here"):
        assert assumed in assumes
    assert "channels" not in assumes
    scaled = build(private(input_scale="standardised")).privacy()["proven"]["assumes"]
    assert "mean and standard deviation of the images' channels are public" in scaled


@pytest.mark.parametrize("method", ["dpsgd", "si_dpsgd"])
@pytest.mark.parametrize(("examples", "large"), [(999, False), (1000, True)])
def test_of_a_delta_that_lets_an_example_be_published_it_is_said(method, examples, large):
    proven = build(private(method=method, delta=1e-3), examples=examples).privacy()["proven"]
    assert proven["epsilon"] is not None
    assert ("publishing one of the examples" in proven["why"]) == large


def test_an_accountant_that_cannot_count_the_run_is_refused_before_training():
    with pytest.raises(ValueError, match="sampling_prob: expected 1 for accountant 'gdp'"):
        build(private(accountant="gdp"))


@pytest.mark.parametrize("noise", [{"noise_multiplier": 1e-5}, {"noise_multiplier_decay": 1e-5}], ids=str)
def test_noise_too_small_for_the_tightest_accountant_is_counted_by_another_and_the_run_is_kept(noise):
    """It is trained by the time that its privacy is told."""
    run = private(accountant="rdp", **noise)
    with pytest.raises(ValueError, match="expected what accountant 'pld' can count"):
        build(run).budget.epsilon("pld")
    block = build(run).privacy()
    assert block["proven"]["epsilon"] == block["claimed"]["rdp"] > 1e6
    assert block["proven"]["why"] == "sensitivity C, accountant rdp"


def test_without_noise_no_accountant_is_asked():
    block = build(private(noise_multiplier=0.0, sampler="shuffled")).privacy()
    assert (block["claimed"], block["proven"]["epsilon"]) == ({"pld": None}, None)


def test_without_noise_nothing_is_proven():
    block = build(private(noise_multiplier=0.0)).privacy()
    assert (block["claimed"], block["proven"]["epsilon"]) == ({"pld": None}, None)


class TestSIDPSGD:
    def test_the_claim_is_not_taken_for_proven(self):
        block = build(private(method="si_dpsgd", accountant="rdp_2020")).privacy()
        assert block["claimed"]["rdp_2020"] > 0
        how = {"sampling_prob": 64 / N, "steps": 2 * (N // 64)}
        least = accounting.si_dpsgd_epsilon(noise_multiplier=1.0, **how)
        most = accounting.si_dpsgd_proven_epsilon(moved=math.sqrt(how["steps"]), **how)
        assert block["proven"]["epsilon"] == pytest.approx(most)
        assert most > least > block["claimed"]["rdp_2020"]
        assert block["proven"]["why"] == (
            "claim not proven, as earlier participations add up; proven of all θ_t together; "
            f"for a linear loss θ_T alone has ε = {least:.3g}"
        )

    def test_schedule_and_momentum_are_in_what_is_proven(self):
        changes = {"method": "si_dpsgd", "accountant": "rdp_2020", "lr_schedule": "exponential", "lr_decay": 0.5}
        plain, falling, with_momentum = (
            build(private(**change)).privacy()["proven"]["epsilon"]
            for change in ({"method": "si_dpsgd"}, changes, changes | {"momentum": 0.9})
        )
        assert plain < falling < with_momentum

    def test_the_first_weights_are_noised_if_the_run_says_so(self):
        """The first gradient is taken at θ_0, but µ_1 goes on from µ_0."""
        run = private(method="si_dpsgd", noise_multiplier=3.0, lr=0.2, first_weights="noised")
        method, model = build(run), models.build("lenet_300_100")
        start = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        optimizer = torch.optim.SGD(model.parameters(), lr=run.lr)
        method.backward(model, *data(0), 0)
        first = torch.nn.utils.parameters_to_vector(model.parameters()).detach() - start
        method.update(model, optimizer)
        second = torch.nn.utils.parameters_to_vector(model.parameters()).detach() - start
        assert first.std() == pytest.approx(0.2 * 3.0 / 64, rel=0.01)
        assert second.std() == pytest.approx(0.2 * 3.0 / 64, rel=0.01)
        assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.01

    @pytest.mark.parametrize("first_weights", ["exact", "noised"])
    def test_only_the_noise_of_the_last_step_is_on_the_weights(self, first_weights):
        """Gradients of 0: µ stays where it began, and θ − µ is (η/L) N(0, z²C²) however many steps were made."""
        run = private(method="si_dpsgd", noise_multiplier=3.0, clip_norm=0.5, lr=0.2, first_weights=first_weights)
        method, model = build(run), models.build("lenet_300_100")
        start = [p.detach().clone() for p in model.parameters()]
        optimizer = torch.optim.SGD(model.parameters(), lr=run.lr)
        x, y = data(0)
        for step in range(10):
            method.backward(model, x, y, step)
            method.update(model, optimizer)
        moved = torch.cat([(p - q).detach().flatten() for p, q in zip(model.parameters(), start, strict=True)])
        assert moved.std() == pytest.approx(0.2 * 3.0 * 0.5 / 64, rel=0.01)

    @pytest.mark.parametrize("test_at", ["theta", "mu"])
    def test_it_is_tested_where_the_run_says(self, test_at):
        method, model = build(private(method="si_dpsgd", test_at=test_at)), models.build("lenet_300_100")
        start = model[1].weight.detach().clone()
        method.backward(model, *data(0), 0)
        method.update(model, torch.optim.SGD(model.parameters(), lr=0.1))
        noised = model[1].weight.detach().clone()
        with method.tested(model):
            assert torch.equal(model[1].weight, start) == (test_at == "mu")
        assert torch.equal(model[1].weight, noised)
        assert not torch.equal(noised, start)

    def test_the_authors_way_of_testing_says_so(self):
        block = build(private(method="si_dpsgd", test_at="mu")).privacy()
        assert block["proven"]["why"].endswith("µ_T is used without noise")

    @pytest.mark.parametrize("noise_multiplier", [1.0, 1000.0])
    @pytest.mark.parametrize(("lr", "rounded"), [(1e-6, True), (5e-3, False)])
    def test_nothing_is_proven_where_rounding_makes_an_examples_move_longer(self, lr, rounded, noise_multiplier):
        """However large the noise is: µ is rounded before it comes."""
        run = private(method="si_dpsgd", lr=lr, noise_multiplier=noise_multiplier)
        (x, y), first = data(64), models.build("lenet_300_100")
        means = []
        for examples in (64, 63):
            model = deepcopy(first)
            method = build(run, model)
            method.backward(model, x[:examples], y[:examples], 0)
            method.update(model, torch.optim.SGD(model.parameters(), lr=lr))
            means.append(torch.cat([mean.flatten() for mean in method._means]).double())
        proven = method.privacy()["proven"]
        assert (proven["epsilon"] is None) == rounded
        assert proven["why"].endswith("their rounding tells it apart") == rounded
        moved = (means[0] - means[1]).norm() / (lr * 1.0 / 64)  # in what is counted for an example
        assert moved > 1.4 if rounded else moved < 1.0001

    @pytest.mark.parametrize(("times", "proven"), [(0.99, False), (1.01, True)])
    def test_an_examples_move_has_to_be_32_times_what_rounding_moves_all_weights(self, times, proven):
        """It is ηC/L, and the last digits together are 2⁻²³ ‖θ_0‖."""
        model = models.build("lenet_300_100")
        length = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).norm().item()
        run = private(method="si_dpsgd", clip_norm=0.5)
        run = replace(run, lr=times * 32 * 2.0**-23 * length * run.batch_size / 0.5)
        assert (build(run, model).privacy()["proven"]["epsilon"] is not None) == proven

    def test_private_pca_is_refused_as_no_proof_counts_it(self):
        with pytest.raises(ValueError, match="pca_noise_multiplier: expected None"):
            build(private(method="si_dpsgd", pca_noise_multiplier=16.0))

    def test_adam_is_refused(self):
        with pytest.raises(ValueError, match="optimizer: expected sgd for method 'si_dpsgd'"):
            build(private(method="si_dpsgd", optimizer="adam"))


@pytest.mark.parametrize(("method", "factor"), [("dpsgd", math.sqrt(2)), ("si_dpsgd", 1.0)])
def test_two_steps_of_weights_have_the_variances_of_v1(method, factor):
    """v1 equations 10 to 12, on one weight with a gradient that is clipped to C in every step.

    After two steps DPSGD's weight is θ_0 − 2ηC + η N(0, 2z²C²): the standard deviation grows by √2, where the paper
    prints a factor of 2 on σ (a variance of 4).  SI-DPSGD's is θ_0 − 2ηC + η N(0, z²C²).
    """
    copies, lr, z, clip = 1500, 0.1, 2.0, 0.5
    ends = []
    for seed in range(copies):
        run = private(method=method, noise_multiplier=z, clip_norm=clip, lr=lr, batch_size=1, seed=seed, epochs=1)
        ends.append(_two_steps(run))
    ends = torch.tensor(ends)
    expected = factor * lr * z * clip
    assert ends.mean() == pytest.approx(-2 * lr * clip, abs=4 * expected / copies**0.5)
    assert ends.std() == pytest.approx(expected, rel=4 / (2 * copies) ** 0.5)


def _two_steps(run: Run) -> float:
    method, weight = with_linear_loss(run), nn.Linear(1, 1, bias=False)
    nn.init.zeros_(weight.weight)
    optimizer = torch.optim.SGD(weight.parameters(), lr=run.lr)
    for step in range(2):
        method.backward(weight, torch.ones(1, 1), torch.zeros(1, dtype=torch.int64), step)
        method.update(weight, optimizer)
    return weight.weight.item()


def with_linear_loss(run: Run):
    """The run's method with the loss w·x, whose gradient is 1 > C."""
    method = build(run, nn.Linear(1, 1), 10)
    method.summed = lambda model, x, y, step: {"weight": torch.full((1, 1), method.clip_norm(step))}
    return method


def test_noisy_sgd_adds_noise_of_its_scale_to_the_mean_gradient():
    model, (x, y) = models.build("lenet_300_100"), data(20)
    clean = one_step(make_run(), model, x, y)
    noisy = one_step(make_run(method="noisy_sgd", gradient_noise_std=0.3), model, x, y)
    noise = torch.cat([(a - b).flatten() for a, b in zip(noisy, clean, strict=True)])
    assert noise.std() == pytest.approx(0.3, rel=0.01)


OTHER_SETTINGS = {
    "noisy_sgd": {"gradient_noise_std": 0.01},
    "adaptive_layerwise": {"public_examples": 100, "gradient_norm_examples": 50},
    "correlated_noise": {"noise_power": 0.5, "noise_bands": 2},
}


@pytest.mark.parametrize("method", registry.names("methods"))
def test_every_method_trains_and_says_what_it_is_worth(method):
    own = getattr(registry.load("methods", method), "SETTINGS", frozenset())
    is_private, settings = "noise_multiplier" in own, OTHER_SETTINGS.get(method, {})
    record = train(private(method=method, lr=0.5, **settings) if is_private else make_run(method=method, **settings))
    assert record["metrics"]["test_accuracy"] > 30
    assert record["privacy"]["proven"]["why"]
    assert (record["history"]["train_loss"][0] is None) == is_private  # a private loss is not recorded


@pytest.mark.parametrize(
    ("file", "got"),
    [
        (SimpleNamespace(), "None"),
        (SimpleNamespace(build=lambda run, model: None), r"one that takes \(run, model\)"),
        (SimpleNamespace(build=lambda run, examples, model: "SGD"), "'SGD'"),
    ],
)
def test_a_file_that_builds_no_method_is_refused(file, got, monkeypatch):
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda room, name: file if name == "non_private" else load(room, name))
    expected = r"lib/methods/non_private\.py: expected build\(run, examples, model\) that returns a Method"
    with pytest.raises(ValueError, match=f"{expected}; got {got}"):
        build(make_run())


@pytest.mark.parametrize("said", [{"decay_of_mine"}, "clip_norm"])
def test_settings_that_are_no_fields_are_refused_with_the_file_that_says_them(said, monkeypatch):
    load = registry.load
    mine = SimpleNamespace(SETTINGS=said)
    monkeypatch.setattr(registry, "load", lambda room, name: mine if name == "mine" else load(room, name))
    with pytest.raises(ValueError, match=r"^lib/methods/mine\.py: SETTINGS: expected names of Run's fields; got"):
        methods._settings("mine")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (make_run(clip_norm=1.0), "clip_norm: expected None for method 'non_private'; got 1.0"),
        (make_run(sampler="poisson"), "sampler: expected 'shuffled' for method 'non_private'; got 'poisson'"),
        (private(weight_noise_std=1.0), "weight_noise_std: expected 0.0 for method 'dpsgd'; got 1.0"),
        (
            private(norm="batch"),
            "norm: expected another for method 'dpsgd' .*; got 'batch', which makes every",
        ),
        (
            private(method="si_dpsgd", norm="batch"),
            "norm: expected another for method 'si_dpsgd' .*; got 'batch', which makes every",
        ),
        (private(test_at="mu"), "test_at: expected 'theta' for method 'dpsgd'; got 'mu'"),
        (private(batch_size=N + 1), f"batch_size: expected 1 to {N}"),
    ],
)
def test_settings_that_a_method_does_not_have_are_refused(run, message):
    with pytest.raises(ValueError, match=message):
        build(run)


@pytest.mark.parametrize("clipped", ["gradient", "layer"])
def test_the_clip_norm_of_a_sum_is_that_of_its_step(clipped):
    run = private(batch_size=1337 // 4, epochs=3, clip_norm=0.01, clip_norm_decay=0.1, clipped=clipped)
    model, (x, y) = models.build("lenet5", norm="layer"), data(1)
    method = build(run)
    for step, expected in ((0, 0.01), (method.sampler.steps_per_epoch, 1e-3)):
        total = method.summed(model, x, y, step)
        assert sum(value.square().sum() for value in total.values()).sqrt() == pytest.approx(expected, rel=1e-3)


def test_so_is_that_of_runs_together():
    runs = [
        private(model="tf_privacy", batch_size=144, epochs=3, clip_norm=c, clip_norm_decay=0.1, noise_multiplier=0.0)
        for c in (0.01, 0.02)
    ]
    nets = [models.build("lenet_300_100") for _ in runs]
    each = [build(run) for run in runs]
    type(each[0]).backward_together(each, nets, [data(1)] * 2, each[0].sampler.steps_per_epoch)
    for net, expected in zip(nets, (1e-3, 2e-3), strict=True):
        total = {n: p.grad * 144 for n, p in net.named_parameters()}
        assert sum(v.square().sum() for v in total.values()).sqrt() == pytest.approx(expected, rel=1e-3)


def test_the_step_size_falls_over_the_runs_epochs_wherever_its_budget_ends_it():
    method = build(private(noise_multiplier=1.0, epsilon=2.0, epochs=50, accountant="rdp", lr_schedule="linear"))
    whole = 50 * method.sampler.steps_per_epoch
    assert method.steps < whole
    assert method.lr_factor(method.steps) == pytest.approx(1 - method.steps / whole)


def test_nothing_is_proven_where_rounding_makes_the_last_steps_moves_longer():
    proven = build(private(method="si_dpsgd", lr=0.1, lr_schedule="exponential", lr_decay=1e-6)).privacy()["proven"]
    assert proven["epsilon"] is None
    assert proven["why"].endswith("their rounding tells it apart")


@pytest.mark.parametrize(
    "changes",
    [
        {"lr_schedule": "linear"},
        {"momentum": 0.5},
        {"noise_multiplier_decay": 0.9},
        {"clip_norm_decay": 0.9},
        {"neighbouring_relation": "replace_one"},
        {"sampler": "fixed_order", "accountant": "gdp"},
    ],
    ids=str,
)
def test_of_a_linear_loss_nothing_is_said_where_it_is_not_known(changes):
    assert "linear loss" not in build(private(method="si_dpsgd", lr=0.1, **changes)).privacy()["proven"]["why"]


def test_the_noise_on_the_first_weights_is_of_the_first_steps_size():
    run = private(method="si_dpsgd", noise_multiplier=3.0, lr=0.2, first_weights="noised", lr_schedule="one_cycle")
    method, model = build(run), models.build("lenet_300_100")
    start = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    method.backward(model, *data(0), 0)
    first = torch.nn.utils.parameters_to_vector(model.parameters()).detach() - start
    assert first.std() == pytest.approx(0.2 / 25 * 3.0 / 64, rel=0.01)


def test_an_epoch_that_the_budget_cuts_short_is_counted():
    method = build(
        private(
            noise_multiplier=3.0, noise_multiplier_decay=0.9, epsilon=1.5, epochs=9, accountant="rdp", batch_size=144
        )
    )
    per_epoch = method.sampler.steps_per_epoch
    assert method.steps % per_epoch
    assert [event.steps for event in method.budget.events] == [
        *[per_epoch] * (method.steps // per_epoch),
        method.steps % per_epoch,
    ]


def test_correlated_noise_has_no_share_for_statistics():
    noised = {"norm": "noised_batch_without_affine", "statistics_share": 0.2, "statistics_clip_norm": 1.0}
    with pytest.raises(ValueError, match=r"statistics_share: expected 0.0 for method 'correlated_noise'; got 0.2"):
        build(private(method="correlated_noise", noise_power=0.5, noise_bands=4, **noised))


def test_a_budget_that_is_a_little_short_of_the_whole_run_ends_it():
    run = private()
    whole = build(run)
    short = build(replace(run, epsilon=0.99 * whole.privacy()["claimed"]["pld"]))
    assert short.steps < whole.steps
    assert short.privacy()["claimed"]["pld"] <= short.run.epsilon


def test_the_noise_on_the_weights_is_of_the_steps_own_size():
    run = private(method="si_dpsgd", noise_multiplier=3.0, clip_norm=0.5, lr=0.2)
    method, model = build(run), models.build("lenet_300_100")
    start = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # as a schedule leaves it
    method.backward(model, *data(0), 0)
    method.update(model, optimizer)
    moved = torch.cat([p.detach().flatten() for p in model.parameters()]) - start
    assert moved.std() == pytest.approx(0.05 * 3.0 * 0.5 / 64, rel=0.01)


@pytest.mark.parametrize(("times", "proven"), [(0.9, False), (1.1, True)])
def test_a_move_is_long_beside_32_last_digits_of_all_weights(times, proven):
    """An example moves µ by η C/L."""
    model = models.build("lenet_300_100")
    length = torch.cat([p.detach().flatten() for p in model.parameters()]).norm().item()
    lr = times * 32 * 2.0**-23 * length * 64
    run = private(method="si_dpsgd", lr=lr, clip_norm=1.0, noise_multiplier=10.0)
    assert (build(run, model).privacy()["proven"]["epsilon"] is not None) is proven


def test_a_gradient_is_followed_however_it_lies_in_memory():
    """Fused steps on a CPU go through gradient and parameter in the order of memory, each in its own."""
    model = nn.Conv2d(3, 4, 3, bias=False)
    gradient = torch.randn(4, 3, 3, 3).contiguous(memory_format=torch.channels_last)
    expected = model.weight.detach() - gradient
    model.weight.grad = gradient.clone()
    build(make_run(), model).update(model, torch.optim.SGD(model.parameters(), lr=1.0, fused=True))
    torch.testing.assert_close(model.weight.detach(), expected)


def test_the_step_size_falls_over_as_many_epochs_as_the_run_says():
    run = private(epochs=4, lr_schedule="linear_then_constant", lr_decay=0.5, lr_decay_epochs=2)
    method = build(run)
    per_epoch = method.sampler.steps_per_epoch
    assert [method.lr_factor(epoch * per_epoch) for epoch in range(4)] == pytest.approx([1.0, 0.75, 0.5, 0.5])


def test_where_all_share_statistics_they_are_in_one_microbatch():
    public = {"norm": "public_batch", "statistics": "mixed", "public_dataset": "kmnist", "public_examples": 5}
    for gradient in ("off", "on"):
        method = build(private(**public, statistics_gradient=gradient))
        assert method._microbatch(torch.zeros(600, 1, 28, 28), 0) >= 600


def test_of_a_budget_the_linear_loss_has_the_noise_that_was_found():
    """Where the run gives ε, and no noise multiplier."""
    method = build(private(method="si_dpsgd", noise_multiplier=None, epsilon=2.0))
    how = {"sampling_prob": 64 / N, "steps": method.steps}
    least = accounting.si_dpsgd_epsilon(noise_multiplier=method.budget.noise_multiplier, **how)
    assert method.privacy()["proven"]["why"].endswith(f"θ_T alone has ε = {least:.3g}")


def test_noisy_updates_of_every_seed_are_of_their_own():
    model, (x, y) = models.build("lenet_300_100"), data(4)
    runs = [make_run(method="noisy_sgd", gradient_noise_std=0.3, seed=seed) for seed in (0, 1)]
    assert not any(map(torch.equal, *(one_step(run, model, x, y) for run in runs)))
