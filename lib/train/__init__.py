"""One run → one record.

    >>> from lib.run import Run
    >>> record = train(Run(dataset="digits", model="lenet_300_100", lr=1e-3, epochs=1, batch_size=64))
    >>> record["metrics"]["test_accuracy"] > 50
    True

No record is stored here; see :mod:`lib.sweep`.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lib import environment, methods, store
from lib.generators import generator
from lib.layers import held_noise
from lib.run import Run
from lib.train import pretrained
from lib.train._start import dataset_of, model_of, preprocessing_of
from lib.train._start import optimizer_of as optimizer_of
from lib.train.checkpoint import Checkpoint
from lib.train.checkpoint import CheckpointError as CheckpointError
from lib.train.evaluation import evaluate as evaluate
from lib.train.evaluation import set_noise


class OutOfTime(Exception):
    """The deadline passed before the run was finished; without a checkpoint nothing of it is kept."""


def train(
    run: Run,
    *,
    device: torch.device | str | None = None,
    deadline: float | None = None,
    checkpoint: Path | None = None,
    beat: Callable[[], None] = lambda: None,
) -> store.Record:
    """Train ``run`` and return its record (schema of :mod:`lib.store`).

    ``device`` defaults to the GPU where there is one.  ``deadline`` is a ``time.time()``; the first step to end after
    it, unless it is the last, raises ``OutOfTime``.  ``checkpoint``: a file that the run goes on from, if it exists,
    and that is kept up to date meanwhile; ``CheckpointError`` if it is not of this run, device and code.  ``beat`` is
    called after every step and every test batch.  The pretraining that a run builds on comes first, where nobody did it
    yet (:mod:`lib.train.pretrained`).
    """
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    environment.reset_peak_memory(device)
    environment.full_precision()
    if run.pretraining is not None:
        pretrained.ensure(run, device, lambda *of: _finished(of[0], device, deadline, *of[1:]), beat)
    return _finished(run, device, deadline, checkpoint, beat).record()


def _finished(
    run: Run, device: torch.device, deadline: float | None, checkpoint: Path | None, beat: Callable[[], None]
) -> "Training":
    """The run, trained to its end."""
    kept = None if checkpoint is None else Checkpoint(checkpoint, run, device)
    training = (kept and kept.load()) or Training(run, device)
    training.attach()

    def pause() -> None:
        late = deadline is not None and time.time() > deadline
        if kept:
            kept.save(training) if late else kept.save_if_due(training)
        if late:
            raise OutOfTime(f"{run.words}: {training.step} of {training.method.steps} steps done at the deadline")

    def after_step() -> None:
        beat()
        if not training.epoch_is_over:  # the test is a part of the epoch
            pause()

    while not training.finished:
        training.epoch(after_step)
        training.test(beat)
        if not training.finished:
            pause()
    return training


class Training:
    """A run in progress: everything that changes while it goes on, so that it can be pickled and gone on from.

    The data are not pickled; :meth:`attach` brings them.
    """

    PURPOSES = ("sampling", "augmentation", "weight noise", "test noise")  # of a generator each

    def __init__(self, run: Run, device: torch.device) -> None:
        self.run, self.device, self.step = run, device, 0
        self.started, self._seconds = datetime.now(UTC), 0.0
        self._losses: list[Tensor | None] = []  # of this epoch, on the device
        self._opening: dict[str, Tensor] = {}  # the generators' states when this epoch began
        self.losses: list[float | None] = []
        self.accuracies: list[float] = []
        self.data_sha256: str | None = None

    def attach(self) -> None:
        """Bring the data, and what a fresh run starts from.  ``CheckpointError`` if the data are not what they were."""
        self._clock = time.perf_counter()
        self._dataset, self._public = dataset_of(self.run, self.device)
        if self.data_sha256 is None:
            self.data_sha256 = self._dataset.sha256
            self._start()
        if self._dataset.sha256 != self.data_sha256:
            raise CheckpointError(
                f"{self.run.words}: expected {self.run.dataset} with SHA-256 {self.data_sha256}, on which the run "
                f"began; got {self._dataset.sha256}"
            )

    def _start(self) -> None:
        run = self.run
        self.model = model_of(run, self._dataset, self._public)
        self.method = methods.build(run, len(self._dataset.train_labels), self.model)
        self.generators = {purpose: generator(run.seed, purpose, self.device) for purpose in self.PURPOSES}
        self.optimizer, self.schedule = optimizer_of(self.method, self.model)

    def __getstate__(self) -> dict[str, Any]:
        away = ("_dataset", "_public", "_clock")
        return {name: value for name, value in vars(self).items() if name not in away} | {"_seconds": self.seconds}

    @property
    def seconds(self) -> float:
        """Time spent, before and after interruptions."""
        return self._seconds + time.perf_counter() - self._clock

    @property
    def finished(self) -> bool:
        return self.step == self.method.steps

    @property
    def epoch_is_over(self) -> bool:
        return self.finished or self.step % self.method.sampler.steps_per_epoch == 0

    def epoch(self, after_step: Callable[[], None]) -> None:
        """The steps that this epoch still has; the mean loss is the epoch's only copy from the device."""
        run, model, draws = self.run, self.model, self.generators["weight noise"]
        whole_epoch = run.weight_noise_draw == "epoch"
        if not self._losses:
            self._opening = {name: of_purpose.get_state() for name, of_purpose in self.generators.items()}
        else:  # its batches and its noise are drawn once more
            for name in ("sampling", "weight noise") if whole_epoch else ("sampling",):
                self.generators[name].set_state(self._opening[name])
        set_noise(model, run, draws)
        if not self._losses:
            self.method.prepare(model, self._public)
        model.train()
        with held_noise(model) if whole_epoch else nullcontext():
            for batch in self.method.batches(self.generators["sampling"], self.step):
                self._advance(batch)
                after_step()
        self.losses.append(_mean(self._losses))
        self._losses = []

    def _advance(self, batch: Tensor) -> None:
        inputs, labels = self._dataset.train_inputs, self._dataset.train_labels
        x = preprocessing_of(self.run, self._dataset).training(inputs[batch], self.generators["augmentation"])
        self._losses.append(self.method.backward(self.model, x, labels[batch], self.step))
        self.method.update(self.model, self.optimizer)
        self.schedule.step()
        self.step += 1

    def test(self, beat: Callable[[], None]) -> None:
        """The accuracy after an epoch; averaged over the run's draws of weight noise at the end alone."""
        run = self.run
        draws = run.test_draws if self.finished and run.weight_noise_std else min(run.test_draws, 1)
        how = {"draws": draws, "public": self._public, "beat": beat}
        with self.method.tested(self.model):
            noise = self.generators["test noise"]
            self.accuracies.append(evaluate(self.model, run, self._dataset, noise, **how))

    def record(self) -> store.Record:
        """What is stored of a finished run."""
        run, split = self.run, "validation" if self.run.validation_examples else "test"
        how = {
            "started": self.started,
            "seconds": self.seconds,
            "data": self._dataset.size,
            "data_sha256": self.data_sha256,
        }
        return store.validate(
            {
                "schema": store.SCHEMA,
                "id": run.id,
                "run": asdict(run),
                "metrics": {f"{split}_accuracy": self.accuracies[-1]},
                "privacy": self.privacy(),
                "history": {
                    "train_loss": self.losses,
                    f"{split}_accuracy": self.accuracies,
                    **self.method.history(),
                },
                "env": environment.describe(self.device, **how),
            }
        )

    def privacy(self) -> dict[str, Any]:
        """What the method says, with what has to be assumed of the data."""
        block = self.method.privacy()
        if block["proven"]["assumes"]:
            block["proven"]["assumes"] += self._dataset.assumes
        return block


def _mean(losses: list[Tensor | None]) -> float | None:
    """None where the loss is private, or no longer a number."""
    if losses[0] is None:
        return None
    mean = torch.stack(losses).mean().item()
    return mean if math.isfinite(mean) else None
