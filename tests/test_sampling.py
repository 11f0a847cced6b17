"""Which examples form a batch, and from which generator."""

import pytest
import torch

from lib.generators import generator
from lib.sampling import shuffled_epoch


def test_an_epoch_takes_every_example_at_most_once_in_full_batches():
    batches = list(shuffled_epoch(10, 3, generator(0, "sampling")))
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert len(set(torch.cat(batches).tolist())) == 9


def test_the_next_epoch_has_another_order():
    draws = generator(0, "sampling")
    first, second = (torch.cat(list(shuffled_epoch(100, 10, draws))) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first.sort().values, second.sort().values)


@pytest.mark.parametrize("batch_size", [0, 11])
def test_a_batch_that_cannot_be_filled_is_refused(batch_size):
    with pytest.raises(
        ValueError, match=f"batch_size: expected 1 to 10, the size of the training set; got {batch_size}"
    ):
        shuffled_epoch(10, batch_size, generator(0, "sampling"))


def test_each_purpose_and_seed_has_its_own_sequence():
    firsts = {
        torch.randint(2**62, (1,), generator=generator(seed, purpose)).item()
        for seed in (0, 1)
        for purpose in ("init", "sampling", "weight noise")
    }
    assert len(firsts) == 6
