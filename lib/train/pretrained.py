"""Convolutions trained on public data and then fixed, and what they make of other images: kept on disk, computed once.

A run with ``pretrained_on`` takes over the convolutions of :attr:`~lib.run.Run.pretraining`, a run like any other, and
trains its linear layers on their outputs, the features.  Both are kept in ``pretrained`` in the data folder, under the
pretraining's id:

    ``<words>-<id>.weights``                the convolutions, and how accurate the whole network was
    ``<words>-<id>-<data set>.features``    their outputs for that data set's images, float16

Who finds one missing makes it.  A file that is damaged, or of another run, other weights or other data, is refused by
name (:mod:`lib.train.sealed`), and nothing in it is unpickled but tensors.
"""

import hashlib
import io
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lib import data, models
from lib.data import Dataset
from lib.lease import Lease
from lib.preprocessing import Preprocessing
from lib.run import Run
from lib.train import sealed
from lib.train.checkpoint import remove

FOLDER = "pretrained"
SILENT = 600.0  # seconds after which somebody who is making a file is given up, as in a sweep
CHUNK = 500  # images in one pass

Beat = Callable[[], None]


class PretrainedError(Exception):
    """A file that is not what it should be; the message names it and says what was expected."""


class Elsewhere(Exception):
    """Another process is making what this run needs."""


def ensure(run: Run, device: torch.device, finish: Callable[[Run, Path, Beat], Any], beat: Beat) -> None:
    """Make the files that ``run`` needs and that are missing; ``Elsewhere`` if another process is about it.

    ``finish(pretraining, checkpoint, beat)`` trains, and returns the finished :class:`~lib.train.Training`.
    """
    pretraining = run.pretraining
    if _weights(pretraining).exists() and _features(run).exists():
        return
    _untrained(pretraining)  # a model that has no convolutions is refused before it is trained
    lease = Lease.take(_weights(pretraining).parent, pretraining.id, silent=SILENT)
    if lease is None:
        raise Elsewhere(f"{_weights(pretraining)}: another process is making it, or its features; try again later")

    def both() -> None:
        beat()
        lease.beat()

    try:
        if not _weights(pretraining).exists():
            checkpoint = _weights(pretraining).with_suffix(".checkpoint")
            _keep(pretraining, finish(pretraining, checkpoint, both))
            remove(checkpoint)
        if not _features(run).exists():
            _compute(run, device, both)
    finally:
        lease.release()


def features_of(run: Run, dataset: Dataset) -> Dataset:
    """``dataset``, the run's, with features (N, D) in the place of the images.

    Its hash is that of the data and of the weights, and its words say which network made the features.
    ``PretrainedError`` if they are not there, or not what they should be.
    """
    weights, path = _weights(run.pretraining), _features(run)
    for missing in (needed for needed in (weights, path) if not needed.exists()):
        raise PretrainedError(f"{missing}: no such file; it is made when a run that builds on it is trained")
    _, head = _read(weights, {"run": run.pretraining.id})
    belongs = {"run": run.pretraining.id, "weights": head["sha256"], "data": dataset.sha256}
    train, test = _tensors(path, path.stat().st_mtime_ns, tuple(belongs.items()), dataset.train_inputs.device)
    return replace(
        dataset,
        sha256=hashlib.sha256((dataset.sha256 + head["sha256"]).encode()).hexdigest(),
        train_inputs=train,
        test_inputs=test,
        pretrained_on=run.pretrained_on,
        pretraining=f"{weights.stem}, {head['accuracy']:.1f} % there",
    )


@torch.no_grad()
def features(run: Run, images: Tensor, beat: Beat = lambda: None) -> Tensor:
    """uint8 images (N, C, H, W) → float16 features (N, D), on the images' device."""
    convolutions = _convolutions(run.pretraining, images.device)
    # The public data's scale: that of the run's own would be a statistic of private images.
    preprocessing = Preprocessing(run.pretrained_on, run.augmentation, run.input_scale)
    parts = []
    for part in images.split(CHUNK):
        parts.append(convolutions(preprocessing.testing(part)).half())
        beat()
    return torch.cat(parts)


def _convolutions(pretraining: Run, device: torch.device) -> nn.Module:
    payload, _ = _read(_weights(pretraining), {"run": pretraining.id})
    convolutions = _untrained(pretraining)
    convolutions.load_state_dict(torch.load(io.BytesIO(payload), weights_only=True))
    return convolutions.to(device).eval().requires_grad_(False)


def _untrained(pretraining: Run) -> nn.Module:
    """The convolutions alone, which do not depend on the number of classes."""
    with torch.random.fork_rng(devices=[]):
        model = models.build(
            pretraining.model,
            norm=pretraining.norm,
            activation=pretraining.activation,
            last_norm=pretraining.last_norm,
        )
    return models.cut(model)[0]


def _keep(pretraining: Run, training: Any) -> None:
    convolutions, _ = models.cut(training.model)
    weights = {name: value.cpu() for name, value in convolutions.state_dict().items()}
    head = {"run": pretraining.id, "data": training.data_sha256, "accuracy": training.accuracies[-1]}
    sealed.write(_weights(pretraining), head, _saved(weights))


def _compute(run: Run, device: torch.device, beat: Beat) -> None:
    dataset = data.load(run.dataset, device=device)
    _, head = _read(_weights(run.pretraining), {"run": run.pretraining.id})
    tensors = {
        "train": features(run, dataset.train_inputs, beat).cpu(),
        "test": features(run, dataset.test_inputs, beat).cpu(),
    }
    belongs = {"run": run.pretraining.id, "weights": head["sha256"], "data": dataset.sha256}
    sealed.write(_features(run), belongs, _saved(tensors))


@lru_cache(maxsize=2)
def _tensors(
    path: Path, changed: int, belongs: tuple[tuple[str, str], ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """The features in ``path`` of the training and of the test images; ``changed`` is when the file was."""
    payload, _ = _read(path, dict(belongs))
    found = torch.load(io.BytesIO(payload), map_location=device, weights_only=True)
    return found["train"], found["test"]


def _read(path: Path, belongs: dict[str, str]) -> tuple[bytes, dict[str, Any]]:
    try:
        return sealed.read(path, belongs)
    except sealed.Unsealed as found:
        raise PretrainedError(
            f"{path}: expected a file with {found.expected}; got {found.got}; delete it to make it again"
        ) from found


def _saved(tensors: dict[str, Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    return buffer.getvalue()


def _weights(pretraining: Run) -> Path:
    return data.folder() / FOLDER / f"{pretraining.words}-{pretraining.id}.weights"


def _features(run: Run) -> Path:
    weights = _weights(run.pretraining)
    return weights.with_name(f"{weights.stem}-{run.dataset}.features")
