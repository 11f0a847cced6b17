"""Step sizes over a run."""

import pytest
import torch

from lib.schedules import NAMES, factor

EPOCH, STEPS = 10, 40


def factors(name: str, **how) -> list[float]:
    return [factor(name, t, steps=STEPS, steps_per_epoch=EPOCH, **how) for t in range(STEPS)]


def test_they_are_what_their_names_say():
    assert factors("constant") == [1.0] * STEPS
    assert factors("linear") == pytest.approx([1 - t / 40 for t in range(40)])
    assert factors("exponential", decay=0.9) == pytest.approx([0.9 ** (t // 10) for t in range(40)])
    falls = factors("linear_then_constant", decay=0.52, decay_epochs=2)
    assert falls[:21] == pytest.approx([1 - 0.48 * t / 20 for t in range(21)])
    assert falls[20:] == pytest.approx([0.52] * 20)


@pytest.mark.parametrize("steps", [STEPS, 7])
def test_one_cycle_is_that_of_torch(steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=steps, cycle_momentum=False)
    for t in range(steps):
        ours = factor("one_cycle", t, steps=steps, steps_per_epoch=EPOCH)
        assert ours == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        if t < steps - 1:
            schedule.step()


@pytest.mark.parametrize("name", NAMES)
def test_one_step_is_enough(name):
    assert 0 < factor(name, 0, steps=1, steps_per_epoch=1, decay_epochs=0) <= 1


def test_an_unknown_one_is_refused():
    with pytest.raises(ValueError, match=r"lr_schedule: expected one of constant, linear, .*; got 'cosine'"):
        factor("cosine", 0, steps=1, steps_per_epoch=1)
