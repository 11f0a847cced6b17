"""Noisy layers: twins of torch's at σ = 0, the right noise otherwise."""

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lib.layers import (
    MaxPool2d,
    NoisyConv2d,
    NoisyLinear,
    NoisyLSTM,
    held_noise,
    noisy_layers,
    set_weight_noise,
    statistics_of,
)

sizes = st.integers(1, 6)


def same(layer: nn.Module, twin: nn.Module, x: torch.Tensor) -> None:
    """Equal outputs, input gradients and parameter gradients, bit for bit."""
    layer.load_state_dict(twin.state_dict())
    results = []
    for module in (layer, twin):
        inputs = x.clone().requires_grad_()
        y = module(inputs)
        y.square().sum().backward()
        results.append([y, inputs.grad, *(p.grad for p in module.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@given(batch=st.integers(0, 6), features=sizes, out=sizes, bias=st.booleans())
@settings(deadline=None, max_examples=30, derandomize=True)
def test_linear_without_noise_is_its_twin(batch, features, out, bias):
    same(NoisyLinear(features, out, bias), nn.Linear(features, out, bias), torch.randn(batch, 2, features))


@given(
    batch=st.integers(1, 3),
    groups=st.integers(1, 2),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    bias=st.booleans(),
    mode=st.sampled_from(["zeros", "circular"]),
)
@settings(deadline=None, max_examples=30, derandomize=True)
def test_conv_without_noise_is_its_twin(batch, groups, kernel, stride, padding, bias, mode):
    how = {"stride": stride, "padding": padding, "groups": groups, "bias": bias, "padding_mode": mode}
    x = torch.randn(batch, 2 * groups, 5, 6)
    same(NoisyConv2d(2 * groups, 4, kernel, **how), nn.Conv2d(2 * groups, 4, kernel, **how), x)


def make(kind: str, **noise) -> nn.Module:
    return NoisyLinear(60, 70, **noise) if kind == "linear" else NoisyConv2d(20, 25, 3, **noise)


def is_normal(sample: torch.Tensor, std: float) -> bool:
    """Mean 0 and standard deviation ``std``, each within four of its standard errors."""
    n = sample.numel()
    return bool(sample.mean().abs() < 4 * std / math.sqrt(n) and (sample.std() / std - 1).abs() < 4 / math.sqrt(2 * n))


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_the_noise_has_the_right_scale_and_no_other(kind):
    layer = make(kind, noise_std=0.3, generator=torch.Generator().manual_seed(0))
    weight, bias = zip(*(layer._noisy_parameters() for _ in range(20)), strict=True)
    for noise in (torch.stack(weight) - layer.weight, torch.stack(bias) - layer.bias):
        assert is_normal(noise, 0.3)
        assert not is_normal(noise, 0.2)
        assert not is_normal(noise, 0.45)


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_the_mean_is_learnt_by_reparametrisation(kind):
    """∂loss/∂µ is ∂loss/∂w at the drawn w: for a loss linear in w it does not depend on the draw."""
    layer = make(kind, noise_std=5.0)
    x = torch.randn(3, 60) if kind == "linear" else torch.randn(3, 20, 4, 4)
    gradients = [torch.autograd.grad(layer(x).sum(), layer.weight)[0] for _ in range(2)]
    torch.testing.assert_close(*gradients)


def test_every_forward_pass_draws_afresh_unless_held():
    layer, x = NoisyLinear(3, 4, noise_std=1.0), torch.ones(1, 3)
    assert not torch.equal(layer(x), layer(x))
    with held_noise(layer):
        held = layer(x)
        torch.testing.assert_close(layer(x), held, rtol=0, atol=0)
    assert not torch.equal(layer(x), held)


def test_all_examples_of_a_pass_share_one_draw():
    y = NoisyLinear(3, 4, noise_std=1.0)(torch.ones(5, 3))
    torch.testing.assert_close(y, y[:1].expand(5, 4))


def test_a_generator_makes_the_noise_repeatable_and_leaves_the_global_one_alone():
    layer, x = NoisyLinear(3, 4, noise_std=1.0, generator=torch.Generator().manual_seed(7)), torch.ones(1, 3)
    state, first = torch.get_rng_state(), layer(x)
    assert torch.equal(torch.get_rng_state(), state)
    layer.generator.manual_seed(7)
    torch.testing.assert_close(layer(x), first, rtol=0, atol=0)


def test_biases_can_be_left_without_noise():
    layer = NoisyLinear(3, 4, noise_std=1.0, noise_on_bias=False)
    torch.testing.assert_close(layer(torch.zeros(1, 3))[0], layer.bias)


def test_one_call_sets_the_noise_of_a_whole_model():
    model = nn.Sequential(NoisyConv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), NoisyLinear(8, 2), nn.Linear(2, 2))
    set_weight_noise(model, 0.5, noise_on_bias=False)
    assert [(layer.noise_std, layer.noise_on_bias) for layer in noisy_layers(model)] == [(0.5, False)] * 2
    assert "noise_std=0.5" in repr(model)


@pytest.mark.parametrize("std", [-0.1, math.inf, math.nan])
def test_an_impossible_noise_is_refused(std):
    with pytest.raises(ValueError, match="noise_std: expected a finite number of at least 0; got"):
        NoisyLinear(2, 2, noise_std=std)
    with pytest.raises(ValueError, match="noise_std"):
        set_weight_noise(NoisyLinear(2, 2), std)


def lstm_gradients_are_its_twins(layer: NoisyLSTM, twin: nn.LSTM) -> None:
    of_twin = {name: parameter.grad for name, parameter in twin.named_parameters()}
    for maps, name in ((layer.input, "ih"), (layer.hidden, "hh")):
        for linear, way in zip(maps, ("", "_reverse"), strict=False):
            for kind, parameter in linear.named_parameters():
                torch.testing.assert_close(parameter.grad, of_twin.pop(f"{kind}_{name}_l0{way}"))
    assert not of_twin


@given(batch=st.integers(0, 3), steps=st.integers(1, 5), features=sizes, hidden=sizes, both=st.booleans())
@settings(deadline=None, max_examples=20, derandomize=True)
def test_lstm_without_noise_is_its_twin(batch, steps, features, hidden, both):
    twin = nn.LSTM(features, hidden, batch_first=True, bidirectional=both).double()
    layer = NoisyLSTM(features, hidden, bidirectional=both).double()
    layer.load_torch(twin)
    x = torch.randn(batch, steps, features, dtype=torch.float64)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    ours, theirs = layer(inputs[0]), twin(inputs[1])[0]
    torch.testing.assert_close(ours, theirs)
    ours.square().sum().backward(), theirs.square().sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    lstm_gradients_are_its_twins(layer, twin)


@given(steps=st.integers(1, 6), features=sizes, hidden=sizes, both=st.booleans(), data=st.data())
@settings(deadline=None, max_examples=20, derandomize=True)
def test_lstm_does_not_see_the_padding(steps, features, hidden, both, data):
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, steps), min_size=1, max_size=4)))
    twin = nn.LSTM(features, hidden, batch_first=True, bidirectional=both).double()
    layer = NoisyLSTM(features, hidden, bidirectional=both).double()
    layer.load_torch(twin)
    x = torch.randn(len(lengths), steps, features, dtype=torch.float64)
    weights = torch.randn(len(lengths), steps, hidden * (1 + both), dtype=torch.float64)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    output, (last, _) = twin(packed)
    output, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    ours = layer(x, lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(ours[row, :length], output[row, :length])
        weights[row, length:] = 0.0  # there torch has no output, and ours the last state
    torch.testing.assert_close(ours[:, -1, :hidden], last[0])
    if both:
        torch.testing.assert_close(ours[:, 0, hidden:], last[1])
    seen = weights[:, : output.shape[1]]  # torch pads to the longest
    (ours[:, : output.shape[1]] * seen).sum().backward(), (output * seen).sum().backward()
    lstm_gradients_are_its_twins(layer, twin)


def test_lstm_is_normalised_after_both_maps():
    layer = NoisyLSTM(3, 4, bidirectional=True, norm=nn.LayerNorm)
    assert [m.normalized_shape for m in layer.modules() if isinstance(m, nn.LayerNorm)] == [(16,)] * 4
    x = torch.randn(2, 5, 3)
    before = layer(x)
    for linear in noisy_layers(layer):
        linear.weight.data *= 3.0
        linear.bias.data *= 3.0
    torch.testing.assert_close(layer(x), before, rtol=1e-3, atol=1e-3)  # up to ε in the denominator


@pytest.mark.parametrize(("every_time_step", "draws"), [("none", (1, 1)), ("recurrent", (1, 7)), ("all", (7, 7))])
def test_lstm_noise_is_drawn_once_for_all_time_steps_or_at_each(every_time_step, draws, monkeypatch):
    torch.manual_seed(0)
    layer, drawn = NoisyLSTM(3, 4, noise_std=0.1, noise_every_time_step=every_time_step), []
    original = NoisyLinear._draw
    monkeypatch.setattr(NoisyLinear, "_draw", lambda linear: drawn.append(linear) or original(linear))
    layer(torch.ones(2, 7, 3))
    assert (drawn.count(layer.input[0]), drawn.count(layer.hidden[0])) == draws
    drawn.clear()
    with held_noise(layer):
        assert torch.equal(layer(torch.ones(2, 7, 3)), layer(torch.ones(2, 7, 3)))
    assert (drawn.count(layer.input[0]), drawn.count(layer.hidden[0])) == (1, 1)
    assert not torch.equal(layer(torch.ones(2, 7, 3)), layer(torch.ones(2, 7, 3)))
    with pytest.raises(ValueError, match="expected none, recurrent or all; got True"):
        NoisyLSTM(3, 4, noise_every_time_step=True)


def test_lstm_with_fresh_noise_at_every_time_step_is_one_that_is_run_step_by_step():
    """Each step's input and state are mapped by weights of their own, drawn in the order of the layer's maps."""
    torch.manual_seed(0)
    noise = {"noise_std": 0.3, "generator": torch.Generator().manual_seed(1)}
    layer, x = NoisyLSTM(3, 4, noise_every_time_step="all", **noise), torch.randn(2, 5, 3)
    states = layer(x)
    noise["generator"].manual_seed(1)
    mapped = [layer.input[0](x[:, t]) for t in range(5)]
    h = c = torch.zeros(2, 4)
    for t in range(5):
        i, f, g, o = (mapped[t] + layer.hidden[0](h)).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        torch.testing.assert_close(states[:, t], h)


@given(
    shape=st.tuples(*(st.integers(1, 9) for _ in range(4))),
    kernel=st.integers(1, 3),
    stride=st.none() | st.integers(1, 4),
    padding=st.integers(0, 1),
    ceil_mode=st.booleans(),
)
def test_max_pool_is_its_twin_with_and_without_a_gradient(shape, kernel, stride, padding, ceil_mode):
    settings = {"stride": stride, "padding": min(padding, kernel // 2), "ceil_mode": ceil_mode}
    own, twin = MaxPool2d(kernel, **settings), nn.MaxPool2d(kernel, **settings)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x[0, 0, -1, -1] = math.nan
    try:
        expected = twin(x)
    except RuntimeError as error:  # a window larger than x
        with torch.no_grad(), pytest.raises(RuntimeError, match=re.escape(str(error))):
            own(x)
        return
    with torch.no_grad():
        torch.testing.assert_close(own(x), expected, rtol=0, atol=0, equal_nan=True)
    first, second = x.clone().requires_grad_(), x.clone().requires_grad_()
    own(first).nansum().backward()
    twin(second).nansum().backward()
    assert torch.equal(first.grad, second.grad)


@pytest.mark.parametrize("shape", [(6, 6), (2, 0, 6, 6), (0, 6, 6), (1, 2, 3, 6, 6)], ids=str)
def test_max_pool_refuses_what_its_twin_does_without_a_gradient_too(shape):
    with torch.no_grad():
        with pytest.raises(RuntimeError) as refused:
            nn.MaxPool2d(2)(torch.ones(shape))
        with pytest.raises(RuntimeError, match=re.escape(str(refused.value))):
            MaxPool2d(2)(torch.ones(shape))


def test_statistics_of_leave_every_layer_its_mode():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout()).train()
    model[1].eval()
    with statistics_of(model, torch.randn(8, 3)):
        assert not any(layer.training for layer in model.modules())
    assert [layer.training for layer in model.modules()] == [True, True, False, True]


@pytest.mark.parametrize(
    "how",
    [{"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"proj_size": 2}, {"input_size": 4}],
    ids=str,
)
def test_an_lstm_of_another_kind_is_not_taken_over_in_part(how):
    with pytest.raises(
        ValueError, match="layer: expected one layer with biases and without projection, from 5 to 3, 1 ways; got LS"
    ):
        NoisyLSTM(5, 3).load_torch(nn.LSTM(**{"input_size": 5, "hidden_size": 3} | how))


def test_an_lstm_begins_as_torchs():
    """Uniform up to 1/√H, whatever the size of the inputs."""
    for parameter in NoisyLSTM(400, 4, bidirectional=True).parameters():
        assert 0.3 < parameter.abs().max() <= 0.5


def test_statistics_of_leave_the_running_averages():
    model, x = nn.Sequential(nn.BatchNorm1d(3)), torch.randn(50, 3) + 5
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with statistics_of(model, x):
        torch.testing.assert_close(model[0].running_mean, x.mean(0))
        torch.testing.assert_close(model[0].running_var, x.var(0))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_statistics_are_of_all_examples_in_passes_of_a_thousand():
    model, x = nn.BatchNorm1d(1), torch.cat([torch.zeros(1000, 1), torch.full((1000, 1), 4.0)])
    with statistics_of(model, x):
        assert model.running_mean.item() == pytest.approx(2.0)
