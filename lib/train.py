"""One run → one record.

    >>> from lib.run import Run
    >>> record = train(Run(dataset="digits", model="lenet_300_100", lr=1e-3, epochs=1, batch_size=64))
    >>> record["metrics"]["test_accuracy"] > 50
    True

Nothing is stored here; see :mod:`lib.sweep`.
"""

import math
import time
from dataclasses import asdict
from datetime import UTC, datetime

import torch
from torch import Tensor, nn

from lib import data, environment, methods, models, store
from lib.data import Dataset
from lib.generators import generator, seed_for
from lib.layers import held_noise, set_weight_noise
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
    if run.validation_examples:
        # The split does not depend on the seed, so that all candidates of a search are compared on the same examples.
        dataset = dataset.hold_out(run.validation_examples, generator(0, "validation split"))
    split = "validation" if run.validation_examples else "test"

    method = methods.build(run)
    model = _initial_model(run, dataset.classes).to(device)
    optimizer = _optimizer(run, model)
    examples = len(dataset.train_labels)
    steps = run.epochs * (examples // run.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _factor(run.lr_schedule, steps))
    sampling = generator(run.seed, "sampling", device)
    test_noise = generator(run.seed, "test noise", device)
    training_noise = generator(run.seed, "weight noise", device)

    history: dict[str, list[float | None]] = {"train_loss": [], f"{split}_accuracy": []}
    for epoch in range(run.epochs):
        _set_noise(model, run, training_noise)
        model.train()
        if run.weight_noise_draw == "epoch":
            with held_noise(model):
                loss = _epoch(model, method, optimizer, schedule, dataset, sampling)
        else:
            loss = _epoch(model, method, optimizer, schedule, dataset, sampling)
        history["train_loss"].append(loss if math.isfinite(loss) else None)
        last = epoch == run.epochs - 1
        draws = run.test_draws if last else min(run.test_draws, 1)
        history[f"{split}_accuracy"].append(evaluate(model, run, dataset, test_noise, draws=draws))
        if deadline is not None and time.time() > deadline and not last:
            raise OutOfTime(f"{run.words}: {epoch + 1} of {run.epochs} epochs done at the deadline")

    return store.validate(
        {
            "schema": store.SCHEMA,
            "id": run.id,
            "run": asdict(run),
            "metrics": {f"{split}_accuracy": history[f"{split}_accuracy"][-1]},
            "privacy": method.privacy(examples, steps),
            "history": history,
            "env": environment.describe(
                device, started=started, seconds=time.perf_counter() - clock, data_sha256=dataset.sha256
            ),
        }
    )


@torch.no_grad()
def evaluate(model: nn.Module, run: Run, dataset: Dataset, noise: torch.Generator, *, draws: int) -> float:
    """Accuracy in percent on ``dataset``'s test set, averaged over ``draws`` passes with fresh weight noise.

    ``draws = 0`` is one pass without noise, at µ.
    """
    _set_noise(model, run, noise, silent=draws == 0)
    # In training mode batch norm uses the statistics of the batch it is given, in evaluation mode its running
    # averages; no other layer here has a mode.
    model.train(run.test_statistics == "batch")
    chunks = math.ceil(len(dataset.test_labels) / TEST_BATCH)
    correct = torch.zeros((), dtype=torch.int64, device=dataset.test_labels.device)
    for _ in range(max(draws, 1)):
        for images, labels in zip(dataset.test_images.chunk(chunks), dataset.test_labels.chunk(chunks), strict=True):
            correct += (model(data.as_input(images)).argmax(1) == labels).sum()
    return 100.0 * correct.item() / (len(dataset.test_labels) * max(draws, 1))


def _epoch(
    model: nn.Module,
    method: methods.Method,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    dataset: Dataset,
    sampling: torch.Generator,
) -> float:
    """Train for one epoch; the mean loss, which is the epoch's only copy from the device."""
    losses: list[Tensor] = []
    for batch in method.batches(len(dataset.train_labels), sampling):
        losses.append(method.backward(model, data.as_input(dataset.train_images[batch]), dataset.train_labels[batch]))
        optimizer.step()
        schedule.step()
    return torch.stack(losses).mean().item()


def _initial_model(run: Run, classes: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(run.seed, "init"))
        return models.build(run.model, norm=run.norm, classes=classes)


def _set_noise(model: nn.Module, run: Run, noise: torch.Generator, *, silent: bool = False) -> None:
    set_weight_noise(
        model,
        0.0 if silent else run.weight_noise_std,
        noise_on_bias=run.weight_noise_on == "weights_and_biases",
        generator=noise,
    )


def _optimizer(run: Run, model: nn.Module) -> torch.optim.Optimizer:
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[run.optimizer]
    return kind(model.parameters(), lr=run.lr, fused=True)


def _factor(lr_schedule: str, steps: int):
    """The factor on the step size at step t = 0, 1, …"""
    return {"constant": lambda t: 1.0, "linear": lambda t: 1.0 - t / max(steps, 1)}[lr_schedule]
