"""A run in progress."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from lib import environment, methods
from lib.generators import generator
from lib.layers import held_noise
from lib.record import SCHEMA, Record, check_privacy, metric, validate
from lib.run import Run
from lib.train._start import Data, dataset_of, model_of, optimizer_of, preprocessing_of
from lib.train.checkpoint import CheckpointError
from lib.train.evaluation import evaluate, set_noise


class Training:
    """A run in progress: everything that changes while it goes on, so that it can be pickled and gone on from.

    The data are not pickled; :meth:`attach` brings them.
    """

    PURPOSES = ("sampling", "augmentation", "weight noise", "test noise")  # of a generator each

    def __init__(self, run: Run, device: torch.device, precision: str = "float32") -> None:
        self.run, self.device, self.precision, self.step = run, device, precision, 0
        self.together, self._clock = 1, None  # how many runs share the time, and since when; None: it is not this run's
        self.started, self._seconds = datetime.now(UTC), 0.0
        self._losses: list[Tensor | None] = []  # of this epoch, on the device
        self._opening: dict[str, Tensor] = {}  # the generators' states when this epoch began
        self.losses: list[float | None] = []
        self.accuracies: list[float] = []
        self.data_sha256: str | None = None
        self.public_sha256 = ""

    def attach(self, data: Data | None = None) -> None:
        """Bring the data, and what a fresh run starts from.  ``CheckpointError`` if the data are not what they were.

        ``data``: the run's, where they are at hand.
        """
        with self.shared_by(1):
            self.data = data or dataset_of(self.run, self.device)
            self._dataset, self._public = self.data
            came = self._dataset.sha256, self._dataset.public_sha256
            if self.data_sha256 is None:
                self.data_sha256, self.public_sha256 = came
                self._start()
        began, names = (self.data_sha256, self.public_sha256), (self.run.dataset, self.run.public_dataset)
        for name, then, now in zip(names, began, came, strict=True):
            if now != then:
                expected = f"{name} with SHA-256 {then}, on which the run began"
                raise CheckpointError(f"{self.run.words}: expected {expected}; got {now}")

    def _start(self) -> None:
        run = self.run
        self.model = model_of(run, self._dataset, self._public)
        self.method = methods.build(run, len(self._dataset.train_labels), self.model)
        if not self.method.mixed_precision:
            self.precision = "float32"
        self.generators = {purpose: generator(run.seed, purpose, self.device) for purpose in self.PURPOSES}
        self.optimizer, self.schedule = optimizer_of(self.method, self.model)

    @torch.no_grad()
    def try_out(self) -> None:
        """What would be refused at the end, now: one example's pass, as in a test, and what the method says of privacy.

        ``ValueError`` where the model does not take the inputs, or has other outputs than classes: torch's own error
        names the shapes of one layer, and not what to change.
        """
        x = preprocessing_of(self.run, self._dataset).testing(self._dataset.train_inputs[:1])
        try:
            outputs = tuple(self.model.eval()(x).shape)
        except torch.OutOfMemoryError:
            raise  # for which the model is not to blame
        except (RuntimeError, ValueError) as error:
            shape, run = tuple(x.shape[1:]), self.run
            made = f"what {run.augmentation!r} makes of {run.dataset!r}"
            raise ValueError(f"model: expected one that takes {shape}, {made}; got {run.model!r}: {error}") from error
        if outputs != (1, self._dataset.classes):
            expected = f"logits (1, {self._dataset.classes}) of one example of {self.run.dataset!r}"
            raise ValueError(f"model: expected {expected}; got {outputs} of {self.run.model!r}")
        try:
            check_privacy(self.method.privacy())
        except ValueError as error:
            raise ValueError(f"lib/methods/{self.run.method}.py: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in ("data", "_dataset", "_public")}
        return kept | {"_seconds": self.seconds, "_clock": None}

    @contextmanager
    def shared_by(self, runs: int) -> Iterator[None]:
        """Inside, time is spent on this run, as one of so many ``runs``."""
        self.together, self._clock = runs, time.perf_counter()
        yield
        self._seconds, self._clock = self.seconds, None

    @property
    def seconds(self) -> float:
        """This run's part of the time, before and after interruptions."""
        passed = 0.0 if self._clock is None else time.perf_counter() - self._clock
        return self._seconds + passed / self.together

    @property
    def finished(self) -> bool:
        return self.step == self.method.steps

    @property
    def epoch_is_over(self) -> bool:
        return self.finished or self.step % self.method.sampler.steps_per_epoch == 0

    @contextmanager
    def epoch(self) -> Iterator[Iterator[Tensor]]:
        """Inside, the batches of the steps that this epoch still has; :meth:`advance` after each.

        The mean loss, and the sizes of many Poisson batches at once, are the epoch's only copies from the device; but a
        method that clips examples asks in every microbatch whether all their gradients are finite, and for more at the
        few steps that look at how a model uses them (:mod:`lib.grads.looks`).
        """
        run, model, draws = self.run, self.model, self.generators["weight noise"]
        whole_epoch = run.weight_noise_draw == "epoch"
        set_noise(model, run, draws)
        if not self._losses:
            self.method.prepare(model, self._public)  # which draws weight noise, too
            self._opening = {name: of_purpose.get_state() for name, of_purpose in self.generators.items()}
        else:  # its batches and its noise are drawn once more
            for name in ("sampling", "weight noise") if whole_epoch else ("sampling",):
                self.generators[name].set_state(self._opening[name])
        model.train()
        with held_noise(model) if whole_epoch else nullcontext():
            yield self.method.batches(self.generators["sampling"], self.step)
        self.losses.append(_mean(self._losses))
        self._losses = []

    def examples(self, batch: Tensor) -> methods.Batch:
        """Inputs and labels of the training examples with these indices, as the model takes them.

        Every example's views, of which there may be several, lie together.
        """
        inputs, labels = self._dataset.train_inputs, self._dataset.train_labels
        views = inputs[batch.repeat_interleave(self.run.augmult)]
        preprocessing = preprocessing_of(self.run, self._dataset)
        return preprocessing.training(views, self.generators["augmentation"]), labels[batch]

    def advance(self, loss: Tensor | None) -> None:
        """The second half of a step, after the method's backward pass, whose mean loss is ``loss``.

        ``ValueError`` if in the first step that left nothing to follow, or returned no tensor: an accuracy would be
        stored of a network that was never trained, or lost at the end of the epoch.
        """
        if not self.step:
            where = f"lib/methods/{self.run.method}.py: expected backward"
            if all(parameter.grad is None for parameter in self.model.parameters()):
                raise ValueError(f"{where} to leave gradients in the parameters' grad; got none")
            if not isinstance(loss, Tensor | None):
                raise ValueError(f"{where} to return the mean loss, a tensor, or None if private; got {loss!r}")
        self._losses.append(loss)
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

    def record(self) -> Record:
        """What is stored of a finished run."""
        run, judged = self.run, metric(self.run)
        how = {
            "started": self.started,
            "seconds": self.seconds,
            "together": self.together,
            "precision": self.precision,
            "data": self._dataset.size,
            "data_sha256": self.data_sha256,
            "public_sha256": self.public_sha256,
        }
        return validate(
            {
                "schema": SCHEMA,
                "id": run.id,
                "run": asdict(run),
                "metrics": {judged: self.accuracies[-1]},
                "privacy": self.privacy(),
                "history": {
                    "train_loss": self.losses,
                    judged: self.accuracies,
                    **self.method.history(),
                },
                "env": environment.describe(self.device, **how),
            }
        )

    def privacy(self) -> dict[str, Any]:
        """What the method says, with what has to be assumed of the data."""
        block = self.method.privacy()
        if block.get("proven", {}).get("assumes"):
            block["proven"]["assumes"] += self._dataset.assumes
        return block


def _mean(losses: list[Tensor | None]) -> float | None:
    """None where the loss is private, or no longer a number."""
    if losses[0] is None:
        return None
    mean = torch.stack(losses).mean().item()
    return mean if math.isfinite(mean) else None
