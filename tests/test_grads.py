"""Per-example gradients: fast = reference = a loop over batches of one; clipping checked by hand."""

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

from lib import models, registry, tf32
from lib.grads import IMPLEMENTATIONS, Groups, chunks, clipped_sum
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


@pytest.mark.parametrize("limit", [1, 4_000, 11_000])  # bytes: of one example each, or of 2 or 3 and one that is left
def test_a_batch_in_chunks(limit, monkeypatch):
    monkeypatch.setitem(chunks.CHUNK_BYTES, "cpu", limit)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, groups=2),  # 36 positions: the gradients, which are kept
        nn.GroupNorm(2, 4),
        nn.Conv2d(4, 8, 3, stride=2),  # 4: the gradients, for their norms alone
        nn.Tanh(),
        nn.Conv2d(8, 8, 2),  # 1: inner products
        nn.Flatten(),
        nn.Linear(8, 3),
    )
    check(model, torch.randn(7, 2, 8, 8), classes(7))


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


MODELS = [name for name in registry.names("models") if f"{name}_narrow" not in NARROW]
NORMS = {name: ("none", "layer", *(["group_without_affine"] if name != "bilstm" else [])) for name in MODELS}


def built(name: str, norm: str, noise: float) -> nn.Module:
    torch.manual_seed(0)
    model = models.build(name, norm=norm, features=7 if name == "bilstm" else None)
    set_weight_noise(model, noise)
    return model


@pytest.mark.parametrize(("name", "norm"), [(name, norm) for name in MODELS for norm in NORMS[name]])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_every_model(name, norm, noise):
    model, x = built(name, norm, noise), torch.rand(3, *INPUTS.get(name, (1, 28, 28)))
    if name == "bilstm":
        x[1, 3:] = 0.0  # padding
    check(model, x, classes(3), microbatch_size=2)


@pytest.mark.parametrize(("name", "norm"), [(name, norm) for name in MODELS for norm in NORMS[name]])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_model_without_any_example(name, norm, implementation):
    model, x = built(name, norm, 0.1), torch.rand(0, *INPUTS.get(name, (1, 28, 28)))
    total, norms = clipped_sum(model, LOSS, x, classes(0), clip_norm=1.0, implementation=implementation)
    assert norms.shape == (0,)
    assert {n: (value.shape, value.any().item()) for n, value in total.items()} == {
        n: (parameter.shape, False) for n, parameter in model.named_parameters()
    }


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


@pytest.mark.parametrize(("norm", "alike"), [("none", False), ("layer", True)])
def test_in_float32_one_of_a_thousand_examples_moves_the_sum_by_its_clip_norm(norm, alike):
    """The sum of many rounds more than one gradient does, most where all point one way; the noise is made for C."""
    torch.manual_seed(0)
    model, x, clip_norm = models.build("lenet5", norm=norm), torch.rand(1024, 1, 28, 28), 0.1
    x, y = (x[:1].expand_as(x), torch.zeros(1024, dtype=torch.int64)) if alike else (x, classes(1024))
    (total, norms), (rest, _) = (clipped_sum(model, LOSS, x[i:], y[i:], clip_norm=clip_norm) for i in (0, 1))
    moved = sum((total[name].double() - rest[name]).square().sum() for name in total).sqrt()
    assert norms.min() > clip_norm
    assert float(moved) / clip_norm == pytest.approx(1.0, abs=2e-4)


def test_sums_are_contiguous_whatever_the_images_are():
    x = torch.rand(20, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    for name in ("convnet", "resnet18_narrow", "tf_tutorial"):
        model, images = models.build(name), x if name != "tf_tutorial" else x[:, :, :24, :24]
        for implementation in IMPLEMENTATIONS:
            total, _ = clipped_sum(model, LOSS, images, classes(20), clip_norm=1.0, implementation=implementation)
            assert all(value.is_contiguous() for value in total.values())


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

    def test_running_averages_of_private_examples_are_refused(self, implementation):
        model = nn.Sequential(nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten(), nn.Linear(6, 3))
        how = {"clip_norm": 1.0, "implementation": implementation}
        with pytest.raises(ValueError, match="0: its running averages would be of private examples"):
            clipped_sum(model, LOSS, torch.randn(2, 2, 3), classes(2), **how)
        clipped_sum(model.eval(), LOSS, torch.randn(2, 2, 3), classes(2), **how)

    def test_so_it_is_in_evaluation_mode_where_it_keeps_no_running_averages(self, implementation):
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)).eval()
        with pytest.raises(ValueError, match=r"1: batch norm on batch statistics"):
            clipped_sum(model, LOSS, torch.randn(2, 4), classes(2), clip_norm=1.0, implementation=implementation)


def test_a_loss_that_is_one_for_all_is_refused():
    with pytest.raises(ValueError, match=r"loss: expected one for each of 4 examples, \(4,\); got \(\)"):
        clipped_sum(nn.Linear(2, 3), nn.functional.cross_entropy, torch.rand(4, 2), classes(4), clip_norm=1.0)


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


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm: expected a number of more than 0, math.inf to clip nothing; got 0.0"),
        ({"clip_norm": math.nan}, "clip_norm: expected a number of more than 0, math.inf to clip nothing; got nan"),
        (
            {"clip_norm": {"0": 1.0, "1": -1.0}},
            "clip_norm of '1': expected a number of more than 0, math.inf to clip nothing; got -1.0",
        ),
        (
            {"clip_norm": {"0": 1.0, "2": 1.0}},
            "clip_norm: expected names of the model's modules or parameters that are trained; got '2'",
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


@pytest.mark.parametrize("name", ["x", "y"])
def test_what_is_no_tensor_is_refused(name):
    batch = {"x": torch.ones(1, 2), "y": classes(1)}
    with pytest.raises(TypeError, match=f"^{name}: expected a tensor; got ndarray$"):
        clipped_sum(nn.Linear(2, 3), LOSS, **batch | {name: batch[name].numpy()}, clip_norm=1.0)


@pytest.mark.parametrize("clip_norm", [1.0, {"0": 1.0}])
def test_a_model_with_nothing_to_train_is_refused(clip_norm):
    model = nn.Sequential(nn.Linear(2, 3)).requires_grad_(False)
    with pytest.raises(ValueError, match="model: expected a parameter that is trained; got Sequential without any"):
        clipped_sum(model, LOSS, torch.ones(1, 2), classes(1), clip_norm=clip_norm)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_of_half_precision_are_refused(dtype):
    """Their clipped sum would be longer than C."""
    model = nn.Sequential(nn.Linear(2, 3)).to(dtype)
    with pytest.raises(ValueError, match=f"0.weight: expected float32 or float64, .*; got {dtype}"):
        clipped_sum(model, LOSS, torch.ones(1, 2, dtype=dtype), classes(1), clip_norm=1.0)


def test_parameters_of_mixed_precision_are_refused():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3).double())
    with pytest.raises(ValueError, match=r"1\.weight: expected torch\.float32 as .*; got torch\.float64"):
        clipped_sum(model, LOSS, torch.ones(1, 2), classes(1), clip_norm=1.0)


def test_tf32_is_off_inside(monkeypatch):
    """A GPU would find the norm in full and the sum in TF32, a thousandth too long."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    inside = []

    def loss(outputs, y):
        inside.append(tf32.is_allowed())
        return LOSS(outputs, y)

    clipped_sum(nn.Linear(2, 3), loss, torch.ones(1, 2), classes(1), clip_norm=1.0)
    assert set(inside) == {False}


def test_gradients_are_switched_on_and_half_precision_off_inside():
    """Of half precision a clipped sum would be longer than C."""
    model, x, y = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 3)), torch.randn(8, 16), classes(8)
    expected, norms = clipped_sum(model, LOSS, x, y, clip_norm=0.01)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        total, found = clipped_sum(model, LOSS, x, y, clip_norm=0.01)
    torch.testing.assert_close((total, found), (expected, norms), rtol=0.0, atol=0.0)
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"outside of torch\.inference_mode"):
        clipped_sum(model, LOSS, x, y, clip_norm=0.01)
