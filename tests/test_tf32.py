"""TF32 is off where it has to be, whichever of torch's two kinds of switches somebody has used."""

import pytest
import torch
from torch import backends

from lib import tf32
from lib.run import Run
from lib.train import train

OLDER = {
    "as torch begins": lambda: None,
    "all matrices": lambda: torch.set_float32_matmul_precision("high"),
    "bfloat16 on a CPU": lambda: torch.set_float32_matmul_precision("medium"),
    "no convolution": lambda: setattr(backends.cudnn, "allow_tf32", False),
}
NEWER = {
    "all": lambda: setattr(backends, "fp32_precision", "tf32"),
    "convolutions": lambda: setattr(backends.cudnn.conv, "fp32_precision", "tf32"),
    "no matrix": lambda: setattr(backends.cuda.matmul, "fp32_precision", "ieee"),
    "after the older": lambda: (
        torch.set_float32_matmul_precision("high"),
        setattr(backends.cuda.matmul, "fp32_precision", "ieee"),
    ),
}
PLACES = {
    **{"all": backends, "cudnn": backends.cudnn, "matmul": backends.cuda.matmul, "conv": backends.cudnn.conv},
    **{"rnn": backends.cudnn.rnn, "mkldnn": backends.mkldnn.matmul, "mkldnn conv": backends.mkldnn.conv},
}


@pytest.fixture(autouse=True)
def switches_of_its_own():
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = True
    before = {name: place.fp32_precision for name, place in PLACES.items()}
    yield
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = True
    for name, place in PLACES.items():
        place.fp32_precision = before[name]


def newer() -> dict[str, str]:
    return {name: place.fp32_precision for name, place in PLACES.items()}


def older() -> tuple[bool, bool, str]:
    return backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()


@pytest.mark.parametrize("used", OLDER | NEWER)
def test_it_is_forbidden_inside_and_afterwards_as_it_was(used):
    (OLDER | NEWER)[used]()
    before, allowed = newer(), tf32.is_allowed()
    with tf32.forbidden():
        assert not tf32.is_allowed()
        assert not {"tf32", "bf16"} & {value for name, value in newer().items() if name not in ("all", "cudnn")}
        assert older() == (False, False, "highest")  # the newer kind agrees, so torch answers
    assert (newer(), tf32.is_allowed()) == (before, allowed)


@pytest.mark.parametrize("used", OLDER)
def test_the_older_switches_are_afterwards_what_they_were(used):
    OLDER[used]()
    before = older()
    with tf32.forbidden():
        pass
    assert older() == before


def test_what_was_left_to_the_switch_for_all_still_is():
    backends.fp32_precision = "tf32"
    with tf32.forbidden():
        pass
    backends.fp32_precision = "ieee"
    assert backends.cuda.matmul.fp32_precision == "ieee"


def test_it_is_forbidden_after_an_error_no_longer_than_inside():
    with pytest.raises(ZeroDivisionError), tf32.forbidden():
        1 / 0  # noqa: B018
    assert tf32.is_allowed()


@pytest.mark.parametrize("used", OLDER | NEWER)
def test_a_run_is_trained_without_it_and_says_so(used):
    (OLDER | NEWER)[used]()
    assert tf32.is_allowed() == (used != "no convolution")
    private = {"method": "dpsgd", "clip_norm": 0.1, "noise_multiplier": 1.0, "sampler": "poisson"}
    record = train(Run(dataset="digits", model="lenet_300_100", lr=0.01, epochs=1, batch_size=256, **private))
    assert record["env"]["flags"]["tf32"] is False
    assert not tf32.is_allowed()


ALONE = {
    **{"a GPU's matrices": (backends.cuda.matmul, "tf32"), "a CPU's matrices": (backends.mkldnn.matmul, "bf16")},
    **{"a GPU's convolutions": (backends.cudnn.conv, "tf32"), "a CPU's convolutions": (backends.mkldnn.conv, "bf16")},
    **{"a GPU's LSTMs": (backends.cudnn.rnn, "tf32"), "a CPU's LSTMs": (backends.mkldnn.rnn, "bf16")},
}


@pytest.mark.parametrize("used", ALONE)
def test_each_place_that_rounds_alone_is_seen_forbidden_inside_and_afterwards_as_it_was(used):
    place, precision = ALONE[used]
    with tf32.forbidden():
        before, place.fp32_precision = place.fp32_precision, precision
        assert tf32.is_allowed()
        with tf32.forbidden():
            assert place.fp32_precision == "ieee"
            assert not tf32.is_allowed()
        assert place.fp32_precision == precision
        place.fp32_precision = before


def test_a_place_that_follows_the_switch_for_all_follows_it_afterwards():
    """torch answers with the switch for all where a place has none of its own, as here none is left by other tests."""
    backends.mkldnn.conv.fp32_precision = "none"
    backends.fp32_precision = "tf32"
    with tf32.forbidden():
        pass
    assert backends.mkldnn.conv.fp32_precision == "tf32"
    backends.fp32_precision = "ieee"
    assert backends.mkldnn.conv.fp32_precision == "ieee"
