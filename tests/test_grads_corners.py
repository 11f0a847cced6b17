"""Models and losses of which fast gradients could be wrong without a word: they go to the reference, or are right."""

from itertools import permutations

import pytest
import torch
from test_grads import LOSS, classes
from test_grads_uses import goes_to_the_reference
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lib.grads import Groups, clipped_sum


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


class Hidden(nn.Module):
    """Two layers, and what is done to the batch between them."""

    def __init__(self, between) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(4, 5), nn.Linear(5, 3), between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)).tanh())


@pytest.mark.parametrize("pair", list(permutations(range(6), 2)))
def test_no_two_examples_can_be_mixed_unseen(pair):
    one, other = pair

    def between(h: Tensor) -> Tensor:
        return h if len(h) == 1 else h.index_add(0, torch.tensor([one]), h[[other]].detach())

    assert goes_to_the_reference(Hidden(between), drawn(6, 4), classes(6)).endswith("is not of one example alone")


@pytest.mark.parametrize("constant", [False, True])
def test_a_batch_norm_over_every_fourth_example_goes_to_the_reference(constant):
    """As of two devices and two views of each example, one after another: same parity, same half."""

    def between(h: Tensor) -> Tensor:
        views = h.view(2, -1, 2, 5) if len(h) > 1 else h.view(1, 1, 1, 5)
        mean = views.mean(1, keepdim=True)
        return (views - (mean.detach() if constant else mean)).view_as(h)

    x = drawn(32, 4)
    with pytest.warns(UserWarning, match="last is not of one example alone|first is not of one example alone"):
        clipped_sum(Hidden(between), LOSS, x, classes(32), clip_norm=0.01)


class Sorted(nn.Module):
    """Longest text first, as packing wants it, and in the end as they came."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(20, 6, padding_idx=0), nn.Linear(6, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        order = (tokens != 0).sum(1).argsort(descending=True, stable=True)
        return self.last(self.words(tokens[order]).sum(1).tanh())[order.argsort()]


def test_rows_that_change_places_in_a_later_batch_alone_go_to_the_reference_from_then_on():
    model, y = Sorted(), classes(8)
    alike = torch.randint(1, 20, (8, 5), generator=torch.Generator().manual_seed(0))
    ragged = alike * (torch.arange(5) < torch.tensor([1, 5, 2, 4, 3, 5, 1, 2]).unsqueeze(1))
    clipped_sum(model, LOSS, alike, y, clip_norm=0.01)
    assert goes_to_the_reference(model, ragged, y) == "a row of words is not of one example alone"
    assert goes_to_the_reference(model, alike, y)


def over_their_number(outputs: Tensor, y: Tensor) -> Tensor:
    return LOSS(outputs, y) / len(y)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (nn.Linear(4, 3), over_their_number),
        (nn.Sequential(nn.Dropout(), nn.Linear(4, 3)), over_their_number),
        (Hidden(lambda h: h / len(h) ** 0.5), LOSS),
    ],
    ids=["a mean", "a mean, of a network that draws", "in the network"],
)
def test_a_loss_that_depends_on_how_many_examples_there_are_goes_to_the_reference(model, loss):
    """What an example's gradient is would depend on the microbatches."""
    with pytest.warns(UserWarning, match="an example's loss depends on how many there are"):
        _, norms = clipped_sum(model, loss, drawn(8, 4), classes(8), clip_norm=0.1)
    alone = [
        clipped_sum(model.eval(), loss, x, y, clip_norm=0.1, implementation="reference")[1]
        for x, y in zip(drawn(8, 4).split(1), classes(8).split(1), strict=True)
    ]
    if not isinstance(model, nn.Sequential):
        torch.testing.assert_close(norms, torch.cat(alone))


class Energy(nn.Module):
    """E(x) and the forces −∂E/∂x, as of molecules: the weights are in a gradient, too, not by calling their layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        energy = self.last(self.first(x).tanh())
        (gradient,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        return torch.cat([energy, -gradient], dim=1)


def test_a_network_that_takes_a_gradient_of_its_own_is_not_given_half_of_one():
    """The reference cannot either, and says so in torch's words."""
    with (
        pytest.warns(UserWarning, match="weight is used otherwise than by calling its layer"),
        pytest.raises(RuntimeError, match="requires_grad_"),
    ):
        clipped_sum(Energy(), lambda o, y: (o - y).square().sum(1), drawn(4, 4), drawn(4, 5), clip_norm=1.0)


class Checkpointed(nn.Module):
    """A frozen stem, a block of which nothing is kept for the pass back, and a last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block, self.last = nn.Linear(4, 5).requires_grad_(False), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x).tanh().requires_grad_()
        return self.last(checkpoint(self.block, h, use_reentrant=True).tanh())


def test_a_block_that_runs_without_gradients_and_once_more_with_is_not_left_untrained():
    with (
        pytest.warns(UserWarning, match="block is only called without gradients"),
        pytest.raises(RuntimeError, match="requires_grad_"),
    ):
        clipped_sum(Checkpointed(), LOSS, drawn(4, 4), classes(4), clip_norm=1.0)


class InHalf(nn.Module):
    """Opens autocast for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.block, self.last = nn.Linear(16, 64).requires_grad_(False), nn.Linear(64, 64), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.last(self.block(self.first(x).tanh()).tanh()).float()


def test_half_precision_inside_is_clipped_and_summed_in_full():
    model, x, y = InHalf(), drawn(16, 16), classes(16)
    total, norms = clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    expected, expected_norms = clipped_sum(model, LOSS, x, y, clip_norm=0.1, implementation="reference")
    torch.testing.assert_close(norms, expected_norms, rtol=0.02, atol=0.0)
    torch.testing.assert_close(total, expected, rtol=0.05, atol=1e-3)
    for part in zip(x.split(1), y.split(1), strict=True):
        total, _ = clipped_sum(model, LOSS, *part, clip_norm=0.1)
        assert {value.dtype for value in total.values()} == {torch.float32}
        assert sum(value.double().square().sum() for value in total.values()).sqrt() <= 0.1 * (1 + 1e-6)


class OneByOne(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.LazyLinear(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.stack([self.layer(one) for one in x]).flatten(1))


@pytest.mark.parametrize("examples", [1, 4])
@pytest.mark.parametrize(
    ("layer", "shape"), [(nn.Linear(4, 5), (4,)), (nn.Conv2d(2, 3, 3), (2, 4, 4)), (nn.LayerNorm((2, 4)), (2, 4))]
)
def test_layers_that_are_called_with_one_example_after_another_go_to_the_reference(layer, shape, examples):
    model, x = OneByOne(layer), drawn(examples, *shape)
    model(x)
    assert (
        goes_to_the_reference(model, x, classes(examples)) == "layer is called with one example, and not with a batch"
    )


def test_a_layer_within_a_transform_goes_to_the_reference():
    class Transformed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.vmap(self.layer, in_dims=1, out_dims=1)(x).sum(1)

    assert "layer has no place in the graph" in goes_to_the_reference(Transformed(), drawn(3, 2, 4), classes(3))


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_what_has_no_part_in_the_losses_has_no_gradient(implementation):
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            self.layer(x)
            return x[:, :3]

    total, norms = clipped_sum(Unused(), LOSS, drawn(3, 4), classes(3), clip_norm=1.0, implementation=implementation)
    assert not norms.any()
    assert not any(value.any() for value in total.values())


def test_a_loss_may_refer_to_itself():
    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        loss.calls += 1
        return LOSS(outputs, y)

    loss.calls = 0
    model, x, y = nn.Linear(4, 3), drawn(3, 4), classes(3)
    expected = clipped_sum(model, LOSS, x, y, clip_norm=0.1)
    torch.testing.assert_close(clipped_sum(model, loss, x, y, clip_norm=0.1), expected)
    assert loss.calls


class Tokens(nn.Module):
    """Of a batch of one, the gradient on its way back to the norm is laid out otherwise than its output."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 6, 3), norm, nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.conv(x)).tanh().flatten(2).mT.mean(1))


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm2d(6, affine=False).eval(), nn.BatchNorm2d(6).eval(), nn.InstanceNorm2d(6)]
)
def test_a_lot_of_one_has_the_gradient_that_its_example_has_among_others(norm):
    """Or adding an example to a lot of one would move the sum by more than C."""
    if isinstance(norm, nn.BatchNorm2d):
        norm.running_mean, norm.running_var = drawn(6), drawn(6).exp()
    model, x, y = Tokens(norm), drawn(5, 3, 10, 10), classes(5)
    whole, norms = clipped_sum(model, LOSS, x, y, clip_norm=0.5)
    for size in (1, 2, 4):
        total, one_by_one = clipped_sum(model, LOSS, x, y, clip_norm=0.5, microbatch_size=size)
        torch.testing.assert_close(one_by_one, norms)
        torch.testing.assert_close(total, whole)


def test_groups_of_other_parameters_are_refused():
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    groups = Groups(model[1:], 0.5)
    with pytest.raises(ValueError, match="groups: expected those of the parameters that are trained; got others'"):
        clipped_sum(model, LOSS, drawn(6, 4), classes(6), clip_norm=groups)
    model[0].requires_grad_(False)
    groups = Groups(model, 0.5)
    model.requires_grad_(True)
    with pytest.raises(ValueError, match="groups: expected those of the parameters that are trained; got others'"):
        clipped_sum(model, LOSS, drawn(6, 4), classes(6), clip_norm=groups)


@pytest.mark.parametrize("clip_norm", [None, "1", True, 0.0, float("nan")])
def test_a_clip_norm_that_is_no_number_above_0_is_refused(clip_norm):
    with pytest.raises(
        ValueError, match=r"^clip_norm: expected a number of more than 0, math.inf to clip nothing; got"
    ):
        clipped_sum(nn.Linear(4, 4), LOSS, drawn(2, 4), classes(2), clip_norm=clip_norm)
