"""Random generators: one for each seed and purpose, today's as those that stored results were made with."""

import pytest
import torch

from lib.generators import generator, seed_for


@pytest.mark.parametrize(
    ("seed", "purpose", "expected"),
    [(0, "sampling", 1196928559710480898), (12, "weight noise", 9032720305374705106)],
)
def test_a_stored_run_can_be_repeated_as_its_seeds_stay_what_they_were(seed, purpose, expected):
    assert seed_for(seed, purpose) == expected
    assert generator(seed, purpose).initial_seed() == expected


def test_seed_and_purpose_are_kept_apart():
    assert len({seed_for(1, "1 noise"), seed_for(11, " noise"), seed_for(1, "noise"), seed_for(0, "noise")}) == 4


def test_it_is_on_the_device_that_is_asked_for(monkeypatch):
    asked = []
    made = torch.Generator()
    monkeypatch.setattr(torch, "Generator", lambda device="cpu": asked.append(device) or made)
    generator(0, "sampling", "cuda:1")
    assert asked == ["cuda:1"]
