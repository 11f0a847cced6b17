"""Batch clipping and adaptive layerwise clipping: what is clipped, to what, with how much noise, and at what ε."""

import copy
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from conftest import make_run
from torch import nn

from lib import accounting, methods, models
from lib.methods import adaptive_layerwise
from lib.methods._converged import Converged
from lib.methods._gradient_norms import GradientNorms
from lib.run import Run
from lib.train import train

N, M = 1337, 100  # the digits without their public ones
HOW = {"sampler": "without_replacement", "neighbouring_relation": "replace_one", "accountant": "clt"}


def bc(**changes) -> Run:
    """Batch clipping of whole batches of 64, without noise."""
    settings = {"method": "batch_clipping", "optimizer": "sgd", "clip_norm": 0.1, "noise_multiplier": 0.0, **HOW}
    return make_run(**(settings | {"mini_set_size": 64, "public_examples": M} | changes))


def alc(**changes) -> Run:
    return bc(**({"method": "adaptive_layerwise", "gradient_norm_examples": 50} | changes))


def examples(count: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    return torch.rand(count, 1, 28, 28, generator=draws), torch.arange(count) % 10


def prepared(run: Run, model: nn.Module) -> methods.Method:
    method = methods.build(run, N, model)
    method.prepare(model, examples(M))
    return method


def gradients(run: Run, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    prepared(run, model).backward(model, x, y, 0)
    return {name: p.grad for name, p in model.named_parameters()}


def mean_gradient(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    found = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    return dict(zip(dict(model.named_parameters()), found, strict=True))


def norm(gradient: dict[str, torch.Tensor]) -> torch.Tensor:
    return sum(g.square().sum() for g in gradient.values()).sqrt()


class TestGeneralBatchClipping:
    def test_a_model_that_keeps_what_it_sees_is_refused_but_for_batch_norm(self):
        model, (x, y) = models.build("lenet_300_100"), examples()
        model.register_buffer("mean", torch.zeros(()))
        model.register_forward_hook(lambda model, inputs, output: model.mean.copy_(inputs[0].mean()) and None)
        with pytest.raises(ValueError, match="mean: expected a buffer or parameter that does not depend"):
            methods.build(bc(), N, model).summed(model, x, y, 0)
        averaged = models.build("lenet_300_100", norm="batch").train()
        methods.build(bc(norm="batch"), N, averaged).summed(averaged, x, y, 0)
        assert any(name.endswith("running_mean") for name, _ in averaged.named_buffers())

    @pytest.mark.parametrize("size", [1, 64])
    def test_its_clip_norm_is_that_of_the_step(self, size):
        """Whether or not an epoch has begun in between."""
        run = bc(mini_set_size=size, clip_norm_decay=0.1, epochs=3)
        model, (x, y) = models.build("lenet_300_100"), examples()
        method = methods.build(run, N, model)
        for step in (0, method.sampler.steps_per_epoch, 2 * method.sampler.steps_per_epoch, 0):
            expected = method.clip_norm(step)
            one = slice(1 if size == 1 else None)
            assert norm(method.summed(model, x[one], y[one], step)) == pytest.approx(expected, rel=1e-4)

    @pytest.mark.parametrize("size", [1, 16])
    def test_it_clips_the_model_that_it_is_given(self, size):
        """As a copy, on which one looks at what an example changes."""
        model, (x, y) = models.build("lenet_300_100"), examples(32)
        method = methods.build(bc(mini_set_size=size), N, model)
        expected = method.summed(model, x, y, 0)
        for name, total in method.summed(copy.deepcopy(model), x, y, 0).items():
            torch.testing.assert_close(total, expected[name])

    @pytest.mark.parametrize("size", [1, 2, 16, 64])
    def test_it_is_a_loop_over_mini_sets(self, size):
        model, (x, y) = models.build("lenet_300_100"), examples()
        expected = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        for part in zip(x.split(size), y.split(size), strict=True):
            gradient = mean_gradient(model, *part)
            for name, g in gradient.items():
                expected[name] += g * min(1.0, 0.1 / norm(gradient)) / (64 // size)
        torch.testing.assert_close(gradients(bc(mini_set_size=size), model, x, y), expected, rtol=1e-4, atol=1e-6)

    def test_mini_sets_of_one_are_individual_clipping(self):
        """GBC(m, 1) = IC: DPSGD's gradients to the bit."""
        model, (x, y) = models.build("lenet5"), examples()
        one = gradients(bc(mini_set_size=1), model, x, y)
        dpsgd = gradients(bc(method="dpsgd", mini_set_size=1), model, x, y)
        assert all(torch.equal(one[name], dpsgd[name]) for name in one)

    def test_one_mini_set_is_batch_clipping(self):
        """GBC(1, m) = BC, and TensorFlow Privacy's num_microbatches = 1: the batch's mean gradient, clipped once."""
        model, (x, y) = models.build("lenet5", norm="batch"), examples()
        whole = mean_gradient(model, x, y)
        assert norm(whole) > 0.1
        clipped = {name: g * 0.1 / norm(whole) for name, g in whole.items()}
        torch.testing.assert_close(gradients(bc(norm="batch"), model, x, y), clipped)

    def test_averaged_over_examples_the_update_is_divided_by_m(self):
        model, (x, y) = models.build("lenet_300_100"), examples()
        for size in (2, 16, 64):
            over = [
                gradients(bc(mini_set_size=size, averaged_over=what), model, x, y)["1.weight"].clone()
                for what in ("vectors", "examples")
            ]
            torch.testing.assert_close(over[0], over[1] * size)

    @pytest.mark.parametrize("size", [1, 16, 64])
    def test_replacing_one_example_moves_the_sum_by_at_most_twice_the_clip_norm(self, size):
        """And nearly so far, under batch clipping too: an example that outweighs the others turns the mean around."""
        model, (x, y) = nn.Sequential(nn.Flatten(), nn.Linear(784, 10, bias=False)), examples()
        nn.init.zeros_(model[1].weight)  # so that the gradient is linear in x
        method, moved = methods.build(bc(mini_set_size=size), N, model), []
        for sign in (1.0, -1.0):
            x[0] = sign * 1e4
            total = method.summed(model, x, y, 0)["1.weight"]
            moved.append(total.clone())
        assert (moved[0] - moved[1]).norm() <= 2 * 0.1 * (1 + 1e-5)
        assert (moved[0] - moved[1]).norm() > 1.99 * 0.1

    @pytest.mark.parametrize(("size", "vectors"), [(1, 64), (16, 4), (64, 1)])
    def test_the_noise_is_z_times_the_clip_norm_on_the_sum_of_vectors(self, size, vectors):
        model, (x, y) = models.build("lenet_300_100"), examples(64)
        run = bc(mini_set_size=size, noise_multiplier=3.0)
        noisy, clean = (gradients(r, model, x, y) for r in (run, replace(run, noise_multiplier=0.0)))
        noise = torch.cat([(noisy[name] - clean[name]).flatten() for name in noisy])
        assert noise.std() == pytest.approx(3.0 * 0.1 / vectors, rel=0.01)


class TestLayers:
    """C_h = C·e_h/M for every tensor, C·e_h as Zhang's, one clip of a scaled whole with multiplication factors."""

    def test_every_layer_is_clipped_by_itself_to_its_share(self):
        model, (x, y) = models.build("lenet5", norm="batch"), examples()
        method = prepared(alc(norm="batch", clip_norm=1e-3), model)
        assert [len(group) for group in method.expected] == [1] * 20
        largest = max(method.expected.values())
        method.backward(model, x, y, 0)
        for (name,), expected in method.expected.items():
            clip = 1e-3 * expected / largest
            found = model.get_parameter(name).grad.norm()
            assert found <= clip * (1 + 1e-4)
            # A bias in front of batch norm moves nothing: the batch's gradient is 0; an example's by itself is not.
            assert found == pytest.approx(clip, rel=1e-3) or name.endswith("bias")

    def test_expected_norms_are_means_of_per_example_norms(self):
        model, (x, y) = models.build("lenet_300_100"), examples(M)
        method = prepared(alc(layers="modules"), model)
        norms = []
        for i in range(50):
            gradient = mean_gradient(model, x[i : i + 1], y[i : i + 1])
            norms.append(
                [(gradient[f"{m}.weight"].square().sum() + gradient[f"{m}.bias"].square().sum()).sqrt() for m in "135"]
            )
        assert list(method.expected.values()) == pytest.approx(torch.tensor(norms).mean(0).tolist(), rel=1e-4)

    def test_running_averages_of_private_batches_do_not_get_into_the_clip_norms(self):
        model = models.build("lenet5", norm="batch")
        expected = prepared(alc(norm="batch"), model).expected
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.fill_(1e3)
        assert prepared(alc(norm="batch"), model).expected == expected

    def test_clip_norms_follow_the_weights_from_epoch_to_epoch(self):
        model, (x, y) = models.build("lenet_300_100"), examples()
        method = prepared(alc(clip_norm=1e-3), model)
        method.backward(model, x, y, 0)
        with torch.no_grad():
            model[-1].weight.mul_(5.0)  # so the layers before it have larger gradients
        before = dict(method.expected)
        method.prepare(model, examples(M))
        method.backward(model, x, y, method.sampler.steps_per_epoch)
        largest = max(method.expected.values())
        for (name,), expected in method.expected.items():
            assert model.get_parameter(name).grad.norm() == pytest.approx(1e-3 * expected / largest, rel=1e-4)
        assert max(method.expected[name] / before[name] for name in before) > 2

    def test_zhangs_clip_norms_are_the_expected_norms(self):
        model = models.build("lenet_300_100")
        method = prepared(alc(adaptive_clipping="zhang", clip_norm=1.0), model)
        for (name,), expected in method.expected.items():
            assert method.groups(model, 0).reach(name) == expected

    def test_the_noise_of_a_layer_is_z_times_its_clip_norm(self):
        model, (x, y) = models.build("lenet_300_100"), examples()
        method = prepared(alc(noise_multiplier=1e4), model)  # beside so much noise the gradient is nothing
        method.backward(model, x, y, 0)
        largest = max(method.expected.values())
        for name in ("1.weight", "3.weight"):
            std = 1e4 * 0.1 * method.expected[name,] / largest
            assert model.get_parameter(name).grad.std() == pytest.approx(std, rel=0.02)

    def test_four_groups_hold_every_tensor_once_and_like_with_like(self):
        model = models.build("lenet5", norm="layer")
        method = prepared(alc(layers="four_groups"), model)
        one_by_one = prepared(alc(), model).expected
        assert len(method.expected) == 4
        assert sorted(name for group in method.expected for name in group) == sorted(
            n for n, _ in model.named_parameters()
        )
        ranges = sorted((min(one_by_one[n,] for n in g), max(one_by_one[n,] for n in g)) for g in method.expected)
        assert all(low[1] < high[0] for low, high in pairwise(ranges))

    @pytest.mark.parametrize("size", [1, 64])
    def test_multiplication_factors_leave_a_gradient_alone_that_is_not_clipped(self, size):
        model, (x, y) = models.build("lenet_300_100"), examples()
        found = gradients(
            alc(adaptive_clipping="multiplication_factors", clip_norm=1e6, mini_set_size=size), model, x, y
        )
        torch.testing.assert_close(found, mean_gradient(model, x, y), rtol=1e-3, atol=1e-6)

    def test_multiplication_factors_clip_the_scaled_whole(self):
        model, (x, y) = models.build("lenet_300_100"), examples()
        method = prepared(alc(adaptive_clipping="multiplication_factors", clip_norm=0.01), model)
        method.backward(model, x, y, 0)
        largest = max(method.expected.values())
        scaled = {n: p.grad * largest / method.expected[n,] for n, p in model.named_parameters()}
        assert norm(scaled) == pytest.approx(0.01, rel=1e-4)

    @pytest.mark.parametrize(
        ("weight", "message"), [(float("nan"), "got 0 that are finite"), (0.0, "got 50 that are finite, .* norm 0")]
    )
    def test_without_a_gradient_there_is_no_clip_norm_but_that_of_before(self, weight, message):
        model, images = models.build("lenet_300_100", classes=1), examples(M)[0]  # of one class: no gradient
        public, method = (images, torch.zeros(M, dtype=torch.long)), methods.build(alc(), N, model)
        nn.init.constant_(model[-1].weight, weight)
        with pytest.raises(ValueError, match=f"gradient_norm_examples: expected some with a gradient .*{message}"):
            method.prepare(model, public)
        method.expected = {("1.weight",): 2.0}
        method.prepare(model, public)
        assert method.expected == {("1.weight",): 2.0}

    def test_an_epoch_of_the_record_has_a_norm_for_every_tensor(self):
        record = train(alc(epochs=2))
        norms = record["history"]["gradient_norms"]
        assert len(norms) == 6
        assert all(len(values) == 2 and min(values) > 0 for values in norms.values())


class TestPrivacy:
    HOW = {"sampling_prob": 64 / N, "steps": 2 * (N // 64)} | {k: v for k, v in HOW.items() if k != "accountant"}

    @pytest.mark.parametrize("size", [1, 16, 64])
    def test_mini_sets_do_not_matter(self, size):
        block = methods.build(bc(mini_set_size=size, noise_multiplier=5.0), N, models.build("lenet5")).privacy()
        for kind, accountant in (("claimed", "clt"), ("proven", "pld")):
            epsilon = accounting.epsilon(noise_multiplier=5.0, accountant=accountant, **self.HOW)
            assert (block["claimed"]["clt"] if kind == "claimed" else block["proven"]["epsilon"]) == epsilon

    @pytest.mark.parametrize(
        ("changes", "layers"),
        [
            ({}, 10),
            ({"layers": "modules"}, 5),
            ({"layers": "four_groups"}, 4),
            ({"adaptive_clipping": "zhang"}, 10),
            ({"adaptive_clipping": "multiplication_factors"}, 1),
        ],
    )
    def test_layers_cost_the_root_of_their_number(self, changes, layers):
        block = methods.build(alc(noise_multiplier=8.0, **changes), N, models.build("lenet5")).privacy()
        expected = accounting.epsilon(noise_multiplier=8.0 / math.sqrt(layers), **self.HOW)
        assert block["proven"]["epsilon"] == pytest.approx(expected)
        assert "public" in block["proven"]["assumes"]
        assert (f"in each of {layers} layers" in block["proven"]["why"]) == (layers > 1)

    def test_bc_counts_8_layers_of_its_lenet_as_modules(self):
        model = models.build("lenet5_tanh", norm="batch", activation="tanh")
        found = {how: methods.build(alc(layers=how), N, model).budget.discount ** 2 for how in ("modules", "tensors")}
        assert found == {"modules": pytest.approx(8), "tensors": pytest.approx(16)}

    def test_noise_from_epsilon_counts_the_layers(self):
        run = alc(noise_multiplier=None, epsilon=2.0, accountant="pld")
        method = methods.build(run, N, models.build("lenet5"))
        whole = accounting.noise_multiplier(epsilon=2.0, **self.HOW)
        assert method.budget.noise_multiplier == pytest.approx(whole * math.sqrt(10), rel=1e-3)

    def test_under_poisson_sampling_a_clipped_mean_still_turns_around(self):
        poisson = {"sampler": "poisson", "neighbouring_relation": "add_or_remove_one", "accountant": "pld"}
        proven = [
            methods.build(bc(noise_multiplier=z, mini_set_size=size, **poisson), N, models.build("lenet5")).privacy()
            for z, size in ((4.0, 64), (2.0, 1))
        ]
        assert proven[0]["proven"]["epsilon"] == proven[1]["proven"]["epsilon"]

    def test_batches_can_be_drawn_with_replacement_as_bcs_text_says(self):
        """The account is of data sets that differ by an example; none is of one that is replaced."""
        how = {"sampler": "with_replacement", "neighbouring_relation": "add_or_remove_one", "accountant": "pld"}
        privacy = train(bc(noise_multiplier=4.0, **how))["privacy"]
        event = {name: privacy[name] for name in ("sampling_prob", "steps", "delta")}
        of_draws = accounting.epsilon(noise_multiplier=4.0, sampler="with_replacement", **event)
        assert privacy["proven"]["epsilon"] == of_draws
        assert of_draws > accounting.epsilon(noise_multiplier=2.0, **event)  # Poisson sampling draws it once at most
        with pytest.raises(ValueError, match="no accountant here covers it, for sampler 'with_replacement'"):
            train(bc(noise_multiplier=4.0, **how | {"neighbouring_relation": "replace_one"}))

    def test_in_every_layer_it_turns_around(self):
        """Each of L layers moves by 2C_h: together 2√L times the noise's unit."""
        poisson = {"sampler": "poisson", "neighbouring_relation": "add_or_remove_one", "accountant": "pld"}
        method = methods.build(alc(noise_multiplier=8.0, **poisson), N, models.build("lenet5"))
        assert method.budget.events[0].noise_multiplier == pytest.approx(8.0 / (2 * math.sqrt(10)))

    def test_replace_one_counts_2C_once_whatever_the_mini_sets(self):
        for size in (1, 64):
            method = methods.build(bc(mini_set_size=size, noise_multiplier=4.0), N, models.build("lenet5"))
            assert (method.budget.discount, method.budget.events[0].sensitivity) == (1.0, 2.0)

    def test_replacing_one_in_a_poisson_batch_is_refused_for_mini_sets(self):
        """With C for all others and one that is -C or C, the clipped mean jumps between -C and C, never at 0."""
        poisson = {"sampler": "poisson", "accountant": "pld", "noise_multiplier": 4.0}
        with pytest.raises(ValueError, match="sampler: expected a fixed size"):
            methods.build(bc(**poisson), N, models.build("lenet5"))
        assert methods.build(bc(mini_set_size=1, **poisson), N, models.build("lenet5"))

    def test_a_poisson_batch_is_one_mini_set_however_large_it_came(self):
        """85 examples where 64 are expected: cut into 64 and 21, the first one's removal would move the sum by 4C."""
        poisson = {"sampler": "poisson", "neighbouring_relation": "add_or_remove_one", "accountant": "pld"}
        model = nn.Linear(1, 2, bias=False)
        nn.init.zeros_(model.weight)
        method = methods.build(bc(clip_norm=1.0, noise_multiplier=4.0, **poisson), N, model)
        x = torch.tensor([1e6] + [-200.0] * 63 + [1e3] + [-10.0] * 20).unsqueeze(1)
        y = torch.zeros(len(x), dtype=torch.long)
        whole, without = (method.summed(model, *part, 0)["weight"] for part in ((x, y), (x[1:], y[1:])))
        assert (whole - without).norm() <= 2.0 + 1e-6
        assert not method.summed(model, x[:0], y[:0], 0)["weight"].any()

    def test_a_poisson_batch_of_one_is_like_an_empty_one_to_batch_norm(self):
        """It has no statistics of one row, and an abort would tell that there was one."""
        poisson = {"sampler": "poisson", "neighbouring_relation": "add_or_remove_one", "accountant": "pld"}
        model = models.build("lenet5", norm="batch")
        method = methods.build(bc(norm="batch", **poisson), N, model)
        assert not any(g.any() for g in method.summed(model, *examples(1), 0).values())
        assert any(g.any() for g in method.summed(model, *examples(2), 0).values())
        model = models.build("lenet5")  # whose single example has a gradient
        assert any(g.any() for g in methods.build(bc(**poisson), N, model).summed(model, *examples(1), 0).values())

    def test_running_averages_that_are_not_tested_must_not_be_released(self):
        run = bc(norm="batch", noise_multiplier=5.0, test_statistics="public")
        assumes = methods.build(run, N, models.build("lenet5", norm="batch")).privacy()["proven"]["assumes"]
        assert "running averages are not released" in assumes
        without = methods.build(bc(noise_multiplier=5.0), N, models.build("lenet5")).privacy()["proven"]["assumes"]
        assert "running averages" not in without

    def test_running_averages_are_not_covered(self):
        run = bc(norm="batch", noise_multiplier=5.0, test_statistics="running")
        proven = methods.build(run, N, models.build("lenet5", norm="batch")).privacy()["proven"]
        assert proven["epsilon"] is None
        assert "running averages" in proven["why"]


class TestConverged:
    @pytest.mark.parametrize("averaged_over", ["vectors", "examples"])
    def test_the_noise_that_hides_a_weight_is_that_of_its_update(self, averaged_over):
        model = models.build("lenet_300_100")
        run = bc(fix_converged="epoch", noise_multiplier=2.0, clip_norm=0.5, averaged_over=averaged_over)
        method = prepared(run, model)
        method.backward(model, torch.zeros(0, 1, 28, 28), torch.zeros(0, dtype=torch.int64), 0)
        for name in ("1.weight", "3.weight"):
            noise = model.get_parameter(name).grad.std().item()
            assert noise == pytest.approx(method._converged._stds[name], rel=0.02)

    @pytest.mark.parametrize(("rule", "share"), [("epoch", 0.655), ("hovering", 0.05)])
    def test_of_weights_that_walk_with_the_noise_alone_a_share_is_fixed(self, rule, share):
        """10,000 walks of 105 rounds, as many as a table's epoch has."""
        model, draws = nn.Linear(10_000, 1, bias=False), torch.Generator().manual_seed(0)
        converged = Converged(model, rule)
        for _ in range(105):
            model.weight.grad = 2 * torch.randn(1, 10_000, generator=draws)
            converged.hold("weight", model.weight, 2.0)
            with torch.no_grad():
                model.weight -= 0.1 * model.weight.grad
            converged.observe(model, lr=0.1)
        converged.fix(model)
        assert 1 - converged.active["weight"].float().mean().item() == pytest.approx(share, abs=0.015)

    @pytest.mark.parametrize("rule", ["epoch", "hovering"])
    def test_what_moves_less_than_noise_would_is_fixed_to_its_average(self, rule):
        """Weight 0 oscillates with the noise's size, weight 1 drifts away, weight 2 walks with twice the noise."""
        model, rounds = nn.Linear(3, 1, bias=False), 200
        nn.init.zeros_(model.weight)
        converged, draws = Converged(model, rule), torch.Generator().manual_seed(0)
        walk = torch.randn(rounds, generator=draws).cumsum(0) * 2
        for t in range(rounds):
            model.weight.grad = torch.zeros_like(model.weight)
            converged.hold("weight", model.weight, 1.0)
            with torch.no_grad():
                model.weight.copy_(torch.tensor([[5.0 + (-1) ** t, 0.2 * t, walk[t]]]))
            converged.observe(model, lr=1.0)
        converged.fix(model)
        assert converged.active["weight"].tolist() == [[False, True, True]]
        assert model.weight[0, 0].item() == pytest.approx(5.0, abs=0.01)
        assert model.weight[0, 1].item() == pytest.approx(0.2 * (rounds - 1))

    def test_a_fixed_weight_stays(self):
        model, (x, y) = models.build("lenet_300_100"), examples()
        method = prepared(bc(fix_converged="epoch", noise_multiplier=1.0), model)
        method._converged.active["1.weight"][:, :100] = False
        before = model[1].weight.detach().clone()
        method.backward(model, x, y, 0)
        method.update(model, torch.optim.SGD(model.parameters(), lr=1.0))
        assert torch.equal(model[1].weight[:, :100], before[:, :100])
        assert not torch.equal(model[1].weight[:, 100:], before[:, 100:])

    def test_training_goes_on_with_the_others(self):
        record = train(bc(fix_converged="epoch", noise_multiplier=0.5, lr=0.5, epochs=3, clip_norm=1.0))
        assert record["metrics"]["test_accuracy"] > 20


@pytest.mark.parametrize("statistics", ["running", "public", "batch"])
def test_batch_norm_is_tested_with_the_statistics_that_the_run_names(statistics):
    record = train(bc(norm="batch", test_statistics=statistics, clip_norm=None, lr=0.1, epochs=3))
    assert record["metrics"]["test_accuracy"] > 70


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (bc(mini_set_size=48), "mini_set_size: expected a divisor of batch_size 64; got 48"),
        (
            bc(mini_set_size=1, norm="batch"),
            "norm: expected another .* got 'batch', which makes every",
        ),
        (
            bc(sampler="poisson", mini_set_size=16, accountant="pld"),
            "sampler: expected a fixed size for mini-sets under replace_one.*got 'poisson'",
        ),
        (
            bc(sampler="shuffled", neighbouring_relation="add_or_remove_one", accountant="gdp"),
            "neighbouring_relation: expected replace_one for mini-sets of 64 in shuffled batches of 64",
        ),
        (bc(clipped="layer"), "clipped: expected 'gradient' for method 'batch_clipping'; got 'layer'"),
        (bc(layers="modules"), "layers: expected 'tensors' for method 'batch_clipping'; got 'modules'"),
        (bc(fix_converged="epoch", momentum=0.9), "fix_converged: expected 'never' but for sgd without momentum"),
        (bc(fix_converged="epoch", mini_set_size=1), "fix_converged: expected 'never' for method 'batch_clipping'"),
        (alc(gradient_norm_examples=0), "gradient_norm_examples: expected at least 1 for method 'adaptive_layerwise'"),
        (
            bc(sampler="poisson", neighbouring_relation="add_or_remove_one", mini_set_size=16, accountant="pld"),
            "neighbouring_relation: expected replace_one for mini-sets of 16 in poisson batches of 64",
        ),
        (
            bc(
                sampler="with_replacement",
                neighbouring_relation="add_or_remove_one",
                mini_set_size=16,
                accountant="pld",
            ),
            "neighbouring_relation: expected replace_one for mini-sets of 16 in with_replacement batches of 64",
        ),
        (
            bc(sampler="balls_and_bins", neighbouring_relation="add_or_remove_one"),
            "neighbouring_relation: expected replace_one for mini-sets of 64 in balls_and_bins batches of 64",
        ),
        (
            bc(sampler="fixed_order", neighbouring_relation="add_or_remove_one", accountant="gdp"),
            "neighbouring_relation: expected replace_one for mini-sets of 64 in fixed_order batches of 64",
        ),
    ],
)
def test_what_is_not_defined_is_refused(run, message):
    with pytest.raises(ValueError, match=message):
        methods.build(run, N, models.build("lenet5"))


def test_public_examples_are_needed_where_they_are_used():
    with pytest.raises(ValueError, match="public_examples: expected at least 200 for gradient_norm_examples 200, "):
        alc(gradient_norm_examples=200)
    with pytest.raises(ValueError, match=r"expected at least 1 for .* test_statistics 'public'; got 0"):
        make_run(norm="batch", test_statistics="public")


def test_a_fixed_weight_takes_no_part_in_the_clipping():
    model, (x, y) = models.build("lenet_300_100"), examples()
    method = prepared(bc(fix_converged="epoch", clip_norm=1e-3), model)
    for name, active in method._converged.active.items():
        active[:] = name == "5.bias"
    method.backward(model, x, y, 0)
    assert model[5].bias.grad.norm() == pytest.approx(1e-3, rel=1e-3)


def test_a_layer_without_a_gradient_has_a_clip_norm():
    model = models.build("lenet_300_100")
    nn.init.zeros_(model[5].weight)  # so that nothing reaches the layers before it
    method = prepared(alc(), model)
    assert min(method.expected.values()) == pytest.approx(1e-6 * max(method.expected.values()))
    method.backward(model, *examples(), 0)


class TestConvergence:
    """One weight that takes the values that a test gives it."""

    def observed(self, values, *, std=1.0, lr=1.0, epochs=1):
        """``Converged`` after the weights took ``values`` (T, 1), epoch by epoch."""
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        converged = Converged(model, "epoch")
        for of_epoch in values.chunk(epochs):
            for value in of_epoch:
                model.weight.grad = torch.zeros_like(model.weight)
                converged.hold("weight", model.weight, std)
                with torch.no_grad():
                    model.weight.fill_(value)
                converged.observe(model, lr)
            converged.fix(model)
        return model.weight.item(), bool(converged.active["weight"])

    @pytest.mark.parametrize(("std", "lr"), [(2.0, 0.5), (0.5, 2.0)])
    def test_a_rounds_noise_is_multiplied_by_the_step_size(self, std, lr):
        """A walk of 200 rounds has a variance of 33.3 at lr · std = 1, whatever they are apart."""
        turns = (-1.0) ** torch.arange(200)
        assert not self.observed(5.0 * turns, std=std, lr=lr)[1]
        assert self.observed(6.5 * turns, std=std, lr=lr)[1]

    def test_how_far_away_the_average_is_does_not_matter(self):
        assert self.observed(100.0 + (-1.0) ** torch.arange(200)) == (pytest.approx(100.0), False)

    def test_every_epoch_is_judged_by_itself(self):
        drift, rest = torch.linspace(0.0, 100.0, 200), torch.full((200,), 100.0)
        assert self.observed(torch.cat([drift, rest]), epochs=2) == (pytest.approx(100.0), False)

    def test_of_two_rounds_a_walk_varies_by_a_quarter_of_its_noise(self):
        """(W² − 1)/(6W), of which W/6 is the limit."""
        assert self.observed(torch.tensor([0.0, 1.05]))[1]
        assert not self.observed(torch.tensor([0.0, 0.95]))[1]

    def test_one_round_tells_nothing(self):
        assert self.observed(torch.ones(1)) == (1.0, True)


def test_what_moved_is_looked_at_after_the_update_at_its_own_step_size():
    model, (x, y) = models.build("lenet_300_100"), examples()
    method = prepared(bc(fix_converged="epoch", noise_multiplier=1.0, lr=1.0), model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    before = model[1].weight.detach().clone()
    method.backward(model, x, y, 0)
    method.update(model, optimizer)
    converged, moved = method._converged, model[1].weight.detach() - before
    assert torch.equal(converged._moved["1.weight"], moved)
    assert converged._noise["1.weight"] == pytest.approx((0.25 * converged._stds["1.weight"]) ** 2)


def test_norms_are_of_the_first_and_statistics_of_all_public_examples():
    model = models.build("lenet5", norm="batch")
    few, all_of_them = (GradientNorms(count).measure(model, examples(M)) for count in (50, M))
    for name, norms in few.items():
        torch.testing.assert_close(norms, all_of_them[name][:50], rtol=1e-4, atol=1e-6)


def test_an_example_counts_where_every_tensors_gradient_is_finite():
    model, (x, y) = models.build("lenet_300_100"), examples(4)
    x[0] *= 1e30  # the last bias has a gradient that is finite, the first weight has not
    norms = GradientNorms(4).measure(model, (x, y))
    assert [(len(norm), bool(norm.isfinite().all())) for norm in norms.values()] == [(3, True)] * len(norms)


@pytest.mark.parametrize("adaptive", ["enhanced", "zhang", "multiplication_factors"])
def test_the_clip_norms_of_layers_fall_with_that_of_the_run(adaptive):
    model = models.build("lenet_300_100")
    method = prepared(alc(adaptive_clipping=adaptive, clip_norm_decay=0.5), model)
    first, second = (method.groups(model, step) for step in (0, method.sampler.steps_per_epoch))
    for name, _ in model.named_parameters():
        assert second.reach(name) == pytest.approx(first.reach(name) / 2)


def test_a_module_is_the_innermost_that_holds_a_tensor():
    """As in ResNet-18, whose blocks hold convolutions and norms."""
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Linear(4, 10))
    assert methods.build(alc(layers="modules"), N, model).budget.discount ** 2 == pytest.approx(3)
    names = dict.fromkeys(name for name, _ in model.named_parameters())
    assert adaptive_layerwise._layers(names, "modules") == [
        (f"{module}.weight", f"{module}.bias") for module in ("0.0", "0.1", "1")
    ]


def test_norms_are_similar_by_their_ratios():
    norms = dict(zip("abcdefgh", (1e-3, 2e-3, 0.1, 0.2, 10.0, 20.0, 1e3, 2e3), strict=True))
    groups = adaptive_layerwise._layers({name: torch.full((3,), e) for name, e in norms.items()}, "four_groups")
    assert groups == [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]


def test_a_norm_whose_square_is_infinite_leaves_the_clip_norms_as_they_were(monkeypatch):
    model = models.build("lenet_300_100")
    method = prepared(alc(), model)
    before = dict(method.expected)
    monkeypatch.setattr(
        method._norms, "measure", lambda model, public: {n: torch.full((3,), 1e30) for n, _ in model.named_parameters()}
    )
    method.prepare(model, examples(M))
    assert method.expected == before


def test_where_no_example_is_finite_the_record_has_no_norm():
    measured = GradientNorms(4)
    measured.measure(models.build("lenet_300_100"), (torch.full((4, 1, 28, 28), math.inf), torch.arange(4)))
    assert list(measured.means.values()) == [[None]] * 6


def test_norms_are_measured_at_the_weights_that_an_epoch_begins_with(monkeypatch):
    """Those that have converged are fixed before."""
    model, order = models.build("lenet_300_100"), []
    method = prepared(alc(fix_converged="epoch"), model)
    norms = {name: torch.ones(3) for name, _ in model.named_parameters()}
    monkeypatch.setattr(method._converged, "fix", lambda model: order.append("fixed"))
    monkeypatch.setattr(method._norms, "measure", lambda model, public: order.append("measured") or norms)
    method.prepare(model, examples(M))
    assert order == ["fixed", "measured"]
