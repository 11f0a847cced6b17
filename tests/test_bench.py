"""The bench compares like with like; how fast anything is, is not a test's business."""

import time

import pytest
import torch

from lib import bench, models


@pytest.mark.parametrize("name", ["lenet5", "lenet_300_100"])
def test_the_plain_twin_is_the_same_network_from_torch_layers(name):
    model, x = models.build(name, norm="batch"), torch.rand(4, 1, 28, 28)
    twin = bench.plain_twin(model)
    torch.testing.assert_close(twin(x), model(x), rtol=0, atol=0)
    assert not [layer for layer in twin if type(layer).__name__.startswith("Noisy")]


def test_ratios_are_taken_within_a_round(monkeypatch):
    """A clock that runs twice as fast from round to round changes no ratio."""
    now, speed = [0.0], [1.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def takes(seconds: float, *, last: bool = False):
        def once() -> None:
            now[0] += seconds * speed[0]
            speed[0] = 3.0 - speed[0] if last else speed[0]

        return once

    found = bench.ratios({"base": takes(1.0), "other": takes(1.5, last=True)}, "base")
    assert found["base"]["ratio"] == pytest.approx(1.0)
    assert [found["other"][k] for k in ("low", "ratio", "high")] == pytest.approx([1.5] * 3)
