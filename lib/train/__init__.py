"""One run → one record; or several runs that are alike → their records, trained together.

    >>> from lib.run import Run
    >>> record = train(Run(dataset="digits", model="lenet_300_100", lr=1e-3, epochs=1, batch_size=64))
    >>> record["metrics"]["test_accuracy"] > 50
    True

No record is stored here; see :mod:`lib.sweep`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from lib import environment, methods, tf32
from lib.record import Record
from lib.run import Run
from lib.run.allowed import PRECISIONS
from lib.train import pretrained
from lib.train._start import Data
from lib.train._start import dataset_of as dataset_of
from lib.train._start import optimizer_of as optimizer_of
from lib.train._training import Training as Training
from lib.train.checkpoint import Checkpoint
from lib.train.checkpoint import CheckpointError as CheckpointError
from lib.train.evaluation import evaluate as evaluate

# Small networks, of which one does not fill a GPU; all are sequences, whose layers draw their noise in this order.
STACKED = ("lenet5", "lenet_300_100", "pca_1000", "tf_privacy")


class OutOfTime(Exception):
    """The deadline passed before the run was finished; without a checkpoint nothing of it is kept."""


def train(
    run: Run,
    *,
    device: torch.device | str | None = None,
    precision: str = "float32",
    deadline: float | None = None,
    checkpoint: Path | None = None,
    beat: Callable[[], None] = lambda: None,
) -> Record:
    """Train ``run`` and return its record (schema of :mod:`lib.record`).

    ``device`` defaults to the GPU where there is one.  ``precision`` "bfloat16" is mixed precision: a step's passes
    through the network in bfloat16, all else (parameters, clipping, noise, update, tests) in float32; a method that
    clips examples one by one stays with float32, and the record says which it was.  ``deadline`` is a ``time.time()``;
    the first step to end after it, unless it is the last, raises ``OutOfTime``.  ``checkpoint``: a file that the run
    goes on from, if it exists, in the precision that it began in, and that is kept up to date meanwhile;
    ``CheckpointError`` if it is not of this run, device and code.  ``beat`` is called after every step and every test
    batch.  The pretraining that a run builds on comes first, where nobody did it yet (:mod:`lib.train.pretrained`).
    """
    checkpoints = checkpoint and [checkpoint]
    how = {"device": device, "precision": precision, "deadline": deadline, "checkpoints": checkpoints, "beat": beat}
    (record,) = train_together([run], **how)
    return record


def train_together(
    runs: Sequence[Run],
    *,
    device: torch.device | str | None = None,
    precision: str = "float32",
    deadline: float | None = None,
    checkpoints: Sequence[Path] | None = None,
    beat: Callable[[], None] = lambda: None,
) -> list[Record]:
    """The records of ``runs``, as :func:`train` would make them, to rounding; ``ValueError`` if they are not alike.

    The gradients of all are found in one pass.  All else, batches, noise, update, schedule and test, is every run's
    own, so a checkpoint, of which each run has one, can be gone on from together or alone.
    """
    if len({alike(run) for run in runs}) > 1 or (len(runs) > 1 and alike(runs[0]) is None):
        raise ValueError(f"runs: expected such as can be trained together; got {', '.join(run.words for run in runs)}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision: expected one of {', '.join(PRECISIONS)}; got {precision!r}")
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    environment.reset_peak_memory(device)
    tf32.forbid()

    def finish(pretraining: Run, path: Path, beat: Callable[[], None]) -> Training:
        return _finished([pretraining], device, deadline, [path], beat)[0]

    for run in runs:
        if run.pretraining is not None:
            pretrained.ensure(run, device, finish, beat)
    return [training.record() for training in _finished(runs, device, deadline, checkpoints, beat, precision)]


def alike(run: Run) -> tuple[tuple[str, object], ...] | None:
    """What runs have in common that can be trained together with ``run``; None if it has to be trained alone."""
    differ = methods.may_differ(run) if run.model in STACKED and not run.pretrained_on else ()
    return tuple((name, value) for name, value in asdict(run).items() if name not in differ) if differ else None


def _finished(
    runs: Sequence[Run],
    device: torch.device,
    deadline: float | None,
    checkpoints: Sequence[Path] | None,
    beat: Callable[[], None],
    precision: str = "float32",
) -> list[Training]:
    """The runs, trained to their end, those together that are equally far; each in the precision that it began in."""
    files = [Checkpoint(path, run, device) for path, run in zip(checkpoints or (), runs, strict=bool(checkpoints))]
    trainings = [file.load() for file in files] or [None] * len(runs)
    trainings = [found or Training(run, device, precision) for found, run in zip(trainings, runs, strict=True)]
    at_hand: dict[torch.device, Data] = {}
    for training in trainings:  # one that goes on does so on the device where it began
        training.attach(at_hand.get(training.device))
        at_hand[training.device] = training.data
    if not trainings[0].step:
        trainings[0].try_out()

    def pause() -> None:
        late = deadline is not None and time.time() > deadline
        for file, training in zip(files, trainings, strict=bool(files)):
            file.save(training) if late else file.save_if_due(training)
        if late:
            at = ", ".join(f"{t.run.words}: {t.step} of {t.method.steps} steps" for t in trainings)
            raise OutOfTime(f"{at} done at the deadline")

    def alike_so_far(training: Training) -> tuple[int, str, str]:
        return training.step, training.precision, str(training.device)

    for _, group in groupby(sorted(trainings, key=alike_so_far), alike_so_far):
        _finish(list(group), pause, beat)
    return trainings


def _finish(trainings: list[Training], pause: Callable[[], None], beat: Callable[[], None]) -> None:
    first = trainings[0]
    with _all(training.shared_by(len(trainings)) for training in trainings):
        while not first.finished:
            with _all(training.epoch() for training in trainings) as epochs:
                for batches in zip(*epochs, strict=True):
                    _step(trainings, [t.examples(batch) for t, batch in zip(trainings, batches, strict=True)])
                    beat()
                    if not first.epoch_is_over:  # the test is a part of the epoch
                        pause()
            for training in trainings:
                training.test(beat)
            if not first.finished:
                pause()


@contextmanager
def _all(managers: Iterable[AbstractContextManager[Any]]) -> Iterator[list[Any]]:
    with ExitStack() as opened:
        yield [opened.enter_context(manager) for manager in managers]


def _step(trainings: list[Training], batches: list[methods.Batch]) -> None:
    first, of_each, models = trainings[0], [t.method for t in trainings], [t.model for t in trainings]
    kind = methods.Method if len(trainings) == 1 else type(of_each[0])  # nothing is gained by stacking one
    with torch.autocast(first.device.type, torch.bfloat16, enabled=first.precision == "bfloat16"):
        losses = kind.backward_together(of_each, models, batches, first.step)
    for training, loss in zip(trainings, losses, strict=True):
        training.advance(loss)
