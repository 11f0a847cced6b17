"""Training on a device that is not the CPU, where there is no GPU: other_device.cpp's, the CPU under another name.

Its operators and generators are the CPU's own, so a run leaves what it does there; a tensor that was made on the wrong
device, or a generator, is an error.  It also counts how often the host waits for the device.
"""

import ctypes
import shutil
import statistics
import subprocess
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import make_run

from lib import data, gaussian
from lib.layers import with_public
from lib.methods import dpsgd
from lib.train import OutOfTime, _finished, train

COMPILER = shutil.which("c++")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")]

PRIVATE = {"model": "lenet5", "optimizer": "sgd", "lr": 0.3, "clip_norm": 0.5, "noise_multiplier": 1.0, "epochs": 1}
PRIVATE |= {"method": "dpsgd", "sampler": "poisson", "norm": "layer"}
PUBLIC = PRIVATE | {"public_examples": 5, "norm": "public_batch_without_affine"}
CLIPPED_TOGETHER = PRIVATE | {"method": "batch_clipping", "sampler": "without_replacement", "norm": "batch"}
CLIPPED_TOGETHER |= {"neighbouring_relation": "replace_one"}
LAYERWISE = CLIPPED_TOGETHER | {"method": "adaptive_layerwise", "public_examples": 50, "gradient_norm_examples": 20}
PRETRAINED = PRIVATE | {"model": "convnet", "dataset": "digits_rgb", "norm": "group_without_affine"}
PRETRAINED |= {"pretrained_on": "stripes_rgb", "pretraining_epochs": 1, "batch_size": 256}
RUNS = {
    "without privacy": {"augmentation": "shift"},
    "noisy weights": {"model": "lenet5", "norm": "batch", "test_statistics": "running", "weight_noise_std": 0.1},
    "noisy updates": {"method": "noisy_sgd", "optimizer": "sgd", "gradient_noise_std": 0.01},
    "DPSGD": PRIVATE,
    "DPSGD, of a fixed size": PRIVATE | {"sampler": "without_replacement", "neighbouring_relation": "replace_one"},
    "DPSGD, each layer by itself": PRIVATE | {"clipped": "layer"},
    "DPSGD of views": PRIVATE | {"augmult": 2, "augmentation": "shift"},
    "DPSGD on components": PRIVATE | {"model": "pca_1000", "norm": "none", "pca_noise_multiplier": 16.0},
    "DPSGD with group norm": PRIVATE | {"model": "convnet", "dataset": "digits_rgb", "norm": "group_without_affine"},
    "statistics of all images": PUBLIC | {"statistics": "mixed", "statistics_gradient": "on", "statistics_batch": 4},
    "statistics of each image and public ones": PUBLIC | {"statistics": "per_example", "statistics_gradient": "on"},
    "statistics of public images": PUBLIC | {"statistics_gradient": "on"},
    "statistics of public images, constant": PUBLIC,
    "noised statistics": PRIVATE
    | {"norm": "noised_batch_without_affine", "statistics_share": 0.2, "statistics_clip_norm": 3.0},
    "SI-DPSGD": PRIVATE | {"method": "si_dpsgd", "test_at": "theta"},
    "correlated noise": PRIVATE | {"method": "correlated_noise", "noise_power": 0.5, "noise_bands": 3},
    "batch clipping": CLIPPED_TOGETHER | {"mini_set_size": 64},
    "layerwise clipping": LAYERWISE | {"mini_set_size": 32, "layers": "four_groups"},
    "multiplication factors": LAYERWISE | {"mini_set_size": 64, "adaptive_clipping": "multiplication_factors"},
    "converged weights fixed": LAYERWISE | {"mini_set_size": 64, "fix_converged": "epoch", "epochs": 2},
    "texts": {"dataset": "topics", "model": "bilstm", "norm": "layer", "weight_noise_std": 0.1, "epochs": 1},
    "texts, SI-DPSGD": PRIVATE | {"method": "si_dpsgd", "dataset": "topics", "model": "bilstm"},
}


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    """Sets the device up; a function that says how often the host has waited for it."""
    of_torch, library = Path(torch.__file__).parent, tmp_path_factory.mktemp("device") / "other_device.so"
    where = [f"-I{of_torch / folder}" for folder in ("include", "include/torch/csrc/api/include")]
    linked = [f"-L{of_torch / 'lib'}", "-ltorch_cpu", "-lc10"]
    source = Path(__file__).with_name("other_device.cpp")
    subprocess.run([COMPILER, "-std=c++20", "-shared", "-fPIC", *where, source, *linked, "-o", library], check=True)
    torch.utils.rename_privateuse1_backend("other")
    torch.ops.load_library(library)
    module = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        manual_seed_all=lambda _: None,
        _is_in_bad_fork=lambda: False,
        device=lambda _: nullcontext(),
        get_amp_supported_dtype=lambda: [torch.bfloat16],
    )
    torch._register_device_module("other", module)
    torch.utils.generate_methods_for_privateuse1_backend()
    with pytest.MonkeyPatch.context() as patch:
        for sizes in (dpsgd.MICROBATCH, dpsgd.ROWS, with_public.CHUNK):
            patch.setitem(sizes, "other", sizes["cpu"])
        patch.setattr(gaussian, "CHUNK", 1 << 30)  # a CPU's noise is drawn in one piece, too
        yield ctypes.CDLL(library).waited


def finished(runs, device, checkpoints=None):
    """Of each run the record, and the weights, brought home."""
    trainings = _finished(runs, torch.device(device), None, checkpoints, lambda: None)
    return [(t.record(), {name: value.cpu() for name, value in t.model.state_dict().items()}) for t in trainings]


def assert_alike(one, other):
    (record, weights), (of_other, others) = one, other
    assert of_other["privacy"] == record["privacy"]
    assert of_other["history"].keys() == record["history"].keys()
    for name, value in weights.items():
        torch.testing.assert_close(others[name], value, rtol=1e-3, atol=1e-4)


def test_the_device_tells_apart_what_a_gpu_does(waited):
    x, draws = torch.ones(3, device="other"), torch.Generator("other").manual_seed(0)
    assert str(x.device) == "other:0"
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.conv2d(torch.ones(1, 1, 3, 3, device="other"), torch.ones(1, 1, 3, 3))
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, device="other", generator=torch.Generator())
    of_cpu = torch.Generator().manual_seed(0)
    assert torch.equal(torch.rand(3, device="other", generator=draws).cpu(), torch.rand(3, generator=of_cpu))
    before = waited()
    assert (x + 1.0).mul_(x).view(3, 1).device == x.device
    assert waited() == before
    assert x.sum().item() == x.cpu().sum()
    assert len(x[x > 0]) == len((x > 0).nonzero()) == 3
    assert waited() == before + 4


@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_a_run_leaves_what_it_does_on_the_cpu(waited, changes):
    run = make_run(**({"batch_size": 256} | changes))
    (of_cpu,), (of_other,) = finished([run], "cpu"), finished([run], "other")
    assert_alike(of_cpu, of_other)


def test_runs_together_leave_what_they_do_on_the_cpu(waited):
    runs = [make_run(**PRIVATE, seed=seed, batch_size=256) for seed in range(2)]
    for one, other in zip(*(finished(runs, device) for device in ("cpu", "other")), strict=True):
        assert_alike(one, other)


@pytest.mark.parametrize("name", ["noisy weights", "noisy updates", "texts"])
def test_a_run_in_half_precision_learns_what_it_does_on_the_cpu(waited, name):
    run = make_run(**({"batch_size": 256} | RUNS[name]))
    of_cpu, of_other = (train(run, device=device, precision="bfloat16") for device in ("cpu", "other"))
    assert of_other["env"]["flags"]["precision"] == "bfloat16"
    assert of_other["history"]["train_loss"] == pytest.approx(of_cpu["history"]["train_loss"], rel=0.02)


def test_a_run_goes_on_where_it_was_stopped(waited, tmp_path):
    run, path = make_run(**PRIVATE, batch_size=256), tmp_path / "checkpoint"
    (whole,) = finished([run], "other")
    with pytest.raises(OutOfTime):
        train(run, device="other", deadline=0.0, checkpoint=path)
    (resumed,) = finished([run], "other", [path])
    for name, value in whole[1].items():
        assert torch.equal(resumed[1][name], value), name


def test_convolutions_are_pretrained_and_loaded_there(waited, tmp_path, monkeypatch):
    run, found = make_run(**PRETRAINED), []
    for device in ("cpu", "other"):
        monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path / device))
        train(run, device=device)  # after which they are in a file
        found += finished([run], device)
    assert_alike(*found)


WAITS = {  # of a step, see Training.epoch; the looks at how a model uses its examples are at few steps
    "without privacy": 0,
    "noisy weights": 0,
    "noisy updates": 0,
    "batch clipping": 0,
    "layerwise clipping": 0,
    "correlated noise": 1,
    "DPSGD, of a fixed size": 1,
    "DPSGD": 1,
}


@pytest.mark.parametrize("name", WAITS)
def test_the_host_waits_for_the_device_no_more_often_than_is_said(waited, name):
    counts, run = [], make_run(**({"batch_size": 64} | RUNS[name] | {"epochs": 2}))
    train(run, device="other", beat=lambda: counts.append(waited()))
    of_steps = [later - earlier for earlier, later in pairwise(counts)]
    assert statistics.mode(of_steps) == WAITS[name]
    if not WAITS[name]:
        assert len(of_steps) - of_steps.count(0) <= 3  # those with an epoch's mean loss, accuracy or gradient norms
