"""Runs that train together: what they leave is what each would have left alone, to rounding."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from conftest import make_run
from torch import nn

from lib import methods, models, registry, tables
from lib.generators import generator
from lib.grads import clipped_sum, stacked
from lib.layers import NoisyLinear, noisy_layers, set_weight_noise
from lib.methods.dpsgd import cross_entropy
from lib.run import Run
from lib.train import STACKED, OutOfTime, _training, alike, train, train_together

PRIVATE = {"method": "dpsgd", "optimizer": "sgd", "lr": 0.3, "clip_norm": 0.5, "noise_multiplier": 1.0}
PRIVATE |= {"sampler": "poisson", "momentum": 0.5, "model": "tf_privacy", "epochs": 1}
SHARED = {  # what the runs have in common → how they differ
    "weight noise": ({}, [{}, {"seed": 1, "weight_noise_std": 0.1}, {"weight_noise_std": 0.05, "lr": 0.003}]),
    "noise held for an epoch": (
        {"weight_noise_draw": "epoch"},
        [{"weight_noise_std": 0.1}, {"seed": 1, "weight_noise_std": 0.2}],
    ),
    "batch norm": ({"norm": "batch", "test_statistics": "running"}, [{}, {"seed": 1, "weight_noise_std": 0.1}]),
    "layer norm": ({"norm": "layer"}, [{"seed": 3}, {"seed": 4}]),
    "noisy updates": (
        {"method": "noisy_sgd", "optimizer": "sgd", "lr": 0.1},
        [{"gradient_noise_std": 0.01}, {"seed": 1, "gradient_noise_std": 0.1}],
    ),
    "DPSGD": (PRIVATE, [{}, {"seed": 1, "clip_norm": 0.1}, {"noise_multiplier": 3.0, "lr": 0.1}]),
    "DPSGD to an ε": (PRIVATE | {"noise_multiplier": None}, [{"epsilon": 1.0}, {"epsilon": 8.0, "seed": 2}]),
    # At .3 it is so rough that rounding, grown where an activation changes its sign, is seen in the accuracy.
    "DPSGD with group norm": (PRIVATE | {"norm": "group_without_affine", "lr": 0.1}, [{}, {"seed": 1}]),
    "SI-DPSGD": (PRIVATE | {"method": "si_dpsgd"}, [{}, {"seed": 1, "lr": 0.1}]),
    "correlated noise": (
        PRIVATE | {"method": "correlated_noise", "noise_power": 0.5, "noise_bands": 3},
        [{}, {"seed": 1, "noise_multiplier": 2.0}],
    ),
}


def runs_of(shared: dict, differences: list[dict]) -> list[Run]:
    return [make_run(**(shared | different)) for different in differences]


def network(norm: str = "none", seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return models.build("lenet5", norm=norm)


def batch(examples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draws = generator(seed, "test")
    return torch.rand(examples, 1, 28, 28, generator=draws), torch.randint(10, (examples,), generator=draws)


@pytest.mark.parametrize(("shared", "differences"), SHARED.values(), ids=SHARED)
def test_records_are_those_of_runs_trained_alone(shared, differences):
    are_those_of_runs_trained_alone(runs_of(shared, differences))


def rows_trained_together() -> list:
    """Two seeds of every row of the MNIST tables, at its last column, where they can be trained together."""
    found = {}
    for table in (tables.load(name) for name in registry.names("tables") if name.startswith("mnist_")):
        for row, column in table.cells:
            point = next(iter(table.points(row, column, "smoke")), {})
            runs = [table.cell(row, column, seed=seed, tier="smoke", **point) for seed in range(2)]
            if table.name == "mnist_paper_and_code":  # at v1's step 1e-7 of the weights is seen in the accuracy
                runs = [replace(run, lr=run.lr / 10) for run in runs]
            if alike(runs[0]) is not None:
                found[f"{table.name}: {row}"] = runs
    return [pytest.param(runs, id=name) for name, runs in found.items()]


@pytest.mark.slow
@pytest.mark.parametrize("runs", rows_trained_together())
def test_so_are_those_of_the_mnist_tables(runs):
    are_those_of_runs_trained_alone(runs)


def are_those_of_runs_trained_alone(runs: list[Run]) -> None:
    for run, together in zip(runs, train_together(runs), strict=True):
        alone = train(run)
        for block in ("id", "run", "privacy"):
            assert together[block] == alone[block]
        assert together["metrics"] == pytest.approx(alone["metrics"], abs=0.6)
        for loss, expected in zip(together["history"]["train_loss"], alone["history"]["train_loss"], strict=True):
            assert loss == (expected if expected is None else pytest.approx(expected, rel=1e-3))
        assert (together["env"]["flags"]["together"], alone["env"]["flags"]["together"]) == (len(runs), 1)


@pytest.mark.parametrize("model", STACKED)
@pytest.mark.parametrize("settings", [{"weight_noise_std": 0.1}, PRIVATE], ids=["weight noise", "DPSGD"])
def test_every_small_network_takes_the_same_steps(model, settings):
    """After one step: the parameters themselves."""
    if model == "pca_1000":
        settings = settings | {"pca_noise_multiplier": 16.0}
    runs = [make_run(**(settings | {"model": model, "seed": seed})) for seed in range(2)]
    assert alike(runs[0]) == alike(runs[1]) is not None
    batches = [batch(20 + run.seed * (run.method == "dpsgd"), run.seed) for run in runs]

    def start():
        networks = []
        for run in runs:
            torch.manual_seed(run.seed)
            networks.append(models.build(model))
            set_weight_noise(networks[-1], run.weight_noise_std, generator=generator(run.seed, "weight noise"))
            for name, components in networks[-1].named_buffers():
                components.normal_(generator=generator(run.seed, name))
        return networks, [methods.build(run, 1000, net) for run, net in zip(runs, networks, strict=True)]

    networks, of_each = start()
    for method, net, (x, y) in zip(of_each, networks, batches, strict=True):
        method.backward(net, x, y, 0)
    others, of_others = start()
    type(of_others[0]).backward_together(of_others, others, batches, 0)
    for net, other in zip(networks, others, strict=True):
        for (name, p), q in zip(net.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(
                q.grad, p.grad, rtol=1e-4, atol=1e-6 + 1e-5 * p.grad.abs().max().item(), msg=name
            )


class TestClippedSums:
    def found(self, networks, batches, clip_norms, microbatch_size):
        x, y, counts = stacked.padded(batches)
        values = stacked.values_of(networks)
        how = {"counts": counts, "clip_norms": clip_norms, "microbatch_size": microbatch_size}
        return stacked.clipped_sums(networks[0], cross_entropy, values, x, y, **how)

    @pytest.mark.parametrize("microbatch_size", [1, 4, 100])
    @pytest.mark.parametrize("norm", ["none", "layer"])
    def test_each_is_the_sum_of_its_own_network(self, norm, microbatch_size):
        networks, clip_norms = [network(norm, seed) for seed in range(3)], [0.3, 5.0, float("inf")]
        batches = [batch(size, seed) for seed, size in enumerate((7, 0, 3))]
        totals, norms = self.found(networks, batches, clip_norms, microbatch_size)
        for i, (net, (x, y)) in enumerate(zip(networks, batches, strict=True)):
            expected, lengths = clipped_sum(
                net, cross_entropy, x, y, clip_norm=clip_norms[i], implementation="reference"
            )
            torch.testing.assert_close(norms[i, : len(y)], lengths, rtol=1e-4, atol=1e-5)
            for name, total in totals.items():
                torch.testing.assert_close(total[i], expected[name], rtol=1e-4, atol=1e-5)

    def test_a_norm_whose_square_is_0_in_float32_is_clipped_too(self):
        networks, batches = [nn.Linear(1, 2, bias=False)], [(torch.full((1, 1), 1e-24), torch.tensor([0]))]
        totals, norms = self.found(networks, batches, [1e-26], 1)
        assert norms.item() == 0.0
        assert 0.0 < totals["weight"].double().norm() <= 1e-26

    def test_a_factor_that_float32_cannot_hold_is_0(self):
        """Rounded to the smallest number that there is, it would be up to twice itself."""
        networks, batches = [nn.Linear(1, 2, bias=False)], [(torch.full((1, 1), 1e18), torch.tensor([0]))]
        nn.init.zeros_(networks[0].weight)
        totals, norms = self.found(networks, batches, [7e-28], 1)
        assert norms.item() == pytest.approx(0.5**0.5 * 1e18)
        assert totals["weight"].double().norm() <= 7e-28

    def test_of_words_too(self):
        """Whose numbers are whole, which a clip norm is not."""
        networks = [nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(6, 2)) for _ in range(2)]
        batches = [(torch.tensor([[0, 1], [2, 3], [4, 6]]), torch.tensor([0, 1, 1])) for _ in networks]
        totals, norms = self.found(networks, batches, [0.3, 1.7], 2)
        for i, (net, clip_norm) in enumerate(zip(networks, (0.3, 1.7), strict=True)):
            expected, lengths = clipped_sum(net, cross_entropy, *batches[i], clip_norm=clip_norm)
            torch.testing.assert_close(norms[i], lengths)
            for name, total in totals.items():
                torch.testing.assert_close(total[i], expected[name])

    def test_without_any_example_they_are_zero(self):
        totals, _ = self.found([network(), network()], [batch(0, 0), batch(0, 1)], [1.0, 1.0], 8)
        assert all((total == 0).all() for total in totals.values())

    def test_no_sum_is_longer_than_its_clip_norms_allow(self):
        totals, _ = self.found([network(seed=s) for s in range(2)], [batch(5, 0), batch(9, 1)], [0.1, 0.01], 4)
        for i, most in enumerate((0.5, 0.09)):
            assert sum(total[i].square().sum() for total in totals.values()).sqrt() <= most * (1 + 1e-5)

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_an_example_that_is_not_finite_counts_as_zero_in_its_network_alone(self, bad):
        networks, batches = [network(seed=s) for s in range(2)], [batch(4, 0), batch(4, 1)]
        spoilt = batches[0][0].clone()
        spoilt[2] = bad
        totals, norms = self.found(networks, [(spoilt, batches[0][1]), batches[1]], [1.0, 1.0], 3)
        kept = [0, 1, 3]
        expected = clipped_sum(networks[0], cross_entropy, batches[0][0][kept], batches[0][1][kept], clip_norm=1.0)[0]
        untouched = clipped_sum(networks[1], cross_entropy, *batches[1], clip_norm=1.0)[0]
        assert norms.isfinite().tolist() == [[True, True, False, True], [True] * 4]
        for name, total in totals.items():
            torch.testing.assert_close(total[0], expected[name], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(total[1], untouched[name], rtol=1e-4, atol=1e-5)


def test_mean_gradients_leave_the_networks_alone_and_move_the_running_averages_given():
    networks = [network("batch", seed).double() for seed in range(2)]
    batches = [(x.double(), y) for x, y in (batch(16, 0), batch(16, 1))]
    before = [{name: value.clone() for name, value in net.state_dict().items()} for net in networks]
    values = stacked.values_of(networks)
    x, y = (torch.stack(of_all) for of_all in zip(*batches, strict=True))
    losses, gradients = stacked.mean_gradients(networks[0], cross_entropy, values, x, y)
    for i, net in enumerate(networks):
        assert all(torch.equal(value, before[i][name]) for name, value in net.state_dict().items())
        loss = F.cross_entropy(net(x[i]), y[i])
        loss.backward()
        torch.testing.assert_close(losses[i], loss.detach())
        for name, parameter in net.named_parameters():
            torch.testing.assert_close(gradients[name][i], parameter.grad, rtol=1e-6, atol=1e-9)
        for name, buffer in net.named_buffers():
            torch.testing.assert_close(values[name][i], buffer)


def test_noise_is_drawn_from_every_networks_own_generator_and_no_other():
    networks = [nn.Sequential(NoisyLinear(3, 4), nn.ReLU(), NoisyLinear(4, 2, bias=False)) for _ in range(2)]
    for seed, net in enumerate(networks):
        set_weight_noise(net, 0.1 * (seed + 1), generator=generator(seed, "weight noise"))
    values = stacked.values_of(networks)
    x, y = torch.ones(2, 5, 3), torch.zeros(2, 5, dtype=torch.int64)
    stacked.mean_gradients(networks[0], cross_entropy, values, x, y)
    for seed, net in enumerate(networks):
        draws = generator(seed, "weight noise")
        for name in ("0.weight", "0.bias", "2.weight"):
            mean = net.get_parameter(name)
            noise = torch.empty_like(mean).normal_(0.0, 0.1 * (seed + 1), generator=draws)
            assert torch.equal(values[name][seed], mean + noise)
        assert torch.equal(draws.get_state(), next(noisy_layers(net)).generator.get_state())
        assert [layer.noise_std for layer in noisy_layers(net)] == [0.1 * (seed + 1)] * 2


class TestAlike:
    @pytest.mark.parametrize(
        "alone",
        [
            {"model": "convnet"},
            {"norm": "public_batch", "public_examples": 10},
            {"public_examples": 10, "gradient_norm_examples": 10},
            PRIVATE | {"clipped": "layer"},
            PRIVATE | {"augmentation": "shift", "augmult": 2},
            PRIVATE | {"epsilon": 1.0},  # with the noise given too, which ends each run at a step of its own
            PRIVATE | {"method": "si_dpsgd", "first_weights": "noised"},
            PRIVATE | {"method": "batch_clipping", "mini_set_size": 64},
            PRIVATE | {"norm": "noised_batch_without_affine", "statistics_share": 0.2, "statistics_clip_norm": 1.0},
        ],
    )
    def test_some_runs_train_alone(self, alone):
        run = make_run(**alone)
        assert alike(run) is None
        with pytest.raises(ValueError, match="runs: expected such as can be trained together"):
            train_together([run, replace(run, seed=1)])

    @pytest.mark.parametrize("change", [{"epochs": 3}, {"norm": "layer"}, {"batch_size": 32}, {"optimizer": "sgd"}])
    def test_runs_that_differ_in_more_are_refused(self, change):
        with pytest.raises(ValueError, match="runs: expected such as can be trained together"):
            train_together([make_run(), make_run(**change)])


def without_time(record: dict) -> dict:
    return {name: block for name, block in record.items() if name != "env"}


def test_what_is_cut_off_together_is_gone_on_from_together_or_alone(tmp_path):
    runs = runs_of(*SHARED["DPSGD"])
    whole = [without_time(record) for record in train_together(runs)]
    files = [tmp_path / f"{run.id}.checkpoint" for run in runs]
    with pytest.raises(OutOfTime, match="of 22 steps"):
        train_together(runs, checkpoints=files, deadline=time.time())
    copies = [tmp_path / f"{run.id}.copy" for run in runs]
    for file, copy in zip(files, copies, strict=True):
        copy.write_bytes(file.read_bytes())
    assert [without_time(record) for record in train_together(runs, checkpoints=files)] == whole
    alone = without_time(train(runs[1], checkpoint=copies[1]))
    assert alone["privacy"] == whole[1]["privacy"]
    assert alone["metrics"]["test_accuracy"] == pytest.approx(whole[1]["metrics"]["test_accuracy"], abs=0.6)


def test_those_that_are_not_equally_far_go_on_by_themselves(tmp_path):
    runs = runs_of(*SHARED["weight noise"])
    files = [tmp_path / f"{run.id}.checkpoint" for run in runs]
    with pytest.raises(OutOfTime):
        train(runs[0], checkpoint=files[0], deadline=time.time())
    records = train_together(runs, checkpoints=files)
    assert [record["env"]["flags"]["together"] for record in records] == [1, 2, 2]
    assert [record["id"] for record in records] == [run.id for run in runs]
    assert without_time(records[0]) == without_time(train(runs[0]))


@pytest.mark.parametrize("alone", [1, 3])
def test_no_second_is_booked_twice(alone, tmp_path, monkeypatch):
    """By a clock that moves with every step and test batch: runs cut off alone, then trained as far as they go along.

    Whoever waits for the others, or goes on with them, has the time that he had and his part of what they share.
    """
    runs, clock = runs_of(*SHARED["weight noise"]), [0.0]
    monkeypatch.setattr(_training, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def beat():
        clock[0] += 1.0

    train(runs[0], beat=beat)
    whole, clock[0] = clock[0], 0.0
    files = [tmp_path / f"{run.id}.checkpoint" for run in runs]
    for run, file in list(zip(runs, files, strict=True))[:alone]:
        with pytest.raises(OutOfTime):
            train(run, checkpoint=file, deadline=time.time(), beat=beat)
    seconds = [record["env"]["seconds"] for record in train_together(runs, checkpoints=files, beat=beat)]
    assert sum(seconds) == pytest.approx(clock[0], abs=0.2)  # records have tenths
    assert (seconds[0] == whole) == (alone == 1)
