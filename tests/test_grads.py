"""Per-example gradients: fast = reference = a loop over batches of one; clipping checked by hand."""

import copy
import math
import re
from functools import partial
from types import MappingProxyType

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lib import models, registry
from lib.grads import IMPLEMENTATIONS, Groups, clipped_mean, clipped_sum
from lib.grads.contractions import Outer, squares_of_vectors
from lib.grads.convolution import Convolution
from lib.layers import NoisyConv2d, NoisyLinear, NoisyLSTM, held_noise, set_weight_noise

LOSS = partial(F.cross_entropy, reduction="none")
EVERY = {"deadline": None, "max_examples": 25, "derandomize": True}


def loop(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Obviously correct: one backward pass for each example."""
    gradients = []
    for i in range(len(x)):
        model.zero_grad()
        LOSS(model(x[i : i + 1]), y[i : i + 1]).sum().backward()
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad})
    return {name: torch.stack([g[name] for g in gradients]) for name in gradients[0]}


def check(model: nn.Module, x: Tensor, y: Tensor, *, groups: tuple[str, ...] | None = None, **how) -> None:
    """Both implementations against the loop, in double precision, with about half of the examples clipped."""
    model, x = model.double(), x.double() if x.is_floating_point() else x
    with held_noise(model):
        gradients = loop(model, x, y)
        names = groups or ("",)
        belongs = {p: max((n for n in names if p.startswith(n)), key=len) for p in gradients}
        norms = {
            n: sum(g.flatten(1).square().sum(1) for p, g in gradients.items() if belongs[p] == n).sqrt() for n in names
        }
        clip = {n: float(norms[n].median()) + 1e-3 for n in names}
        factors = {n: (clip[n] / norms[n]).clamp(max=1.0) for n in names}
        expected = {p: torch.einsum("b,b...->...", factors[belongs[p]], g) for p, g in gradients.items()}
        for implementation in IMPLEMENTATIONS:
            clip_norm = clip if groups else clip[""]
            total, found = clipped_sum(model, LOSS, x, y, clip_norm=clip_norm, implementation=implementation, **how)
            torch.testing.assert_close(total, expected, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(found if groups else {"": found}, norms, rtol=1e-5, atol=1e-5)
            assert all(p.grad is None or p.grad.shape == p.shape for p in model.parameters())


def classes(examples: int) -> Tensor:
    return torch.arange(examples) % 3


@given(examples=st.integers(1, 5), d=st.integers(1, 6), positions=st.integers(1, 5), bias=st.booleans())
@settings(**EVERY)
def test_linear(examples, d, positions, bias):
    model = nn.Sequential(NoisyLinear(d, 4, bias), nn.Tanh(), nn.Flatten(), nn.Linear(4 * positions, 3))
    check(model, torch.randn(examples, positions, d), classes(examples))


@given(
    examples=st.integers(1, 3),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    padding=st.sampled_from([0, 1, "same", "circular"]),
    dilation=st.integers(1, 2),
    groups=st.sampled_from([1, 2]),
    size=st.integers(5, 8),
)
@settings(**EVERY)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_conv2d(examples, kernel, stride, padding, dilation, groups, size):
    how = {"padding": 1, "padding_mode": "circular"} if padding == "circular" else {"padding": padding}
    layer = NoisyConv2d(
        2, 4, kernel, stride=1 if padding == "same" else stride, dilation=dilation, groups=groups, **how
    )
    x = torch.randn(examples, 2, size, size)
    model = nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(layer(x)[0].numel(), 3))
    check(model, x, classes(examples))


@given(examples=st.integers(1, 4), channels=st.sampled_from([2, 4]), size=st.integers(2, 4))
@settings(**EVERY)
def test_normalisation(examples, channels, size):
    model = nn.Sequential(
        nn.Conv2d(1, channels, 1),
        nn.GroupNorm(2, channels),
        nn.LayerNorm([channels, size, size]),
        nn.LayerNorm(size),
        nn.Flatten(),
        nn.Linear(channels * size * size, 3),
    )
    check(model, torch.randn(examples, 1, size, size), classes(examples))


@pytest.mark.parametrize("padding_idx", [None, 0])
def test_embedding_with_repeated_and_padded_words(padding_idx):
    model = nn.Sequential(nn.Embedding(5, 4, padding_idx=padding_idx), nn.Flatten(), nn.Linear(16, 3))
    check(model, torch.tensor([[1, 1, 2, 0], [0, 0, 0, 0], [3, 4, 3, 1]]), classes(3))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("steps", [1, 6, 12])  # the Gram form, and the gradients themselves
def test_lstm_cells_whose_layers_are_called_at_every_step(bidirectional, noise, steps):
    lstm = NoisyLSTM(3, 5, bidirectional=bidirectional, noise_std=noise)
    model = nn.Sequential(lstm, nn.Flatten(), nn.Linear(steps * 5 * (1 + bidirectional), 3))
    check(model, torch.randn(4, steps, 3), classes(4))


INPUTS = {"convnet": (3, 32, 32), "lenet5_tanh": (1, 32, 32), "bilstm": (5, 7), "tf_tutorial": (3, 24, 24)}
NARROW = [name for name in registry.names("models") if name.endswith("_narrow")]  # they stand for those of full width
INPUTS |= dict.fromkeys(NARROW, (3, 32, 32))


@pytest.mark.parametrize("name", [name for name in registry.names("models") if f"{name}_narrow" not in NARROW])
@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_every_model(name, norm, noise):
    torch.manual_seed(0)
    model = models.build(name, norm=norm, features=7 if name == "bilstm" else None)
    set_weight_noise(model, noise)
    x = torch.rand(3, *INPUTS.get(name, (1, 28, 28)))
    if name == "bilstm":
        x[1, 3:] = 0.0  # padding
    check(model, x, classes(3), microbatch_size=2)


@pytest.mark.parametrize("name", ["resnet18_narrow", "vgg16_narrow"])
@pytest.mark.parametrize("last_norm", ["removed", "added"])
def test_v2_table_3_networks(name, last_norm):
    torch.manual_seed(0)
    model = models.build(name, norm="layer", last_norm=last_norm)
    check(model, torch.rand(2, 3, 32, 32), classes(2))


@pytest.mark.parametrize(("name", "norm"), [("convnet", "instance"), ("convnet", "batch"), ("lenet5", "batch")])
def test_batch_norm_of_a_batch_of_one_and_with_fixed_statistics(name, norm):
    model, x = models.build(name, norm=norm), torch.rand(6, *INPUTS.get(name, (1, 28, 28)))
    model(torch.rand(20, *x.shape[1:]))  # running averages that are not 0 and 1
    check(model.eval(), x, classes(6), microbatch_size=4)


class TestGroups:
    """3-4-5: the gradient's first tensor has norm 3, its second 4."""

    SQUARES = MappingProxyType({"0.weight": torch.tensor([9.0]), "0.bias": torch.tensor([16.0])})

    def test_a_tuple_of_names_is_one_group(self):
        model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, bias=False))
        groups = Groups(model, {("0.weight", "1"): 1.0, ("0.bias",): 2.0})
        assert groups.of == {"0.weight": 0, "0.bias": 1, "1.weight": 0}
        norms = groups.norms(self.SQUARES | {"1.weight": torch.tensor([16.0])})
        assert norms.tolist() == [[5.0, 4.0]]
        assert groups.factors(norms).tolist() == [[pytest.approx(0.2), 0.5]]

    def test_scales_count_in_the_norm_and_divide_the_reach(self):
        groups = Groups(nn.Sequential(nn.Linear(1, 1)), 10.0, {"0.weight": 4.0, "0.bias": 4.0})
        assert groups.norms(self.SQUARES).tolist() == [[20.0]]
        assert [groups.reach(name) for name in self.SQUARES] == [2.5, 2.5]
        assert Groups(nn.Sequential(nn.Linear(1, 1)), 10.0, {"0.bias": 4.0}).reach("0.weight") == 10.0


class TestTheClippedMeanOfAMiniSet:
    @staticmethod
    def clipped(model, loss, x, y, groups, active=None):
        return groups.parts(clipped_mean(model, loss, x, y, groups, active))

    @pytest.mark.parametrize("groups", [None, {"0": 0.01, "2": 0.02}])
    def test_it_is_the_mean_gradient_clipped(self, groups):
        model, x, y = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(6, 4), classes(6)
        values = torch.autograd.grad(LOSS(model(x), y).mean(), list(model.parameters()))
        gradient = dict(zip(dict(model.named_parameters()), values, strict=True))
        found = self.clipped(model, LOSS, x, y, Groups(model, groups or 0.01))
        for name, clip in (groups or {"": 0.01}).items():
            part = {n: g for n, g in gradient.items() if n.startswith(name)}
            norm = sum(g.square().sum() for g in part.values()).sqrt()
            assert norm > clip
            torch.testing.assert_close({n: found[n] for n in part}, {n: g * clip / norm for n, g in part.items()})

    def test_batch_norm_uses_the_mini_sets_statistics(self):
        model, x, y = models.build("lenet5", norm="batch"), torch.rand(6, 1, 28, 28), classes(6)
        expected = torch.autograd.grad(LOSS(model(x), y).mean(), list(model.parameters()))
        found = self.clipped(model, LOSS, x, y, Groups(model, math.inf))
        torch.testing.assert_close(list(found.values()), list(expected))

    def test_entries_that_are_not_active_take_no_part(self):
        model, x, y = nn.Linear(2, 3, bias=False), torch.randn(6, 2), classes(6)
        active = {"weight": torch.tensor([[True, False]] * 3)}
        found = self.clipped(model, LOSS, x, y, Groups(model, 1e-3), active)["weight"]
        assert not found[:, 1].any()
        assert found[:, 0].norm() == pytest.approx(1e-3, rel=1e-4)

    def test_a_million_equal_entries_are_no_longer_than_the_clip_norm(self):
        """One float32 sum of their squares is 3e-4 too small."""
        model, x = nn.Linear(1000, 1000, bias=False), torch.ones(4, 1000)
        found = self.clipped(model, lambda outputs, y: outputs.sum(1), x, classes(4), Groups(model, 1.0))["weight"]
        assert 1 - 1e-5 < float(found.double().norm()) <= 1 + 1e-7

    def test_what_is_not_finite_and_what_is_empty_is_zero(self):
        model, x = nn.Linear(2, 3), torch.tensor([[1.0, math.nan]])
        for part in (x, x[:0]):
            found = self.clipped(model, LOSS, part, classes(len(part)), Groups(model, 1.0))
            assert not any(g.any() for g in found.values())

    def test_neighbours_that_are_clipped_alike_are_one_stretch(self):
        model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
        assert Groups(model, 1.0).stretches == {"0.weight": 43}
        assert Groups(model, {"0": 1.0, "1": 2.0}).stretches == {"0.weight": 25, "1.weight": 18}
        assert Groups(model, {("0.weight", "1.bias"): 1.0, ("0.bias", "1.weight"): 2.0}).stretches == {
            "0.weight": 20,
            "0.bias": 20,
            "1.bias": 3,
        }
        assert Groups(model, 1.0, {"0.weight": 2.0, "0.bias": 2.0}).stretches == {"0.weight": 25, "1.weight": 18}

    def test_groups_of_another_model_are_refused(self):
        with pytest.raises(ValueError, match="groups: expected those of this model's parameters; got another's"):
            self.clipped(nn.Linear(2, 3), LOSS, torch.zeros(1, 2), classes(1), Groups(nn.Linear(2, 3), 1.0))


@pytest.mark.parametrize("groups", [("0", "2"), ("0.weight", "0.bias", "2"), ("0.bias", "")])
def test_each_group_is_clipped_by_itself(groups):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    if "" in groups:
        with pytest.raises(ValueError, match=r"expected a group for '0\.weight'"):
            clipped_sum(model, LOSS, torch.ones(1, 4), classes(1), clip_norm={"0.bias": 1.0})
    else:
        check(model, torch.randn(5, 4), classes(5), groups=groups)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
class TestBothImplementations:
    def test_a_3_4_5_triangle(self, implementation):
        """loss = w·x, so g = x: (3, 4) has norm 5; clipped to 1 it is (.6, .8); (.3, .4) is left alone."""
        model = nn.Linear(2, 1, bias=False)
        x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
        total, norms = clipped_sum(
            model, lambda out, y: out[:, 0], x, torch.zeros(2), clip_norm=1.0, implementation=implementation
        )
        torch.testing.assert_close(total["weight"], torch.tensor([[0.9, 1.2]]))
        torch.testing.assert_close(norms, torch.tensor([5.0, 0.5]))

    def test_without_clipping_it_is_the_gradient_of_the_sum(self, implementation):
        model, x, y = models.build("lenet5"), torch.rand(5, 1, 28, 28), classes(5)
        total, _ = clipped_sum(model, LOSS, x, y, clip_norm=math.inf, implementation=implementation)
        expected = torch.autograd.grad(LOSS(model(x), y).sum(), list(model.parameters()))
        torch.testing.assert_close(list(total.values()), list(expected), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("clip_norm", [1e-3, 0.1, 1.0])
    def test_no_clipped_gradient_is_longer_than_the_clip_norm(self, implementation, clip_norm):
        model, x, y = models.build("lenet5"), torch.rand(8, 1, 28, 28), classes(8)
        for i in range(8):
            total, _ = clipped_sum(
                model, LOSS, x[i : i + 1], y[i : i + 1], clip_norm=clip_norm, implementation=implementation
            )
            assert sum(g.square().sum() for g in total.values()).sqrt() <= clip_norm * (1 + 1e-5)

    @pytest.mark.parametrize("size", [1e-25, 1e-15, 1.0])
    def test_nor_is_one_whose_squares_are_too_small_for_float32(self, implementation, size):
        """Found as 0, such a norm would be no reason to clip."""
        model, clip_norm = nn.Linear(1000, 1, bias=False), 1e-30
        total, _ = clipped_sum(
            *(model, lambda out, y: out[:, 0], torch.full((1, 1000), size), torch.zeros(1)),
            clip_norm=clip_norm,
            implementation=implementation,
        )
        assert total["weight"].double().norm() <= clip_norm * (1 + 1e-5)

    def test_an_empty_batch_gives_zeros(self, implementation):
        model = models.build("lenet5", norm="layer")
        total, norms = clipped_sum(
            model, LOSS, torch.rand(0, 1, 28, 28), classes(0), clip_norm=1.0, implementation=implementation
        )
        assert norms.shape == (0,)
        assert all(g.shape == p.shape and not g.any() for g, p in zip(total.values(), model.parameters(), strict=True))

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_an_example_that_is_not_finite_counts_as_zero(self, implementation, bad):
        model, x, y = models.build("lenet_300_100", norm="layer"), torch.rand(4, 1, 28, 28), classes(4)
        good, _ = clipped_sum(model, LOSS, x[1:], y[1:], clip_norm=0.5, implementation=implementation)
        x[0, 0, 3, 3] = bad
        total, norms = clipped_sum(model, LOSS, x, y, clip_norm=0.5, implementation=implementation)
        if implementation == "joint":  # every loss may depend on every example: none is finite, and all count as zero
            assert not norms.isfinite().any()
            assert not any(gradient.any() for gradient in total.values())
            return
        torch.testing.assert_close(total, good)
        assert not norms[0].isfinite()
        assert norms[1:].isfinite().all()

    @pytest.mark.parametrize("microbatch_size", [None, 2])
    def test_rows_of_one_example_are_clipped_as_one(self, implementation, microbatch_size):
        model, x, y = models.build("lenet5", norm="layer").double(), torch.rand(15, 1, 28, 28).double(), classes(5)

        def of_three(outputs: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(outputs, y.repeat_interleave(3), reduction="none").view(-1, 3).mean(1)

        how = {"implementation": implementation, "microbatch_size": microbatch_size}
        if implementation == "joint":
            with pytest.raises(ValueError, match="x: expected one row for each of 5 examples; got 15"):
                clipped_sum(model, of_three, x, y, clip_norm=1.0, **how)
            return
        gradients = []
        for i in range(5):
            loss = F.cross_entropy(model(x[3 * i : 3 * i + 3]), y[i].expand(3))
            gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]))
        expected = torch.stack([g.norm() for g in gradients])
        how["clip_norm"] = clip_norm = float(expected.median())
        total, norms = clipped_sum(model, of_three, x, y, **how)
        torch.testing.assert_close(norms, expected)
        clipped = [g * min(1.0, clip_norm / float(g.norm())) for g in gradients]
        torch.testing.assert_close(torch.cat([g.flatten() for g in total.values()]), sum(clipped))
        x[4, 0, 3, 3] = math.nan  # a row of example 1
        total, norms = clipped_sum(model, of_three, x, y, **how)
        assert norms.isfinite().tolist() == [True, False, True, True, True]
        torch.testing.assert_close(torch.cat([g.flatten() for g in total.values()]), sum(clipped) - clipped[1])

    @pytest.mark.parametrize(("rows", "examples"), [(7, 3), (2, 3), (3, 0), (0, 3)])
    def test_rows_that_cannot_be_shared_out_are_refused(self, implementation, rows, examples):
        expected = "one row" if implementation == "joint" else "as many rows"
        x, y = torch.randn(rows, 4), classes(examples)
        with pytest.raises(ValueError, match=f"x: expected {expected} for each of {examples} examples; got {rows}"):
            clipped_sum(nn.Linear(4, 3), LOSS, x, y, clip_norm=1.0, implementation=implementation)

    def test_frozen_parameters_are_left_out(self, implementation):
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
        model[0].weight.requires_grad_(False)
        total, _ = clipped_sum(model, LOSS, torch.randn(3, 4), classes(3), clip_norm=1.0, implementation=implementation)
        assert set(total) == {"0.bias", "2.weight", "2.bias"}

    def test_batch_norm_on_batch_statistics_is_refused_with_the_alternatives(self, implementation):
        model = models.build("lenet5", norm="batch")
        with pytest.raises(ValueError, match=r"depend on all others.*use layer or group norm"):
            clipped_sum(model, LOSS, torch.rand(2, 1, 28, 28), classes(2), clip_norm=1.0, implementation=implementation)

    def test_so_it_is_in_evaluation_mode_where_it_keeps_no_running_averages(self, implementation):
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)).eval()
        with pytest.raises(ValueError, match=r"1: batch norm on batch statistics"):
            clipped_sum(model, LOSS, torch.randn(2, 4), classes(2), clip_norm=1.0, implementation=implementation)


@pytest.mark.parametrize(
    ("positions", "d_in", "d_out", "gram"),
    [(1, 50, 40, True), (3, 50, 40, True), (25, 200, 10, True), (300, 50, 40, False), (2, 100_001, 1, False)],
)
def test_the_gram_form_is_used_where_it_is_smaller(positions, d_in, d_out, gram):
    outer = Outer(torch.randn(2, positions, d_in), torch.randn(2, positions, d_out))
    a, b = torch.randn(2, d_in, positions, 1), torch.randn(2, d_out, positions, 1)
    conv = Convolution(nn.Conv2d(d_in, d_out, 1), [a], [b])
    assert (outer.gram, conv.gram) == (gram, gram)
    assert (outer.gradients is None, conv.materialised is None) == (gram, gram)
    gradients = torch.einsum("bto,bti->boi", outer.b, outer.a)
    torch.testing.assert_close(outer.squares(), gradients.square().sum((1, 2)), rtol=1e-4, atol=1e-3)
    gradients = b.flatten(2) @ a.flatten(2).mT
    torch.testing.assert_close(conv.squares(), gradients.square().sum((1, 2)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "padding": 1, "groups": 2},
        {"kernel_size": 3, "padding": 1, "padding_mode": "circular"},
        {"kernel_size": (2, 3), "padding": "same", "dilation": 2},
        {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)},
        {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
        {"kernel_size": 1, "bias": False},
    ],
)
def test_inner_products_of_patches_come_from_those_of_pixels(how):
    draws = torch.Generator().manual_seed(0)
    layer = nn.Conv2d(40, 40, **how)
    x = torch.randn(5, 40, 4, 5, generator=draws)
    y = layer(x)
    b = torch.randn(y.shape, generator=draws)
    conv = Convolution(layer, [x], [b])
    assert conv.gram
    assert conv.gram_is_faster
    alone = [torch.autograd.grad(layer(x[i : i + 1]), layer.weight, b[i : i + 1])[0] for i in range(len(x))]
    torch.testing.assert_close(conv.squares(), torch.stack([g.square().sum() for g in alone]), rtol=1e-4, atol=0.0)
    torch.testing.assert_close(conv.weighted_sum(torch.ones(5)), sum(alone), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("apart", [1e-3, 3e-4, 1e-4])
@pytest.mark.parametrize("pairs", [1, 20])  # with few the Gram form takes less arithmetic, too
def test_a_gradient_whose_parts_cancel_is_clipped_all_the_same(pairs, apart):
    """Inner products of 1e12 that add up to 1e4: what rounding leaves of them may not be taken for the norm."""
    draws = torch.Generator().manual_seed(0)
    v, b = (torch.randn(20, pairs, size, generator=draws) for size in (396, 16))
    a = 1e5 * torch.cat([v, v * (1 + apart)], dim=1)
    b = torch.cat([b, -b], dim=1)
    outputs = b.mT.unsqueeze(3)
    images = nn.functional.fold(a.mT, (6 * pairs, 3), kernel_size=3, stride=3)
    forms = (
        Outer(a, b),
        Convolution(nn.Conv2d(396, 16, 1), [a.mT.unsqueeze(3)], [outputs]),
        Convolution(nn.Conv2d(44, 16, 3, stride=3), [images], [outputs]),
    )
    true = torch.einsum("bto,bti->boi", b.double(), a.double()).square().sum((1, 2))
    for form in forms:
        assert form.gram
        squares = form.squares()
        assert (squares.double() >= true).all()
        assert (squares <= 1e-5 * (a.norm(dim=2) * b.norm(dim=2)).sum(1).square() + 1.01 * true).all()


@pytest.mark.parametrize("size", [1, 255, 256, 257, 10_000, 1_000_003])
@pytest.mark.parametrize("equal", [True, False])
def test_norms_are_rounded_up(size, equal):
    """By a millionth; a norm that is too small would let an example move more than the clip norm."""
    values = torch.full((2, size), 0.3) if equal else torch.randn(2, size)
    exact = values.double().square().sum(1)
    assert ((exact <= squares_of_vectors(values)) & (squares_of_vectors(values) <= exact * (1 + 3e-6))).all()


def test_an_embedding_that_changes_its_gradients_is_left_to_the_reference():
    model = nn.Sequential(nn.Embedding(5, 4, scale_grad_by_freq=True), nn.Flatten(), nn.Linear(16, 3))
    with pytest.warns(UserWarning, match="has no rule for that"):
        clipped_sum(model, LOSS, torch.tensor([[1, 1, 2, 0]]), classes(1), clip_norm=1.0)


def test_a_loss_that_is_one_for_all_is_refused():
    with pytest.raises(ValueError, match=r"loss: expected one for each of 4 examples, \(4,\); got \(\)"):
        clipped_sum(nn.Linear(2, 3), nn.functional.cross_entropy, torch.rand(4, 2), classes(4), clip_norm=1.0)


class Scale(nn.Module):
    """y = s x, with a parameter that no rule knows."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.s * x


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


class Doubled(nn.Linear):
    """A subclass that computes something else than its parent."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Behind(nn.Module):
    """Uses its layers' weights behind their backs: one layer's alone, and another's once more, which a call that has no
    part in the loss does not hide."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.encoder, self.last, self.tied = nn.Linear(4, 4), nn.Linear(4, 3), tied

    def forward(self, x: Tensor) -> Tensor:
        h = self.encoder(x).tanh()
        if self.tied:
            self.encoder(h)
            return self.last(nn.functional.linear(h, self.encoder.weight.T))
        return nn.functional.linear(h, self.last.weight, self.last.bias)


def patched() -> nn.Module:
    layer = nn.Linear(4, 3)
    layer.forward = lambda x: nn.functional.linear(x.square(), layer.weight, layer.bias)
    return layer


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (patched(), "the model has another forward than its class"),
        (Behind(tied=True), "encoder.weight is used otherwise than by calling its layer"),
        (Behind(tied=False), "last.weight is used otherwise than by calling its layer"),
        (nn.Sequential(Scale(), nn.Linear(4, 3)), r"0 \(Scale\) has no rule"),
        (nn.Sequential(Doubled(4, 3)), r"0 \(Doubled\) has no rule"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))), "has no rule"),
        (tied(), "shared by two layers"),
    ],
)
def test_what_the_fast_form_does_not_know_goes_to_the_reference_with_a_word(model, reason):
    x, y = torch.randn(3, 4), classes(3)
    with pytest.warns(UserWarning, match=reason):
        fast = clipped_sum(model, LOSS, x, y, clip_norm=0.5)
    torch.testing.assert_close(fast, clipped_sum(model, LOSS, x, y, clip_norm=0.5, implementation="reference"))


def test_inputs_given_by_name_and_outputs_changed_by_hooks_are_seen_as_they_are():
    class ByName(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)
            self.layer.register_forward_hook(lambda layer, inputs, output: output * 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(input=x)

    model, x, y = ByName(), torch.randn(3, 4), classes(3)
    fast = clipped_sum(model, LOSS, x, y, clip_norm=0.5)
    torch.testing.assert_close(fast, clipped_sum(model, LOSS, x, y, clip_norm=0.5, implementation="reference"))


class TimeFirst(nn.Module):
    """Takes (B, T, D), and gives its layer (T, B, D)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(0, 1)).tanh().mean(0)


class Flattened(TimeFirst):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(0, 1).flatten(0, 1)).view(x.shape[1], len(x), 3).tanh().mean(0)


class Centred(TimeFirst):
    """Batch norm by another name."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer(x.mean(1))
        return (h - h.mean(0)).tanh()


class BesidePublic(TimeFirst):
    """As many public rows after the private ones, whose mean is taken away."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer(torch.cat([x[:, 0], torch.ones_like(x[:, 0]).cumsum(0)]))
        return (h[: len(x)] - h[len(x) :].mean(0)).tanh()


@pytest.mark.parametrize("model", [TimeFirst(), Flattened(), Centred(), BesidePublic()], ids=lambda m: type(m).__name__)
def test_rows_that_are_not_one_examples_go_to_the_reference_and_clipping_holds(model):
    x, y = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0)), classes(3)
    assert goes_to_the_reference(model, x, y) == "a row of layer is not of one example alone"


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_a_group_whose_layer_is_not_called_has_no_gradient(implementation):
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    total, norms = clipped_sum(
        Part(),
        LOSS,
        torch.randn(3, 4),
        classes(3),
        clip_norm={"used": 0.1, "unused": 1.0},
        implementation=implementation,
    )
    assert total["unused.weight"].eq(0).all()
    assert norms["unused"].eq(0).all()
    assert norms["used"].gt(0).all()


class OfBatch(nn.Module):
    """Standardises its input or what its layer makes of it, in training by the batch's own statistics, as constants."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place, self.first, self.last = place, nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(self.mixed(x) if self.place == "input" else x)
        return self.last((self.mixed(h) if self.place == "hidden" else h).tanh())

    def mixed(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return (x - x.mean(0).detach()) / (x.std(0, correction=0).detach() + 1e-3)


class Reversed(OfBatch):
    """Of an odd batch the example in the middle stays where it is."""

    def mixed(self, x: Tensor) -> Tensor:
        return x.flip(0)


@pytest.mark.parametrize("examples", [2, 4, 5])
@pytest.mark.parametrize("place", ["input", "hidden"])
@pytest.mark.parametrize("kind", [OfBatch, Reversed])
def test_examples_that_are_mixed_go_to_the_reference_without_a_gradient_between_them(kind, place, examples):
    x, y = torch.randn(examples, 4, generator=torch.Generator().manual_seed(0)), classes(examples)
    assert goes_to_the_reference(kind(place), x, y)


@pytest.mark.parametrize("hidden_by", ["evaluation mode", "a last layer of zeros", "examples that are all alike"])
def test_what_a_first_pass_does_not_show_is_looked_for_again(hidden_by):
    model, x, y = OfBatch("hidden"), torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), classes(4)
    weight = model.last.weight.detach().clone()
    if hidden_by == "a last layer of zeros":
        nn.init.zeros_(model.last.weight)
    model.train(hidden_by != "evaluation mode")
    clipped_sum(model, LOSS, torch.ones_like(x) if "alike" in hidden_by else x, y, clip_norm=0.01)
    model.train()
    model.last.weight.data.copy_(weight)
    assert goes_to_the_reference(model, x, y) == "an example's loss depends on the examples beside it"


class Positions(nn.Module):
    """Embeds places, the same of every example: as many rows as places."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.layer, self.last = nn.Embedding(6, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last((self.layer(x) + self.place(torch.arange(6))).tanh().mean(1))


@pytest.mark.parametrize("sizes", [(4, 6), (6, 4), (3, 6)])
def test_rows_that_all_examples_share_go_to_the_reference_at_every_batch_size(sizes):
    model, x = Positions(), torch.randn(6, 6, 4, generator=torch.Generator().manual_seed(0))
    for size in sizes:
        assert goes_to_the_reference(model, x[:size], classes(size)) == "a row of place is not of one example alone"


def test_looking_leaves_a_model_its_buffers_and_all_generators_as_one_pass_does():
    model = nn.Sequential(nn.Dropout(), NoisyLinear(4, 3, noise_std=0.1, generator=torch.Generator().manual_seed(0)))
    model.register_buffer("passes", torch.zeros(()))
    model.register_forward_hook(lambda model, inputs, output: model.passes.add_(1) and None)
    x, y, state = torch.randn(5, 4), classes(5), torch.get_rng_state()
    once = copy.deepcopy(model)
    clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    once(x)
    assert torch.equal(after, torch.get_rng_state())
    assert torch.equal(model[1].generator.get_state(), once[1].generator.get_state())
    assert model.passes == once.passes == 1


def goes_to_the_reference(model: nn.Module, x: Tensor, y: Tensor) -> str:
    """Why; and each gradient that is clipped is its example's own."""
    with pytest.warns(UserWarning, match="its gradients come from the slow reference") as warned:
        total, norms = clipped_sum(model, LOSS, x, y, clip_norm=0.01)
    for i in range(len(y)):
        alone, norm = clipped_sum(model, LOSS, x[[i]], y[[i]], clip_norm=0.01, implementation="reference")
        torch.testing.assert_close(norms[[i]], norm)
        total = {name: value - alone[name] for name, value in total.items()}
    assert max(value.abs().max() for value in total.values()) < 1e-6
    return str(warned[0].message).partition(";")[0]


class Residual(nn.Module):
    """Outputs changed in place, by an activation and by an addition, as torchvision's networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x).relu_()
        z = self.two(y)
        z += y
        return self.last(z.flatten(1))


def test_outputs_may_be_changed_in_place():
    check(Residual(), torch.randn(4, 2, 4, 4), classes(4))


class Overwritten(nn.Module):
    """The input of a layer is changed after the layer has used it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        x.zero_()
        return y


def test_an_input_changed_in_place_is_refused():
    with pytest.raises(ValueError, match="layer: expected its input unchanged; got one changed in place"):
        clipped_sum(Overwritten(), LOSS, torch.randn(2, 3), classes(2), clip_norm=1.0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm: expected more than 0; got 0.0"),
        ({"clip_norm": math.nan}, "clip_norm: expected more than 0; got nan"),
        ({"clip_norm": {"0": 1.0, "1": -1.0}}, "clip_norm of '1': expected more than 0; got -1.0"),
        (
            {"clip_norm": {"0": 1.0, "2": 1.0}},
            "clip_norm: expected names of the model's modules or parameters; got '2'",
        ),
        (
            {"clip_norm": 1.0, "implementation": "opacus"},
            "implementation: expected one of fast, reference, joint; got 'opacus'",
        ),
        ({"clip_norm": 1.0, "microbatch_size": 0}, "microbatch_size: expected None or at least 1; got 0"),
    ],
)
def test_bad_arguments_are_refused(how, message):
    model = nn.Sequential(nn.Linear(2, 3))
    with pytest.raises(ValueError, match=re.escape(message)):
        clipped_sum(model, LOSS, torch.ones(1, 2), classes(1), **how)
