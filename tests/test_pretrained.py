"""Pretraining on public data: done once, kept, refused if it is not what it should be."""

import os
import time
from dataclasses import replace

import pytest
import torch
from conftest import make_run

from lib import data, models
from lib.data import as_input
from lib.lease import Lease
from lib.preprocessing import STANDARDS
from lib.train import OutOfTime, Training, _finish, pretrained, sealed, train
from lib.train.pretrained import Elsewhere, PretrainedError

RUN = make_run(
    dataset="digits_rgb",
    model="convnet",
    norm="group_without_affine",  # whose shapes are those of the 8×8 images too
    optimizer="sgd",
    method="dpsgd",
    sampler="poisson",
    clip_norm=1.0,
    epsilon=8.0,
    lr=1.0,
    epochs=1,
    batch_size=256,
    pretrained_on="stripes_rgb",
    pretraining_epochs=1,
)
CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path / pretrained.FOLDER


def files(folder) -> dict[str, bytes]:
    return {path.suffix: path.read_bytes() for path in folder.iterdir()}


def test_it_is_done_once_and_its_features_are_those_of_the_convolutions(folder):
    record = train(RUN)
    kept = files(folder)
    assert set(kept) == {".weights", ".features"}  # no lease, no checkpoint, no part of a file
    again = train(RUN)
    assert files(folder) == kept
    assert again["metrics"] == record["metrics"]
    assert train(replace(RUN, seed=1))["metrics"] != record["metrics"]
    assert files(folder) == kept  # seeds share it

    pretraining = Training(RUN.pretraining, CPU)
    pretraining.attach()
    _finish([pretraining], lambda: None, lambda: None)
    convolutions, _ = models.cut(pretraining.model.eval())
    images = data.load("digits_rgb").test_inputs
    found = pretrained.features_of(RUN, data.load("digits_rgb"))
    assert found.test_inputs.dtype == torch.float16
    expected = convolutions(as_input(images)).detach()
    torch.testing.assert_close(found.test_inputs.float(), expected, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(pretrained.features(RUN, images[:7]), found.test_inputs[:7], rtol=2e-3, atol=2e-3)


def test_the_scale_is_that_of_the_public_data(folder):
    """Mean and standard deviation of the run's own images are private: no proof assumes that they are public."""
    run = replace(RUN, input_scale="standardised")
    record = train(run)
    assert "standard deviation" not in record["privacy"]["proven"]["assumes"]
    public = torch.tensor(STANDARDS["stripes_rgb"]).view(2, 3, 1, 1)
    images = (as_input(data.load("digits_rgb").test_inputs[:7]) - public[0]) / public[1]
    found = pretrained.features_of(run, data.load("digits_rgb")).test_inputs[:7]
    expected = pretrained._convolutions(run.pretraining, CPU)(images)
    torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-3)


def test_linear_layers_may_stand_on_the_features_of_another_norm(folder):
    train(RUN)
    kept = files(folder)
    other = replace(RUN, norm="none", pretraining_norm=RUN.norm)
    record = train(other)
    assert files(folder) == kept
    assert record["env"]["data"] == train(RUN)["env"]["data"]
    assert other.pretraining == RUN.pretraining != replace(RUN, norm="none").pretraining


def test_only_the_linear_layers_are_trained_and_the_record_says_what_is_public(folder):
    train(RUN)
    training = Training(RUN, CPU)
    training.attach()
    assert [p.shape for p in training.model.parameters()] == [(10, 128), (10,)]
    _finish([training], lambda: None, lambda: None)
    record = training.record()
    proven = record["privacy"]["proven"]
    assert proven["epsilon"] == pytest.approx(8.0, rel=0.02)
    assert "stripes_rgb, on which the convolutions were pretrained, is public" in proven["assumes"]
    assert "as 128 features pretrained on stripes_rgb (convnet-group_without_affine" in record["env"]["data"]
    assert RUN.pretraining.id in record["env"]["data"]
    assert record["env"]["data_sha256"] != data.load("digits_rgb").sha256


def test_batch_norm_with_public_features(folder):
    public = {"norm": "public_batch_without_affine", "public_examples": 4, "public_dataset": "stripes_rgb"}
    run = replace(RUN, model="light_vgg_narrow", **public, statistics="per_example", lr=0.1)
    assert train(run)["privacy"]["proven"]["epsilon"] == pytest.approx(8.0, rel=0.02)
    assert "-batch-" in next(folder.glob("*.weights")).name
    images = data.load("digits_rgb").test_inputs[:20]
    others = torch.cat([images[:1], 255 - images[1:]])
    assert torch.equal(pretrained.features(run, images)[0], pretrained.features(run, others)[0])


@pytest.mark.parametrize("suffix", [".weights", ".features"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda whole: whole[:-10], "expected a file with a whole file; got a damaged one"),
        (lambda whole: whole[:-10] + bytes(10), "expected a file with a whole file; got a damaged one"),
        (lambda whole: b"", "expected a file with a whole file; got a damaged one"),
        (lambda whole: whole.replace(RUN.pretraining.id.encode(), b"0" * 12, 1), "expected a file with run"),
    ],
    ids=["short", "changed", "empty", "foreign"],
)
def test_what_is_not_whole_or_not_its_own_is_refused_by_name(suffix, damage, message, folder):
    train(RUN)
    path = next(folder.glob(f"*{suffix}"))
    path.write_bytes(damage(path.read_bytes()))
    pretrained._tensors.cache_clear()
    with pytest.raises(PretrainedError, match=message) as refused:
        train(RUN)
    assert str(refused.value).startswith(f"{path}: ")
    path.unlink()
    train(RUN)  # made again


def test_the_accuracy_that_is_kept_is_the_last(folder):
    training = Training(RUN.pretraining, CPU)
    training.attach()
    training.accuracies = [90.0, 80.0]
    pretrained._keep(RUN.pretraining, training)
    assert sealed.read(next(folder.glob("*.weights")), {})[1]["accuracy"] == 80.0


def test_features_that_change_are_read_again(folder):
    train(RUN)
    path = next(folder.glob("*.features"))
    path.write_bytes(path.read_bytes()[:-10])
    os.utime(path, ns=(1, 1))
    with pytest.raises(PretrainedError, match="got a damaged one"):
        pretrained.features_of(RUN, data.load("digits_rgb"))


def test_features_of_other_data_are_refused(folder):
    train(RUN)
    with pytest.raises(PretrainedError, match=r"\.features: expected a file with data 0000"):
        pretrained.features_of(RUN, replace(data.load("digits_rgb"), sha256="0" * 64))


def test_features_of_other_weights_are_refused_and_once_made_again_are_other_data(folder):
    before = train(RUN)["env"]["data_sha256"]
    weights = next(folder.glob("*.weights"))
    _, _, payload = weights.read_bytes().partition(b"\n")
    sealed.write(weights, {"run": RUN.pretraining.id, "accuracy": 50.0}, payload + b" ")
    with pytest.raises(PretrainedError, match=r"\.features: expected a file with weights"):
        train(RUN)
    next(folder.glob("*.features")).unlink()
    assert train(RUN)["env"]["data_sha256"] != before


def test_while_another_process_makes_it_nobody_else_does(folder):
    lease = Lease.take(folder, RUN.pretraining.id, silent=60)
    with pytest.raises(Elsewhere, match=r"\.weights: another process is making it"):
        train(RUN)
    lease.release()
    train(RUN)


def test_who_makes_it_is_heard_of_by_others_and_by_its_sweep(folder, monkeypatch):
    """Or, silent for long, it would be followed, or killed."""
    monkeypatch.setattr("lib.lease.TOUCH", -1.0)
    ages, heard = [], []

    def finish(pretraining, path, beat):
        (file,) = folder.glob("*.lease")
        os.utime(file, (0, 0))
        beat()
        ages.append(time.time() - file.stat().st_mtime)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrained.ensure(RUN, CPU, finish, lambda: heard.append(1))
    assert ages[0] < 60
    assert heard == [1]


def test_a_pretraining_that_runs_out_of_time_goes_on_where_it_was(folder):
    with pytest.raises(OutOfTime):
        train(RUN, deadline=0.0)
    assert set(files(folder)) == {".checkpoint"}
    assert train(RUN)["metrics"]
    assert set(files(folder)) == {".weights", ".features"}


def test_a_network_without_convolutions_has_nothing_to_pretrain(folder):
    with pytest.raises(ValueError, match="model: expected a sequence of convolutions"):
        train(replace(RUN, model="lenet_300_100", dataset="digits", norm="none"))


@pytest.mark.parametrize("suffix", [".weights", ".features"])
def test_what_is_not_there_is_missed_by_name(folder, suffix):
    """As when stored runs are proven again on a machine where none was trained."""
    train(RUN)
    (path,) = folder.glob(f"*{suffix}")
    path.unlink()
    with pytest.raises(PretrainedError, match=f"{suffix}: no such file; it is made when a run that builds on it is"):
        Training(RUN, CPU).attach()
