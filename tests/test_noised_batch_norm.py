"""Batch norm on noised running averages: what is counted, how much noise, and what it costs the weights."""

import math

import pytest
import torch
from torch import Tensor, nn

from lib import methods, models
from lib.generators import generator
from lib.layers import NoisedBatchNorm, noised_batch_norm
from lib.layers.noised_batch_norm import LEAST_VARIANCE, MOMENTUM, sensitivities
from lib.methods import _statistics
from lib.run import Run

C, L = 2.0, 50
NOISED = {"norm": "noised_batch_without_affine", "statistics_clip_norm": C, "statistics_share": 0.2}
N = 1000


def release(layer: NoisedBatchNorm, x: Tensor, *, noise: float = 0.0, size: int = L, released: int = 1) -> None:
    layer.watch(C)
    layer(x)
    layer.release(
        expected_batch_size=size, noise_multiplier=noise, released=released, generator=generator(0, "statistics")
    )


def private(**changes) -> Run:
    settings = {"dataset": "digits", "model": "lenet5", "lr": 0.5, "epochs": 1, "batch_size": L, "method": "dpsgd"}
    settings |= {"optimizer": "sgd", "sampler": "poisson", "clip_norm": 0.5, "noise_multiplier": 1.5} | NOISED
    return Run(**(settings | changes))


@pytest.mark.parametrize("shape", [(L, 3), (L, 3, 4, 5)])
def test_without_noise_the_averages_follow_mean_and_variance(shape):
    layer, x = NoisedBatchNorm(3), torch.randn(shape, generator=generator(0, "x")) / 4 + 0.5
    assert x.abs().max() < C
    release(layer, x)
    others = [d for d in range(x.dim()) if d != 1]
    variance, mean = torch.var_mean(x, others, correction=0)
    torch.testing.assert_close(layer.mean, MOMENTUM * mean)
    torch.testing.assert_close(layer.variance, 1 - MOMENTUM + MOMENTUM * variance)


def test_it_normalises_with_the_averages_of_earlier_steps():
    layer, x = NoisedBatchNorm(3), torch.randn(L, 3, generator=generator(0, "x"))
    layer.mean.copy_(torch.tensor([1.0, 2.0, 3.0]))
    layer.variance.copy_(torch.tensor([4.0, 1.0, 0.25]))
    expected = (x - torch.tensor([1.0, 2.0, 3.0])) / torch.tensor([4.0, 1.0, 0.25]).add(1e-5).sqrt()
    layer.watch(C)
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(x[:1]), expected[:1])  # alone or not, an example's output is the same


@pytest.mark.parametrize("sign", [1, -1])
def test_one_example_moves_each_sum_by_at_most_its_sensitivity(sign):
    """And nearly so far: an activation beyond C' counts as C', and one beyond −C' as −C'."""
    sums = []
    for value in (torch.full((1, 3, 2), sign * 1e6), torch.zeros(0, 3, 2)):
        layer = NoisedBatchNorm(3)
        layer.watch(C)
        layer(torch.cat([torch.ones(4, 3, 2), value]))
        sums.append(layer.sums)
    of_mean, of_variance = sensitivities(C, L)
    moved = (sums[0] - sums[1]) / L
    torch.testing.assert_close(moved[0], torch.full((3,), sign * of_mean))
    assert (moved[1] <= of_variance).all()
    torch.testing.assert_close(moved[1], torch.full((3,), C**2 / L))


def test_an_example_that_is_not_finite_counts_as_zero():
    layer = NoisedBatchNorm(2)
    layer.watch(C)
    layer(torch.tensor([[1.0, 1.0], [math.nan, 1.0], [math.inf, -1.0]]))
    assert layer.sums.tolist() == [[1.0, 1.0], [1.0, 3.0]]


def test_a_channel_that_is_not_finite_at_one_position_counts_as_zero():
    layer = NoisedBatchNorm(2)
    layer.watch(C)
    layer(torch.tensor([[[1.0, math.nan], [1.0, 1.0]], [[1.0, math.inf], [-1.0, -1.0]]]))
    assert layer.sums.tolist() == [[0.0, 0.0], [0.0, 2.0]]


def test_the_printed_sensitivities():
    assert sensitivities(2.0, 10) == pytest.approx((0.2, 4 * (0.3 - 0.03 + 0.001)))


def test_the_printed_sensitivity_of_a_variance_is_too_small_for_activations_of_both_signs():
    """One of L activations at C' is replaced by −C': the variance moves by 4C'²(1/L − 1/L²), and 4 > 3."""
    same = torch.full((L,), C)
    replaced = same.clone()
    replaced[0] = -C
    moved = float(replaced.var(correction=0) - same.var(correction=0))
    assert moved == pytest.approx(4 * C**2 * (1 / L - 1 / L**2), rel=1e-5)
    assert moved > 1.3 * sensitivities(C, L)[1]
    assert float(same.mean() - replaced.mean()) == pytest.approx(2 * sensitivities(C, L)[0])
    # Of one sign, as after a ReLU, the printed one suffices.
    one_sided = torch.tensor([C] + [0.0] * (L - 1))
    assert float(one_sided.var(correction=0)) < sensitivities(C, L)[1]


def test_the_noise_is_that_of_all_channels_released_together():
    channels, z, released = 20_000, 1.5, 226
    layer = NoisedBatchNorm(channels)
    release(layer, torch.zeros(L, channels), noise=z, released=released)
    of_mean, of_variance = sensitivities(C, L)
    noise = layer.mean / MOMENTUM
    std = z * math.sqrt(2 * released) * of_mean
    assert float(noise.std()) == pytest.approx(std, rel=0.03)
    assert float(noise.mean()) == pytest.approx(0.0, abs=4 * std / math.sqrt(channels))
    variance = (layer.variance - (1 - MOMENTUM)) / MOMENTUM
    assert float(variance.min()) == pytest.approx(LEAST_VARIANCE, abs=1e-5)
    square = variance[variance > 2 * LEAST_VARIANCE] + noise[variance > 2 * LEAST_VARIANCE].square()
    std = z * math.sqrt(2 * released) * of_variance
    assert float((square > std).float().sum() / channels) == pytest.approx(0.159, abs=0.02)  # P(N > 1)


class TestInDPSGD:
    def test_noise_that_float32_cannot_hold_is_refused(self):
        """It would be 0, and the averages of the activations not."""
        run = private(statistics_clip_norm=1e-44)
        model = models.build(run.model, norm=run.norm)
        method = methods.build(run, N, model)
        with pytest.raises(ValueError, match=r"noise: expected .* at least 1e-30; got"):
            method.backward(model, torch.rand(L, 1, 28, 28), torch.arange(L) % 10, 0)

    def test_noise_of_weights_and_statistics_make_up_the_budget(self):
        """1/z² = 1/z_g² + 1/z_s²: one Gaussian mechanism in two parts."""
        model = models.build("lenet5", norm=NOISED["norm"])
        method = methods.build(private(), N, model)
        weights = method.noise_std(0) / 0.5
        assert weights == pytest.approx(1.5 / math.sqrt(0.8))
        statistics = 1.5 / math.sqrt(0.2)
        assert pytest.approx(1 / weights**2 + 1 / statistics**2) == 1 / 1.5**2

    def test_every_step_moves_the_averages_of_every_layer_once(self):
        torch.manual_seed(0)
        model = models.build("lenet5", norm=NOISED["norm"]).train()
        method = methods.build(private(noise_multiplier=0.0, clip_norm=None), N, model)
        x, y = torch.rand(L, 1, 28, 28), torch.arange(L) % 10
        expected = model[0](x).clamp(-C, C).mean((0, 2, 3))  # of the weights before the step
        method.backward(model, x, y, 0)
        torch.testing.assert_close(model[1].mean, MOMENTUM * expected)
        norms = [layer for layer in model if isinstance(layer, NoisedBatchNorm)]
        assert len(norms) == 4
        assert all(layer.mean.any() and layer.sums is None for layer in norms)

    def test_the_gradient_is_of_the_averages_of_earlier_steps(self, monkeypatch):
        model, seen = models.build("lenet5", norm=NOISED["norm"]).train(), []
        method = methods.build(private(), N, model)
        monkeypatch.setattr(method, "leave", lambda model, *_: seen.append(model[1].mean.any().item()))
        for step in range(2):
            method.backward(model, torch.rand(L, 1, 28, 28), torch.arange(L) % 10, step)
        assert seen == [False, True]

    def test_a_lot_of_several_passes_counts_whole(self, monkeypatch):
        torch.manual_seed(0)
        x, y, means = torch.rand(L, 1, 28, 28), torch.arange(L) % 10, []
        for chunk in (1024, 3):
            monkeypatch.setattr(_statistics, "CHUNK", chunk)
            torch.manual_seed(1)
            model = models.build("lenet5", norm=NOISED["norm"]).train()
            methods.build(private(noise_multiplier=0.0, clip_norm=None), N, model).backward(model, x, y, 0)
            means.append(model[1].mean)
        torch.testing.assert_close(*means)

    def test_an_empty_batch_is_noise_alone(self):
        model = models.build("lenet5", norm=NOISED["norm"]).train()
        method = methods.build(private(), N, model)
        method.backward(model, torch.zeros(0, 1, 28, 28), torch.zeros(0, dtype=torch.int64), 0)
        assert model[1].mean.any()
        assert model[0].weight.grad.any()

    def test_the_proven_epsilon_is_that_of_the_whole_budget(self):
        plain = private(norm="none", statistics_clip_norm=None, statistics_share=0.0)
        proven = [
            methods.build(run, N, models.build("lenet5", norm=run.norm)).privacy()["proven"]
            for run in (private(), plain)
        ]
        assert proven[0] == proven[1]
        assert proven[0]["epsilon"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"statistics_share": 0.0},
            "statistics_share: expected more than 0 for norm 'noised_batch_without_affine'; got 0.0",
        ),
        ({"statistics_clip_norm": None}, "statistics_clip_norm: expected one for norm 'noised_batch"),
        ({"norm": "none"}, "statistics_clip_norm: expected None for norm 'none'; got 2.0"),
        ({"test_statistics": "running"}, "test_statistics: expected 'batch' for norm 'noised_batch"),
        ({"statistics": "per_example"}, "statistics: expected 'public' for norm 'noised_batch"),
        (
            {"norm": "public_batch", "statistics_share": 0.0, "statistics_clip_norm": None},
            "public_examples: expected at least 1 for norm",
        ),
        ({"public_dataset": "kmnist"}, "public_dataset: expected '', as no public_examples are used"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        private(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "si_dpsgd"}, "statistics_share: expected 0.0 for method 'si_dpsgd'; got 0.2"),
        ({"method": "batch_clipping"}, "statistics_share: expected 0.0 for method 'batch_clipping'; got 0.2"),
        ({"method": "non_private", "clip_norm": None, "noise_multiplier": None}, "for method 'non_private'"),
    ],
)
def test_methods_that_do_not_release_statistics_refuse_them(changes, message):
    run = private(**changes)
    with pytest.raises(ValueError, match=message):
        methods.build(run, N, nn.Linear(1, 1))


def test_the_constants_are_torchs():
    torchs = nn.BatchNorm1d(1)
    assert torchs.momentum == MOMENTUM
    assert torchs.eps == noised_batch_norm.EPS
