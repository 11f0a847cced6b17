"""Which examples form a batch, what an accountant is told of it, and from which generator."""

from collections import Counter

import pytest
import torch

from lib import accounting, sampling
from lib.generators import generator
from lib.sampling import Sampler


def sizes_and_counts(name: str, *, examples: int = 40, batch_size: int = 10, epochs: int = 200):
    sampler, draws = Sampler(name, examples, batch_size), generator(0, "sampling")
    batches = [batch for _ in range(epochs) for batch in sampler.epoch(draws)]
    return [len(batch) for batch in batches], batches


@pytest.mark.parametrize("name", accounting.SAMPLERS)
def test_an_epoch_has_the_same_number_of_steps_and_every_example_its_turn(name):
    sampler = Sampler(name, 43, 10)
    assert len(list(sampler.epoch(generator(0, "sampling")))) == sampler.steps_per_epoch == 4
    _, batches = sizes_and_counts(name)
    counts = torch.bincount(torch.cat(batches), minlength=40)
    assert len(counts) == 40
    assert (counts - 200).abs().max() < 6 * (800 * 0.25) ** 0.5  # 800 steps, q = 1/4: six standard deviations


def test_poisson_batches_are_binomial_in_size_and_may_be_empty():
    sizes, _ = sizes_and_counts("poisson", examples=20, batch_size=2, epochs=400)
    sizes = torch.tensor(sizes, dtype=torch.float64)
    assert sizes.mean() == pytest.approx(2, abs=0.1)
    assert sizes.var() == pytest.approx(20 * 0.1 * 0.9, abs=0.2)
    assert (sizes == 0).double().mean() == pytest.approx(0.9**20, abs=0.03)


@pytest.mark.parametrize("name", ["poisson", "balls_and_bins"])
def test_examples_are_independent(name):
    """The number of joint appearances of two examples is about Bin(T, q²)."""
    _, batches = sizes_and_counts(name, epochs=1000)
    together = sum({3, 7} <= set(batch.tolist()) for batch in batches)
    assert together / len(batches) == pytest.approx(1 / 16, abs=5 * (1 / 16 * 15 / 16 / len(batches)) ** 0.5)


def test_without_replacement_all_are_different_and_sizes_fixed():
    sizes, batches = sizes_and_counts("without_replacement", epochs=5)
    assert set(sizes) == {10}
    assert all(len(set(batch.tolist())) == 10 for batch in batches)


def test_with_replacement_repeats():
    sizes, batches = sizes_and_counts("with_replacement", epochs=5)
    assert set(sizes) == {10}
    assert any(max(Counter(batch.tolist()).values()) > 1 for batch in batches)


def test_in_an_epoch_of_balls_and_bins_every_example_has_one_batch_of_all():
    """43 examples in ⌊43/10⌋ batches, of binomial sizes; with as many batches as examples some are empty."""
    draws = generator(0, "sampling")
    epochs = [list(Sampler("balls_and_bins", 43, 10).epoch(draws)) for _ in range(500)]
    assert all(sorted(torch.cat(epoch).tolist()) == list(range(43)) for epoch in epochs)
    sizes = torch.tensor([[len(batch) for batch in epoch] for epoch in epochs], dtype=torch.float64)
    assert sizes.shape == (500, 4)
    assert sizes.var(dim=0) == pytest.approx([43 / 4 * 3 / 4] * 4, rel=0.25)
    assert min(len(batch) for batch in Sampler("balls_and_bins", 20, 1).epoch(draws)) == 0


def test_a_shuffled_epoch_takes_every_example_at_most_once_in_full_batches():
    batches = list(Sampler("shuffled", 10, 3).epoch(generator(0, "sampling")))
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert len(set(torch.cat(batches).tolist())) == 9


@pytest.mark.parametrize("name", accounting.SAMPLERS)
def test_the_next_epoch_is_another_unless_the_order_is_fixed(name):
    draws = generator(0, "sampling")
    first, second = (torch.cat(list(Sampler(name, 100, 10).epoch(draws))) for _ in range(2))
    assert (first.shape == second.shape and torch.equal(first, second)) == (name == "fixed_order")


def test_a_fixed_order_depends_on_the_seed_and_not_on_where_the_generator_stands():
    def order(seed: int, drawn: int) -> list[int]:
        draws = generator(seed, "sampling")
        torch.rand(drawn, generator=draws)
        return torch.cat(list(Sampler("fixed_order", 100, 10).epoch(draws))).tolist()

    assert order(0, 0) == order(0, 7) != order(1, 0)
    assert sorted(order(0, 0)) == list(range(100))


class TestGroups:
    def test_examples_take_turns_and_batches_keep_their_size(self):
        sampler, draws = Sampler("poisson", 1000, 50, groups=4), generator(0, "sampling")
        sizes = []
        for first_step in range(0, 400, sampler.steps_per_epoch):
            for step, batch in enumerate(sampler.epoch(draws, first_step), start=first_step):
                assert set((batch % 4).tolist()) <= {step % 4}
                sizes.append(len(batch))
        sizes = torch.tensor(sizes, dtype=torch.float64)
        assert sizes.mean() == pytest.approx(50, abs=5 * (50 * 0.8 / 400) ** 0.5)  # Bin(250, 1/5)
        assert sizes.var() == pytest.approx(40, rel=0.25)

    def test_an_example_sees_its_own_steps_alone(self):
        sampler = Sampler("poisson", 1000, 50, groups=4)
        assert sampler.event(noise_multiplier=2.0, steps=10) == accounting.Event(2.0, 0.2, 3)

    @pytest.mark.parametrize(("name", "groups"), [("poisson", 21), ("poisson", 0), ("shuffled", 2)])
    def test_more_groups_than_batches_are_refused(self, name, groups):
        with pytest.raises(ValueError, match=rf"groups: expected 1 to \d+ for sampler '{name}'; got {groups}"):
            Sampler(name, 1000, 50, groups=groups)


@pytest.mark.parametrize("name", accounting.SAMPLERS)
def test_the_event_is_accounted_by_its_own_accountants_alone(name):
    event = Sampler(name, 1000, 10).event(noise_multiplier=2.0, steps=100)
    assert (event.sampler, event.sampling_prob, event.steps) == (name, 0.01, 100)
    able = accounting.accountants(sampler=name, neighbouring_relation="add_or_remove_one")
    for accountant in set(accounting.accountants()) - set(able):
        with pytest.raises(ValueError, match=f"expected {f'one of {chr(44).join(able[:1])}' if able else 'none'}"):
            accounting.composed_epsilon([event], accountant=accountant)


@pytest.mark.parametrize("batch_size", [0, 11])
def test_a_batch_that_cannot_be_filled_is_refused(batch_size):
    with pytest.raises(
        ValueError, match=f"batch_size: expected 1 to 10, the size of the training set; got {batch_size}"
    ):
        Sampler("poisson", 10, batch_size)


def test_an_unknown_sampler_is_refused():
    with pytest.raises(ValueError, match=r"sampler: expected one of poisson, .*; got 'random'"):
        Sampler("random", 10, 5)


def test_each_purpose_and_seed_has_its_own_sequence():
    firsts = {
        torch.randint(2**62, (1,), generator=generator(seed, purpose)).item()
        for seed in (0, 1)
        for purpose in ("init", "sampling", "weight noise")
    }
    assert len(firsts) == 6


def test_poisson_draws_are_of_double_precision():
    """Of float32, 24 bits: a small q would be rounded."""
    draws, twin = generator(0, "sampling"), generator(0, "sampling")
    expected = torch.rand(1000, dtype=torch.float64, generator=twin) < 0.03
    assert next(Sampler("poisson", 1000, 30).epoch(draws)).tolist() == expected.nonzero().squeeze(1).tolist()


@pytest.mark.parametrize("drawn", [1, 2500, sampling.DRAWN])
def test_poisson_batches_are_those_of_one_draw_after_another(monkeypatch, drawn):
    """However many are drawn at once; and as many draws are made."""
    monkeypatch.setattr(sampling, "DRAWN", drawn)
    sampler, draws, twin = Sampler("poisson", 1000, 70, groups=4), generator(0, "sampling"), generator(0, "sampling")
    expected = []
    for step in range(3, 3 + 14):
        taken = torch.rand(250, dtype=torch.float64, generator=twin) < 0.28
        expected.append([step % 4 + 4 * i for i in taken.nonzero().squeeze(1).tolist()])
    assert [batch.tolist() for batch in sampler.epoch(draws, 3)] == expected
    assert torch.equal(draws.get_state(), twin.get_state())


def test_turns_go_on_from_epoch_to_epoch():
    """Of 14 steps each, which four turns do not divide: every 4th step of the run is an example's, and no other."""
    sampler, draws, taken = Sampler("poisson", 1000, 70, groups=4), generator(0, "sampling"), set()
    for first_step in range(0, 4 * 14, 14):
        for step, batch in enumerate(sampler.epoch(draws, first_step), start=first_step):
            taken |= {(step % 4, turn) for turn in (batch % 4).tolist()}
    assert taken == {(turn, turn) for turn in range(4)}


def test_an_epoch_of_balls_and_bins_has_all_its_batches_where_the_last_is_empty():
    sampler = Sampler("balls_and_bins", examples=4, batch_size=1)
    epochs = [list(sampler.epoch(torch.Generator().manual_seed(seed))) for seed in range(20)]
    assert {len(batches) for batches in epochs} == {4}
    assert any(len(batches[-1]) == 0 for batches in epochs)
