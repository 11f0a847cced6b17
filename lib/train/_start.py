"""What a run starts from: its data, its public examples, its untrained model, its optimiser."""

from collections.abc import Hashable
from dataclasses import replace
from functools import cache

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from lib import data, methods, models, pca, registry
from lib.data import Dataset
from lib.generators import generator, seed_for
from lib.grads import looks
from lib.layers import Projection, WithPublic
from lib.preprocessing import Preprocessing
from lib.run import Run
from lib.train import pretrained

# The fields that say how a model is put together, beside its file.
BUILT_BY = ("norm", "activation", "last_norm", "dataset", "pretrained_on", "public_examples", "statistics")
BUILT_BY += ("statistics_gradient", "statistics_batch")

Data = tuple[Dataset, methods.Public | None]  # what a run trains and tests on, and its public examples


def preprocessing_of(run: Run, dataset: Dataset) -> Preprocessing:
    if dataset.pretrained_on:  # crops and scale are those of the pretraining
        return Preprocessing(run.dataset, "none", "as_is")
    return Preprocessing(run.dataset, run.augmentation, run.input_scale, dataset.vectors)


def dataset_of(run: Run, device: torch.device) -> Data:
    """The data that the run sees, and its public examples, as a model takes them.

    Neither split depends on the seed: all candidates of a search are compared on the same examples, and what is public
    is public in every run.
    """
    dataset = data.load(run.dataset, device=device)
    if not len(dataset.train_labels):
        raise ValueError(f"dataset: expected one with training examples; got {run.dataset!r}, which has none here")
    if run.pretrained_on:
        dataset = pretrained.features_of(run, dataset)
    dataset, public = _without_public(run, dataset)
    if run.validation_examples:
        dataset = dataset.hold_out(run.validation_examples, generator(0, "validation split"))
    if run.vocabulary == "private":
        dataset = dataset.of_its_own_words()
    return dataset, public


def _without_public(run: Run, dataset: Dataset) -> Data:
    if not run.public_examples:
        return dataset, None
    if run.public_dataset:
        other = data.load(run.public_dataset, device=dataset.train_inputs.device)
        if len(other.test_labels) < run.public_examples:
            raise ValueError(
                f"public_examples: expected at most {len(other.test_labels)}, the test images of {other.name}; "
                f"got {run.public_examples}"
            )
        shape = dataset.train_inputs.shape[1:]
        if not run.pretrained_on and other.test_inputs.shape[1:] != shape:
            raise ValueError(
                f"public_dataset: expected one with inputs of shape {tuple(shape)}, as those of {run.dataset!r}; "
                f"got {other.name!r}, {tuple(other.test_inputs.shape[1:])}"
            )
        dataset = replace(dataset, public_sha256=other.sha256)
        images, labels = other.test_inputs[: run.public_examples], other.test_labels[: run.public_examples]
        if run.pretrained_on:
            images = pretrained.features(run, images)
    else:
        draws = generator(0, "public split")
        dataset, (images, labels) = dataset.without("public_examples", run.public_examples, draws)
        if run.trained_on == "public":
            dataset = replace(dataset, train_inputs=images, train_labels=labels)
    return dataset, (preprocessing_of(run, dataset).testing(images), labels)


def model_of(run: Run, dataset: Dataset, public: methods.Public | None) -> nn.Module:
    """The initial model, on the data's device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(run.seed, "init"))
        features = None if dataset.vectors is None else dataset.vectors.shape[1]
        model = models.build(
            run.model,
            norm=run.norm,
            activation=run.activation,
            classes=dataset.classes,
            features=features,
            last_norm=run.last_norm,
        )
    if run.pretrained_on:
        _, model = models.cut(model)
    if run.norm.startswith("public_batch"):
        how = {"gradient": run.statistics_gradient == "on", "shared_by": run.statistics_batch}
        model = WithPublic(model, public[0], statistics=run.statistics, **how)
    looks.share(_found(registry.load("models", run.model), *(getattr(run, name) for name in BUILT_BY)), model)
    model = model.to(dataset.train_inputs.device)
    _set_projection(model, run, dataset)
    return model


@cache
def _found(*built_by: Hashable) -> looks.Found:
    """What was found of the models of earlier runs that were built alike."""
    return {}


def optimizer_of(method: methods.Method, model: nn.Module) -> tuple[torch.optim.Optimizer, LambdaLR]:
    """What turns the method's gradients into updates, and its step sizes."""
    run = method.run
    momentum = {"momentum": run.momentum} if run.optimizer == "sgd" else {}
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[run.optimizer]
    optimizer = kind(model.parameters(), lr=run.lr, fused=True, **momentum)
    return optimizer, LambdaLR(optimizer, method.lr_factor)


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
            dataset.train_inputs,
            len(layer.components),
            noise_multiplier=run.pca_noise_multiplier,
            generator=generator(run.seed, "pca noise", dataset.train_inputs.device),
        )
