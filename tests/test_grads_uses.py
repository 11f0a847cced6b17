"""What the fast gradients do not know of goes to the reference: weights used elsewhere, rows of several examples."""

import copy
import threading
import warnings
from contextlib import suppress
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from test_grads import LOSS, check, classes, loop
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import register_module_forward_hook

from lib.grads import check_buffers, clipped_sum, looks, mixing, uses
from lib.layers import NoisyLinear


def test_an_embedding_that_changes_its_gradients_is_left_to_the_reference():
    model = nn.Sequential(nn.Embedding(5, 4, scale_grad_by_freq=True), nn.Flatten(), nn.Linear(16, 3))
    with pytest.warns(UserWarning, match="has no rule for that"):
        clipped_sum(model, LOSS, torch.tensor([[1, 1, 2, 0]]), classes(1), clip_norm=1.0)


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


class HookOfBatch(OfBatch):
    """Examples meet in the backward pass alone, where the gradient of all is made as long as 1."""

    def mixed(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient / gradient.norm())
        return x


@pytest.mark.parametrize("examples", [2, 5, 64])
def test_a_backward_pass_that_depends_on_the_whole_batch_goes_to_the_reference(examples):
    x, y = torch.randn(examples, 4, generator=torch.Generator().manual_seed(0)), classes(examples)
    told = goes_to_the_reference(HookOfBatch("hidden"), x, y)
    assert told == "a row of first is not of one example alone"


class DividedInBackward(torch.autograd.Function):
    """The same in value; its gradient is divided by a statistic of the batch that the forward pass has fixed."""

    @staticmethod
    def forward(ctx, h: Tensor) -> Tensor:
        ctx.spread = h.std()
        return h.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient / ctx.spread


def fixed_by_a_hook(h: Tensor) -> Tensor:
    length = h.detach().norm()
    if h.requires_grad:
        h.register_hook(lambda gradient: gradient * length)
    return h


def divided_by_their_number(h: Tensor) -> Tensor:
    if h.requires_grad:
        h.register_hook(lambda gradient: gradient / len(gradient))
    return h


def where_it_is_trained(h: Tensor) -> Tensor:
    return h + h.mean(0).detach() if h.requires_grad else h


class Hidden(OfBatch):
    def __init__(self, does) -> None:
        super().__init__("hidden")
        self.mixed = does


def a_little_where_it_is_trained(h: Tensor) -> Tensor:
    return h + 1e-3 * h.mean(0).detach() if h.requires_grad else h


HIDDEN = [DividedInBackward.apply, fixed_by_a_hook, divided_by_their_number, where_it_is_trained]
HIDDEN += [a_little_where_it_is_trained]


@pytest.mark.parametrize("does", HIDDEN, ids=["Function", "hook", "number", "trained alone", "a little"])
def test_what_the_batch_does_to_gradients_alone_goes_to_the_reference(does):
    """In values alike, and linear in the gradient: it shows beside other examples and beside fewer."""
    x, y = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), classes(12)
    x[0] *= 100
    with pytest.warns(UserWarning, match="its gradients come from the slow reference"), suppress(RuntimeError):
        # Through a Function torch cannot go for every example, and says so.
        clipped_sum(Hidden(does), LOSS, x, y, clip_norm=0.01)


class OfHowMany(nn.Module):
    """What it puts out depends on how many examples came; and it draws, though next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.dropout, self.last = nn.Linear(4, 5), nn.Dropout(1e-9), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.dropout(self.first(x))) / len(x)


def test_a_model_that_draws_and_counts_its_examples_goes_to_the_reference():
    x, y = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), classes(12)
    with pytest.warns(UserWarning, match="an example's loss depends on how many there are"):
        clipped_sum(OfHowMany(), LOSS, x, y, clip_norm=0.01)


class Remembers(nn.Module):
    """Keeps the batch's mean in a parameter: of another layer, or one that is not trained."""

    def __init__(self, kept: str) -> None:
        super().__init__()
        self.kept, self.first, self.last = kept, nn.Linear(4, 5), nn.Linear(5, 3)
        self.mean = nn.Parameter(torch.zeros(5), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        with torch.no_grad():
            (self.mean if self.kept == "mean" else self.first.bias).data.add_(h.mean(0))
        return self.last(h - self.mean)


@pytest.mark.parametrize("kept", ["mean", r"first\.bias"])
def test_what_is_kept_in_a_parameter_is_refused(kept):
    with pytest.raises(
        ValueError, match=f"{kept}: expected a buffer or parameter that does not depend on the examples"
    ):
        clipped_sum(Remembers(kept), LOSS, torch.rand(6, 4), classes(6), clip_norm=0.1)


def test_a_padding_that_is_changed_afterwards_is_that_of_the_gradient():
    for before, after in ((1, 0), (2, 1), (0, 1)):
        layer = nn.Conv2d(2, 3, 3, padding=before)
        layer.padding = (after, after)
        check(nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.LazyLinear(3)), torch.randn(4, 2, 6, 6), classes(4))


def tiled() -> nn.Module:
    layer = nn.Conv2d(1, 3, 3)
    layer._conv_forward = lambda x, weight, bias: F.conv2d(F.pad(x, (1, 1, 1, 1), "circular"), weight, bias)
    return layer


def hooked_as_of_old() -> nn.Module:
    layer = nn.Conv2d(1, 3, 3)
    layer.register_backward_hook(lambda layer, inputs, outputs: None)
    return layer


@pytest.mark.filterwarnings("ignore:.*on-full backward hook")
@pytest.mark.parametrize(
    ("layer", "reason"),
    [(tiled, "has another forward than its class"), (hooked_as_of_old, "a backward hook of the old kind")],
)
def test_a_layer_that_is_patched_within_goes_to_the_reference(layer, reason):
    model = nn.Sequential(layer(), nn.Flatten(), nn.LazyLinear(3))
    model(x := torch.randn(3, 1, 5, 5))
    with pytest.warns(UserWarning, match=reason):
        clipped_sum(model, LOSS, x, classes(3), clip_norm=0.1)


def test_a_global_hook_on_outputs_is_no_secret():
    model, x = nn.Sequential(nn.Linear(4, 3)), torch.randn(3, 4)
    handle = register_module_forward_hook(lambda layer, inputs, output: 3 * output)
    try:
        with pytest.warns(UserWarning, match="a global forward hook may change what layers put out"):
            _, norms = clipped_sum(model, LOSS, x, classes(3), clip_norm=0.1)
        _, expected = clipped_sum(model, LOSS, x, classes(3), clip_norm=0.1, implementation="reference")
    finally:
        handle.remove()
    torch.testing.assert_close(norms, expected)


def test_a_layer_that_is_its_own_copy_is_left_as_it_is():
    class Single(nn.Linear):
        __deepcopy__ = lambda self, memo: self  # noqa: E731

    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Single(4, 3))
    with pytest.warns(UserWarning, match="its gradients come from the slow reference"):
        clipped_sum(model, LOSS, torch.randn(3, 4), classes(3), clip_norm=0.1)
    assert all(parameter.requires_grad for parameter in model.parameters())


class Toggled(nn.Module):
    """Calls its last layer once more with weights that are not trained there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        trained = self.last(h)
        self.last.requires_grad_(False)
        fixed = self.last(2 * h)
        self.last.requires_grad_(True)
        return trained + fixed


def test_a_call_that_trains_nothing_goes_to_the_reference():
    told = r"last\.weight is used otherwise than by calling its layer"
    with pytest.warns(UserWarning, match=told), suppress(RuntimeError):  # torch's, whose transforms do not switch it
        clipped_sum(Toggled(), LOSS, torch.randn(3, 4), classes(3), clip_norm=0.1)


class AsLongAsTheLongest(nn.Module):
    """Calls its layer once for every word of the batch's longest text; of shorter ones nothing more is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, there = torch.zeros_like(x[:, 0]), x.abs().sum(-1) > 0
        for t in reversed(range(int(there.sum(1).max()))):
            h = torch.where(there[:, t, None], self.step(h + x[:, t]).tanh(), h)
        return self.last(h)


def test_texts_of_several_lengths_stay_with_the_fast_form():
    x = torch.randn(6, 5, 4, generator=torch.Generator().manual_seed(0))
    for i, length in enumerate((1, 2, 5, 2, 3, 1)):
        x[i, length:] = 0.0
    model, y = AsLongAsTheLongest(), classes(6)
    total, norms = clipped_sum(model, LOSS, x, y, clip_norm=0.5)
    gradients = loop(model, x, y)
    expected = sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt()
    torch.testing.assert_close(norms, expected)
    factors = (0.5 / expected).clamp(max=1.0)
    for name, of_each in gradients.items():
        torch.testing.assert_close(total[name], torch.einsum("b,b...->...", factors, of_each))


class MadeAnew(nn.Module):
    """Calls its layer with a weight that it makes of the layer's."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.first, self.last = how, nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        made = {"masked": lambda w: w * (w > 0), "scaled": lambda w: 2 * w, "bounded": torch.tanh}[self.how]
        return self.last(functional_call(self.first, {"weight": made(self.first.weight)}, (x,)))


@pytest.mark.parametrize("how", ["masked", "scaled", "bounded"])
def test_a_layer_that_is_called_with_what_is_made_of_its_weight_goes_to_the_reference(how):
    x, y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), classes(6)
    told = goes_to_the_reference(MadeAnew(how), x, y)
    assert told == "first is called with other parameters than its own"


class Later(nn.Module):
    """Uses a layer's weight once more from some step on, which a number tells."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.steps = nn.Linear(4, 4), nn.Linear(4, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).tanh()
        return self.last(F.linear(h, self.first.weight) if self.steps else h)


def test_a_use_that_begins_later_is_seen_when_it_is_looked_for_again():
    model, x, y = Later(), torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), classes(4)
    for _ in range(17):
        clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    model.steps = 1
    for _ in range(18, 32):
        clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    with pytest.warns(UserWarning, match=r"first\.weight is used otherwise than by calling its layer"):
        clipped_sum(model, LOSS, x, y, clip_norm=0.1)


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_a_hook_on_a_parameter_is_refused(implementation):
    """It would be passed by, and the model be trained otherwise than without privacy."""
    model = nn.Sequential(nn.Linear(4, 3))
    model[0].weight.register_hook(lambda gradient: gradient * 0)
    with pytest.raises(ValueError, match=r"0\.weight: expected no hook on it, which no example's gradient"):
        clipped_sum(model, LOSS, torch.ones(2, 4), classes(2), clip_norm=1.0, implementation=implementation)


def test_a_model_whose_output_is_no_tensor_may_draw():
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.dropout = nn.Linear(4, 3), nn.Dropout(1e-9)

        def forward(self, x: Tensor) -> tuple[Tensor, str]:
            return self.dropout(self.layer(x)), "more"

    model, x, y = Pair(), torch.randn(4, 4), classes(4)
    how = {"loss": lambda outputs, y: LOSS(outputs[0], y), "x": x, "y": y, "clip_norm": 0.1}
    with pytest.warns(UserWarning, match="its examples cannot be tried out on a copy"):
        total, norms = clipped_sum(model, **how)
    expected, of_layer = clipped_sum(model.layer, LOSS, x, y, clip_norm=0.1)
    torch.testing.assert_close(norms, of_layer)
    torch.testing.assert_close(list(total.values()), list(expected.values()))


class AlikeInValue(OfBatch):
    """The gradient alone is of the whole batch."""

    def mixed(self, x: Tensor) -> Tensor:
        return x + x.mean(0) - x.mean(0).detach() if self.training else x


@pytest.mark.parametrize(
    ("hidden_by", "kind"),
    [
        ("evaluation mode", OfBatch),
        ("examples that are all alike", OfBatch),
        ("a last layer of zeros", AlikeInValue),
    ],
)
def test_what_a_first_pass_does_not_show_is_looked_for_again(hidden_by, kind):
    model, x, y = kind("hidden"), torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), classes(4)
    weight = model.last.weight.detach().clone()
    if hidden_by == "a last layer of zeros":
        nn.init.zeros_(model.last.weight)
    model.train(hidden_by != "evaluation mode")
    clipped_sum(model, LOSS, torch.ones_like(x) if "alike" in hidden_by else x, y, clip_norm=0.01)
    model.train()
    model.last.weight.data.copy_(weight)
    assert goes_to_the_reference(model, x, y).endswith("is not of one example alone")


@pytest.mark.parametrize("zeros", [False, True])
def test_a_pass_through_a_last_layer_of_zeros_is_one_look_of_several(zeros):
    """No gradient flows, so none shows whose it is; where they do, one pass tells."""
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)), torch.randn(6, 4)
    if zeros:
        nn.init.zeros_(model[2].weight)
    clipped_sum(model, LOSS, x, classes(6), clip_norm=1.0)
    (alone,) = (look for (question, *_), look in looks.found(model).items() if question == "alone")
    assert (alone.over, alone.taken == 1) == (not zeros, zeros)


class OfEarlier(OfBatch):
    """Of the examples before it: the first has none."""

    def mixed(self, x: Tensor) -> Tensor:
        return x - x.detach().cumsum(0) / torch.arange(1, len(x) + 1).unsqueeze(1)


class AllButTheFirst(OfBatch):
    def mixed(self, x: Tensor) -> Tensor:
        return torch.cat([x[:1], x[1:] - x.detach().mean(0)])


class Neighbours(OfBatch):
    """Examples change places two by two."""

    def mixed(self, x: Tensor) -> Tensor:
        return torch.cat([pair.flip(0) for pair in x.split(2)])


@pytest.mark.parametrize("examples", [2, 3, 4, 7, 32])
@pytest.mark.parametrize("kind", [OfEarlier, AllButTheFirst, Neighbours])
def test_examples_of_which_the_first_is_alone_go_to_the_reference(kind, examples):
    x, y = torch.randn(examples, 4, generator=torch.Generator().manual_seed(0)), classes(examples)
    assert goes_to_the_reference(kind("hidden"), x, y)


@pytest.mark.parametrize("examples", [2, 3, 7, 20, 21, 256])
def test_of_any_two_examples_each_is_looked_at_without_the_other(examples):
    sides = torch.stack(mixing.sets_of(examples))
    apart = (sides[:, :, None] & ~sides[:, None, :]).any(0)
    assert torch.equal(apart, ~torch.eye(examples, dtype=torch.bool))
    assert sides.any(1).all()
    assert (~sides).any(1).all()


def test_a_branch_that_begins_with_zeros_hides_no_batch_mean():
    class Branch(OfBatch):
        def __init__(self) -> None:
            super().__init__("hidden")
            self.branch = nn.Linear(5, 5)
            nn.init.zeros_(self.branch.weight)
            nn.init.zeros_(self.branch.bias)

        def mixed(self, x: Tensor) -> Tensor:
            return x + self.branch(x.mean(0).expand_as(x))

    x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), classes(8)
    assert goes_to_the_reference(Branch(), x, y)


def test_a_buffer_that_keeps_what_it_sees_is_refused():
    """It would be released with the model, without noise."""

    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            if self.training and torch.is_grad_enabled():
                self.mean.lerp_(x.detach().mean(0), 0.1)
            return x

    model, x, y = nn.Sequential(Running(), nn.Linear(4, 3)), torch.rand(8, 4), classes(8)
    for refused in (
        lambda: clipped_sum(model, LOSS, x, y, clip_norm=0.1),
        lambda: clipped_sum(model, LOSS, x, y, clip_norm=0.1, microbatch_size=1),
        lambda: clipped_sum(model, LOSS, x[:1], y[:1], clip_norm=0.1),
        lambda: clipped_sum(model, LOSS, x, y, clip_norm=0.1, implementation="reference"),
        lambda: check_buffers(model, x),
    ):
        with pytest.raises(ValueError, match=r"0\.mean: expected a buffer or parameter that does not depend"):
            refused()
    clipped_sum(model.eval(), LOSS, x, y, clip_norm=0.1)


class RoundsByBatch(nn.Module):
    """Is off in float32, in batches of odd size, as where a channel of hardly any variance is scaled up."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.dtype == torch.float64 else x * (1 + 1e-3 * (len(x) % 2))


def test_rounding_is_not_taken_for_other_examples():
    torch.manual_seed(0)
    model, x, y = nn.Sequential(nn.Linear(4, 5), RoundsByBatch(), nn.Linear(5, 3)), torch.rand(6, 4), classes(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipped_sum(model, LOSS, x, y, clip_norm=0.1)


def test_a_model_is_looked_at_again_with_another_loss():
    """One that was sound bounds nothing for the next: unseen, this one moves the sum by 57 C."""

    def of_batch(outputs, y):
        return nn.functional.softplus(outputs[:, 0] * outputs[:, 0].sum())

    model, x, y = nn.Linear(4, 2), torch.rand(32, 4, generator=torch.Generator().manual_seed(0)), classes(32) % 2
    for _ in range(2):
        clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    with pytest.warns(UserWarning, match="a row of the model is not of one example alone"):
        clipped_sum(model, of_batch, x, y, clip_norm=0.1)


@pytest.mark.parametrize("anew", [lambda: lambda o, y: LOSS(o, y), lambda: partial(LOSS), lambda: LOSS])
def test_a_loss_that_is_made_anew_for_every_step_is_the_same(anew, monkeypatch):
    model, x, y = nn.Linear(4, 3), torch.rand(8, 4, generator=torch.Generator().manual_seed(0)), classes(8)
    for _ in range(2):
        clipped_sum(model, anew(), x, y, clip_norm=0.1)
    monkeypatch.setattr(uses, "trial", lambda *_: pytest.fail("looked again"))
    clipped_sum(model, anew(), x, y, clip_norm=0.1)


@pytest.mark.parametrize("how", ["a default", "a closure", "an argument", "a method's object", "an object"])
def test_losses_that_differ_in_what_they_hold_are_others(how):
    """However they are made; and one that takes the place of another in memory is another."""

    class Loss:
        def __init__(self, joint):
            self.joint = joint

        def __call__(self, o, y):
            return LOSS(o - o.mean(0) if self.joint else o, y)

        def of(self, o, y):
            return self(o, y)

    def made(joint):
        def default(o, y, joint=joint):
            return Loss(joint)(o, y)

        return {
            "a default": default,
            "a closure": lambda o, y: Loss(joint)(o, y),
            "an argument": partial(lambda o, y, joint: Loss(joint)(o, y), joint=joint),
            "a method's object": Loss(joint).of,
            "an object": Loss(joint),
        }[how]

    model, x, y = nn.Linear(4, 3), torch.rand(8, 4, generator=torch.Generator().manual_seed(0)), classes(8)
    clipped_sum(model, made(False), x, y, clip_norm=0.1)
    with pytest.warns(UserWarning, match="is not of one example alone"):
        clipped_sum(model, made(True), x, y, clip_norm=0.1)


@pytest.mark.parametrize(("change", "reason"), [({"mixes": True}, "second"), ({"last": "twice"}, "otherwise than")])
def test_a_model_is_looked_at_again_when_a_flag_of_its_own_changes(change, reason):
    class Flagged(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.mixes, self.last = nn.Linear(4, 4), nn.Linear(4, 3), False, "once"

        def forward(self, x):
            h = self.first(x).tanh()
            h = h - h.detach().mean(0) if self.mixes else h
            return self.second(h) + (nn.functional.linear(h, self.second.weight) if self.last == "twice" else 0.0)

    model, x, y = Flagged(), torch.rand(8, 4, generator=torch.Generator().manual_seed(0)), classes(8)
    clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    vars(model).update(change)
    assert reason in goes_to_the_reference(model, x, y)


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_a_penalty_on_the_weights_is_refused(implementation):
    """Its gradient is of no example's, and both would leave it out."""
    model, x, y = nn.Linear(4, 3), torch.rand(8, 4), classes(8)
    penalised = lambda o, y: LOSS(o, y) + model.weight.square().sum()  # noqa: E731
    with pytest.raises(ValueError, match="loss: expected a function of the model's outputs and the labels alone"):
        clipped_sum(model, penalised, x, y, clip_norm=0.1, implementation=implementation)


def test_a_model_that_keeps_what_it_saw_is_left_to_the_reference():
    """As attention maps: torch copies no such tensor."""

    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            self.seen = self.layer(x)
            return self.seen

    model, x, y = Keeps(), torch.rand(8, 4, generator=torch.Generator().manual_seed(0)), classes(8)
    expected = clipped_sum(nn.Sequential(copy.deepcopy(model.layer)), LOSS, x, y, clip_norm=0.1)[0]
    with pytest.warns(UserWarning, match="its examples cannot be tried out on a copy"):
        total, _ = clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    torch.testing.assert_close(total["layer.weight"], expected["0.weight"])


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


def test_memory_that_runs_out_while_a_copy_is_tried_out_is_no_reason_for_the_reference(monkeypatch):
    def outputs(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(uses, "trial", outputs)
    with pytest.raises(torch.OutOfMemoryError):
        clipped_sum(nn.Linear(4, 3), LOSS, torch.randn(5, 4), classes(5), clip_norm=0.1)


def test_the_slow_reference_is_warned_of_once():
    model, x = Positions(), torch.randn(6, 6, 4, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")  # Python's own: once for every line
        for _ in range(3):
            clipped_sum(model, LOSS, x, classes(6), clip_norm=0.1, microbatch_size=2)
    assert len(told) == 1


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
    "mixed",
    [
        lambda o, y: LOSS(o, y) / (y[:, None] == y).sum(1),  # balanced by the labels of the batch
        lambda o, y: 0.5 * (LOSS(o, y) + LOSS(o, y.view(-1, 2).flip(1).flatten() if len(y) % 2 == 0 else y)),
    ],
)
@pytest.mark.parametrize("examples", [8, 128])
def test_a_loss_that_looks_at_the_labels_of_others_goes_to_the_reference(mixed, examples):
    draws = torch.Generator().manual_seed(0)
    model, x, y = nn.Linear(5, 10), torch.randn(examples, 5, generator=draws), torch.arange(examples) % 10
    with pytest.warns(UserWarning, match="depends on the examples beside it"):
        clipped_sum(model, mixed, x, y, clip_norm=0.1)


def test_what_shows_in_later_batches_alone_is_seen_then():
    """Inputs are scaled by the largest of the batch, where one is large: 4 C for one example, where 2 are allowed."""

    class Scaled(nn.Module):
        def forward(self, x):
            return x / x.abs().max().clamp(min=1.0)

    model, y = nn.Sequential(Scaled(), nn.Linear(4, 3)), classes(8)
    x = torch.rand(8, 4, generator=torch.Generator().manual_seed(0))
    clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    x[3] *= 1e4
    with pytest.warns(UserWarning, match="a row of 1 is not of one example alone"):
        clipped_sum(model, LOSS, x, y, clip_norm=0.1)


class Away(nn.Module):
    def forward(self, h):
        return h - 5 * h.detach().mean(0)


def test_a_model_is_looked_at_again_when_a_layer_or_a_hook_of_its_own_or_a_flag_of_the_loss_changes():
    class Loss(nn.Module):
        mixes = False

        def forward(self, o, y):
            return LOSS(o - o.detach().mean(0) if self.mixes else o, y)

    x, y = torch.rand(8, 4, generator=torch.Generator().manual_seed(0)), classes(8)
    for change, words in (
        (lambda model, loss: model[0].register_forward_hook(lambda layer, given, h: Away()(h)), "a row of 2"),
        (
            lambda model, loss: model[1].register_forward_pre_hook(lambda layer, given: Away()(given[0])),
            "a row of 2",
        ),
        (lambda model, loss: model.__setitem__(1, Away()), "a row of 2"),
        (lambda model, loss: setattr(loss, "mixes", True), "an example's loss depends on"),
    ):
        model, loss = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 3)), Loss()
        clipped_sum(model, loss, x, y, clip_norm=0.1)
        change(model, loss)
        with pytest.warns(UserWarning, match=words):
            clipped_sum(model, loss, x, y, clip_norm=0.1)


def test_a_little_of_every_example_in_every_row_is_seen():
    """Of 4,096 examples, each of which moves all others by 4e-4 of a gradient, one moves the sum by 3.5 C."""

    class Little(nn.Module):
        def forward(self, h):
            return h * (1 + 4e-4 * h.detach()[:, 0].sum().sign())

    model = nn.Sequential(nn.Linear(4, 5), Little(), nn.Linear(5, 3))
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    assert "a row of 2" in goes_to_the_reference(model, x, classes(64))


def test_a_buffer_that_counts_examples_is_refused():
    """Under Poisson sampling it tells how many there were, and so whether one was there."""

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.seen += len(x)
            return x

    model, x = nn.Sequential(Counts(), nn.Linear(4, 3)), torch.rand(8, 4)
    with pytest.raises(ValueError, match=r"0\.seen: expected a buffer or parameter that does not depend"):
        clipped_sum(model, LOSS, x, classes(8), clip_norm=0.1)
    one = nn.Sequential(Counts(), nn.Linear(4, 3))
    clipped_sum(one, LOSS, x[:1], classes(1), clip_norm=0.1)  # of one, nothing shows yet
    with pytest.raises(ValueError, match=r"0\.seen: expected a buffer or parameter that does not depend"):
        clipped_sum(one, LOSS, x, classes(8), clip_norm=0.1)


def test_a_model_that_python_cannot_copy_is_left_to_the_reference():
    model, x, y = nn.Linear(4, 3), torch.rand(8, 4, generator=torch.Generator().manual_seed(0)), classes(8)
    expected = clipped_sum(copy.deepcopy(model), LOSS, x, y, clip_norm=0.1)[0]
    model.lock = threading.Lock()
    with pytest.warns(UserWarning, match="its examples cannot be tried out on a copy"):
        total, _ = clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    torch.testing.assert_close(total, expected)


class UsesAWeightTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.last(F.linear(self.first(x), self.first.weight))


def test_a_model_is_looked_at_again_when_more_of_it_is_trained():
    model, x, y = UsesAWeightTwice(), torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    loss = partial(F.cross_entropy, reduction="none")
    model.first.requires_grad_(False)
    clipped_sum(model, loss, x, y, clip_norm=1.0)  # of what is trained, nothing is used otherwise
    model.first.requires_grad_(True)
    with pytest.warns(UserWarning, match=r"first\.weight is used otherwise than by calling its layer"):
        clipped_sum(model, loss, x, y, clip_norm=1.0)
