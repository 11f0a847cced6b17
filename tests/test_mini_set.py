"""The clipped mean gradient of a mini-set, one vector."""

import math

import pytest
import torch
from test_grads import LOSS, classes
from torch import nn

from lib import models
from lib.grads import Groups, clipped_mean


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

    @pytest.mark.parametrize("length", [1e30, 1e34, 1.3e37, 1e38])
    def test_nor_is_a_huge_gradient_whose_factor_float32_rounds(self, length):
        """C/‖g‖ = 1e-45 is 1.4e-45 there; where it is so small the gradient is left out."""
        model, x = nn.Linear(2, 1, bias=False), torch.full((1, 2), length)
        found = self.clipped(model, lambda outputs, y: outputs.sum(1), x, classes(1), Groups(model, 1e-7))["weight"]
        norm = float(found.double().norm())
        assert norm == 0 if length > 1e31 else norm == pytest.approx(1e-7)

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
