"""Gradients of losses that share statistics: the fast way, all groups at once, is the slow one, loss by loss."""

import pytest
import torch
from test_public_batch_norm import LOSS, batch, made
from torch import Tensor, nn

from lib.grads import Groups, clipped_sum, joint
from lib.layers import ChannelAffine, NoisyConv2d, NoisyLinear, PublicBatchNorm, WithPublic


class Mixing(nn.Module):
    """Every row is moved by the mean of all, and stretched with it, so that every loss depends on every example."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) * (1 + x.square().mean())


class Twice(nn.Module):
    """Calls its layer on rows of two lengths."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.layer(x[:, :1].cumsum(0)).sum(1, keepdim=True)


class Tied(nn.Module):
    """Uses its layer's weight once more, behind the layer's back."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).tanh() @ self.layer.weight


NETWORKS = {
    "linear layers": (nn.Sequential(nn.Linear(6, 5), Mixing(), nn.Tanh(), NoisyLinear(5, 3, bias=False)), (6,)),
    "rows of positions": (nn.Sequential(nn.Linear(6, 4), Mixing(), nn.Flatten(), nn.Linear(8, 3)), (2, 6)),
    "a layer called twice": (nn.Sequential(Twice(nn.Linear(6, 4)), Mixing(), nn.Flatten(), nn.Linear(8, 3)), (2, 6)),
    "a weight used otherwise": (nn.Sequential(Tied(nn.Linear(6, 4)), Mixing(), nn.Linear(6, 3)), (6,)),
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(1, 0), bias=False),
            ChannelAffine(3),
            Mixing(),
            nn.ReLU(),
            NoisyConv2d(3, 4, 2, dilation=2, padding="same"),
            Mixing(),
            nn.Flatten(),
            nn.Linear(72, 3),
        ),
        (2, 6, 6),
    ),
    "many channels": (nn.Sequential(nn.Conv2d(8, 40, 3), Mixing(), nn.Flatten(), nn.Linear(40, 3)), (8, 3, 3)),
    "layers without a rule": (
        nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.LayerNorm(4), Mixing(), nn.Flatten(), nn.Linear(64, 3)),
        (2, 6, 6),
    ),
}


def losses_of(name: str, examples: int = 5) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model, shape = NETWORKS[name]
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double(), torch.randn(examples, *shape).double(), torch.arange(examples) % 3


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("frozen", [False, True])
def test_each_loss_has_the_gradient_of_a_pass_of_its_own(name, frozen):
    model, x, y = losses_of(name)
    next(model.parameters()).requires_grad_(not frozen)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    each = [torch.autograd.grad(LOSS(model(x), y)[i], list(parameters.values())) for i in range(len(x))]
    norms = torch.stack([torch.cat([g.flatten() for g in of_one]).norm() for of_one in each])
    clip_norm = float(norms.median())
    total, found = clipped_sum(model, LOSS, x, y, clip_norm=clip_norm, implementation="joint")
    next(model.parameters()).requires_grad_(True)
    torch.testing.assert_close(found, norms)
    factors = (clip_norm / norms).clamp(max=1.0)
    for i, parameter in enumerate(parameters):
        torch.testing.assert_close(total[parameter], sum(f * g[i] for f, g in zip(factors, each, strict=True)))


@pytest.mark.parametrize("name", NETWORKS)
def test_groups_of_parameters_are_clipped_by_themselves(name):
    model, x, y = losses_of(name)
    groups = Groups(model, {n: 0.1 for n, m in model.named_modules() if list(m.parameters(recurse=False))})
    total, norms = joint.clipped_sum(model, LOSS, x, y, groups)
    expected = joint.reference.clipped(joint.per_loss(model, LOSS, x, y), groups)
    torch.testing.assert_close(norms, expected[1])
    torch.testing.assert_close(total, expected[0])


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize(("shared_by", "bad"), [(2, 0), (2, 3), (2, 6), (4, 0), (4, 6)])
def test_a_group_that_is_not_finite_counts_as_zero_and_the_others_stay(gradient, shared_by, bad):
    """Of seven examples, so that the last group is smaller, and the one before or it may be what is not finite."""
    how = {"clip_norm": 0.5, "implementation": "joint"}
    model, (x, y) = made("mixed", gradient).train(), batch(7)
    others = [group for group in torch.arange(7).split(shared_by) if bad not in group]
    kept = [clipped_sum(model, LOSS, x[group], y[group], **how)[0] for group in others]
    model.shared_by, x[bad] = shared_by, torch.nan
    total, norms = clipped_sum(model, LOSS, x, y, **how)
    assert norms.isfinite().tolist() == [i // shared_by != bad // shared_by for i in range(7)]
    assert any(value.any() for value in total.values())
    for name, value in total.items():
        torch.testing.assert_close(value, sum(of_part[name] for of_part in kept))


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("shared_by", "microbatch"), [(2, None), (2, 4), (3, 3), (3, 6), (16, None)])
def test_examples_share_statistics_with_those_of_their_group(gradient, affine, shared_by, microbatch):
    """Seven of them, so that the last group is smaller; and however many groups are gone through at once."""
    model, (x, y) = made("mixed", gradient, affine=affine).train(), batch(7)
    how = {"clip_norm": 0.5, "implementation": "joint"}
    outputs, sums = [], []
    for part, labels in zip(x.split(shared_by), y.split(shared_by), strict=True):
        outputs.append(model(part))
        sums.append(clipped_sum(model, LOSS, part, labels, **how))
    grouped = WithPublic(model.model, model.public, statistics="mixed", gradient=gradient, shared_by=shared_by).train()
    torch.testing.assert_close(grouped(x), torch.cat(outputs))
    torch.testing.assert_close(grouped.eval()(x), model.eval()(x))
    total, norms = clipped_sum(grouped.train(), LOSS, x, y, microbatch_size=microbatch, **how)
    torch.testing.assert_close(norms, torch.cat([norms for _, norms in sums]))
    for name, value in total.items():
        torch.testing.assert_close(value, sum(of_part[name] for of_part, _ in sums))


@pytest.mark.parametrize("gradient", [True, False])
def test_examples_share_statistics_beside_a_layer_without_a_rule_too(gradient):
    """Example by example, as the reference goes, each would be normalised by its own."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(2, 3, 2), PublicBatchNorm(3), nn.Flatten(), nn.Linear(12, 3))
    model = WithPublic(net, torch.randn(2, 2, 5), statistics="mixed", gradient=gradient).train()
    x, y = torch.randn(5, 2, 5), torch.arange(5) % 3
    each = [torch.autograd.grad(LOSS(model(x), y)[i], list(model.parameters())) for i in range(5)]
    expected = torch.stack([torch.cat([g.flatten() for g in of_one]).norm() for of_one in each])
    torch.testing.assert_close(clipped_sum(model, LOSS, x, y, clip_norm=1.0, implementation="joint")[1], expected)


@pytest.mark.parametrize("statistics", ["per_example", "public"])
def test_where_statistics_are_not_shared_examples_that_meet_elsewhere_are_noticed(statistics):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), PublicBatchNorm(3), Mixing(), nn.Linear(3, 3))
    model = WithPublic(net, torch.randn(2, 4), statistics=statistics).train()
    with pytest.warns(UserWarning, match="is not of one example alone"):
        clipped_sum(model, LOSS, torch.randn(5, 4), torch.arange(5) % 3, clip_norm=1.0, implementation="joint")
