"""One run → one record.

    >>> from lib.run import Run
    >>> record = train(Run(dataset="digits", model="lenet_300_100", lr=1e-3, epochs=1, batch_size=64))
    >>> record["metrics"]["test_accuracy"] > 50
    True

Nothing is stored here; see :mod:`lib.sweep`.
"""

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

import torch
from torch import Tensor, nn

from lib import data, environment, methods, models, pca, schedules, store
from lib.data import Dataset
from lib.generators import generator, seed_for
from lib.layers import Projection, WithPublic, held_noise, held_statistics, set_weight_noise, statistics_of
from lib.preprocessing import Preprocessing
from lib.run import Run

TEST_BATCH = 1000  # also the number of examples that batch norm's test statistics are taken over


class OutOfTime(Exception):
    """The deadline passed before the run was finished; nothing of it is kept."""


def train(run: Run, *, device: torch.device | str | None = None, deadline: float | None = None) -> store.Record:
    """Train ``run`` and return its record (schema of :mod:`lib.store`).

    ``device`` defaults to the GPU where there is one.  ``deadline`` is a ``time.time()``; when an epoch ends after
    it and more are to come, ``OutOfTime`` is raised.
    """
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    started, clock = datetime.now(UTC), time.perf_counter()
    environment.reset_peak_memory(device)
    dataset = data.load(run.dataset, device=device)
    split = "validation" if run.validation_examples else "test"
    # Neither split depends on the seed: all candidates of a search are compared on the same examples, and what is
    # public is public in every run.
    dataset, public = _public(run, dataset)
    if run.validation_examples:
        dataset = dataset.hold_out(run.validation_examples, generator(0, "validation split"))

    model = _initial_model(run, dataset.classes, public).to(device)
    _set_projection(model, run, dataset)
    method = methods.build(run, len(dataset.train_labels), model)
    trainer = _Trainer(run, method, model, dataset)
    sampling = generator(run.seed, "sampling", device)
    test_noise = generator(run.seed, "test noise", device)
    training_noise = generator(run.seed, "weight noise", device)

    losses: list[float | None] = []
    accuracies: list[float] = []
    for batches in method.epochs(sampling):
        _set_noise(model, run, training_noise)
        method.prepare(model, public)
        model.train()
        with held_noise(model) if run.weight_noise_draw == "epoch" else nullcontext():
            losses.append(trainer.epoch(batches))
        last = trainer.step == method.steps
        draws = run.test_draws if last and run.weight_noise_std else min(run.test_draws, 1)
        with method.tested(model):
            accuracies.append(evaluate(model, run, dataset, test_noise, draws=draws, public=public))
        if deadline is not None and time.time() > deadline and not last:
            raise OutOfTime(f"{run.words}: {trainer.step} of {method.steps} steps done at the deadline")

    return store.validate(
        {
            "schema": store.SCHEMA,
            "id": run.id,
            "run": asdict(run),
            "metrics": {f"{split}_accuracy": accuracies[-1]},
            "privacy": method.privacy(),
            "history": {"train_loss": losses, f"{split}_accuracy": accuracies, **method.history()},
            "env": environment.describe(
                device, started=started, seconds=time.perf_counter() - clock, data_sha256=dataset.sha256
            ),
        }
    )


@torch.no_grad()
def evaluate(
    model: nn.Module,
    run: Run,
    dataset: Dataset,
    noise: torch.Generator,
    *,
    draws: int,
    public: methods.Public | None = None,
) -> float:
    """Accuracy in percent on ``dataset``'s test set, averaged over ``draws`` passes with fresh weight noise.

    ``draws = 0`` is one pass without noise, at µ.
    """
    _set_noise(model, run, noise, silent=draws == 0)
    # In training mode batch norm uses the statistics of the batch it is given, in evaluation mode its running
    # averages; WithPublic, in evaluation mode, those of public examples.  No other layer here has a mode.
    model.train(run.test_statistics == "batch" and not run.norm.startswith("public_batch"))
    preprocessing = _preprocessing(run)
    chunks = math.ceil(len(dataset.test_labels) / TEST_BATCH)
    correct = torch.zeros((), dtype=torch.int64, device=dataset.test_labels.device)
    with statistics_of(model, public[0]) if run.test_statistics == "public" else held_statistics(model):
        for _ in range(max(draws, 1)):
            for x, y in zip(dataset.test_images.chunk(chunks), dataset.test_labels.chunk(chunks), strict=True):
                correct += (model(preprocessing.testing(x)).argmax(1) == y).sum()
    return 100.0 * correct.item() / (len(dataset.test_labels) * max(draws, 1))


class _Trainer:
    """A model with its method, optimiser and step sizes, and the number of steps done."""

    def __init__(self, run: Run, method: methods.Method, model: nn.Module, dataset: Dataset) -> None:
        self.method, self.model, self.dataset, self.step = method, model, dataset, 0
        self.preprocessing = _preprocessing(run)
        self.augmentation = generator(run.seed, "augmentation", dataset.train_images.device)
        momentum = {"momentum": run.momentum} if run.optimizer == "sgd" else {}
        kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[run.optimizer]
        self.optimizer = kind(model.parameters(), lr=run.lr, fused=True, **momentum)
        factor = partial(
            schedules.factor,
            run.lr_schedule,
            steps=run.epochs * method.sampler.steps_per_epoch,
            steps_per_epoch=method.sampler.steps_per_epoch,
            decay=run.lr_decay,
            decay_epochs=run.lr_decay_epochs,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, factor)

    def epoch(self, batches: Iterator[Tensor]) -> float | None:
        """One step for each batch; the mean loss, the epoch's only copy from the device.

        None where the loss is private, or no longer a number.
        """
        losses, images, labels = [], self.dataset.train_images, self.dataset.train_labels
        for batch in batches:
            x = self.preprocessing.training(images[batch], self.augmentation)
            losses.append(self.method.backward(self.model, x, labels[batch], self.step))
            self.method.update(self.model, self.optimizer)
            self.schedule.step()
            self.step += 1
        if losses[0] is None:
            return None
        mean = torch.stack(losses).mean().item()
        return mean if math.isfinite(mean) else None


def _preprocessing(run: Run) -> Preprocessing:
    return Preprocessing(run.dataset, run.augmentation, run.input_scale)


def _set_projection(model: nn.Module, run: Run, dataset: Dataset) -> None:
    """Give the model's projection layer the private principal components of the training images."""
    layers = [layer for layer in model.modules() if isinstance(layer, Projection)]
    if bool(layers) != (run.pca_noise_multiplier is not None):
        expected = "a number" if layers else "None"
        raise ValueError(
            f"pca_noise_multiplier: expected {expected} for model {run.model!r}; got {run.pca_noise_multiplier!r}"
        )
    for layer in layers:
        layer.components = pca.principal_components(
            dataset.train_images,
            len(layer.components),
            noise_multiplier=run.pca_noise_multiplier,
            generator=generator(run.seed, "pca noise", dataset.train_images.device),
        )


def _public(run: Run, dataset: Dataset) -> tuple[Dataset, methods.Public | None]:
    """The data set without its public examples, and those, as a model takes them."""
    if not run.public_examples:
        return dataset, None
    if run.public_dataset:
        other = data.load(run.public_dataset, device=dataset.train_images.device)
        if len(other.test_labels) < run.public_examples:
            raise ValueError(
                f"public_examples: expected at most {len(other.test_labels)}, the test images of {other.name}; "
                f"got {run.public_examples}"
            )
        images, labels = other.test_images[: run.public_examples], other.test_labels[: run.public_examples]
    else:
        draws = generator(0, "public split")
        dataset, (images, labels) = dataset.without("public_examples", run.public_examples, draws)
    return dataset, (_preprocessing(run).testing(images), labels)


def _initial_model(run: Run, classes: int, public: methods.Public | None) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(run.seed, "init"))
        model = models.build(run.model, norm=run.norm, activation=run.activation, classes=classes)
    if not run.norm.startswith("public_batch"):
        return model
    return WithPublic(model, public[0], statistics=run.statistics, gradient=run.statistics_gradient == "on")


def _set_noise(model: nn.Module, run: Run, noise: torch.Generator, *, silent: bool = False) -> None:
    set_weight_noise(
        model,
        0.0 if silent else run.weight_noise_std,
        noise_on_bias=run.weight_noise_on == "weights_and_biases",
        generator=noise,
    )
