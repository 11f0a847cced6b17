"""What the trainer hands to a method: every step once, the sampler's batches, and the public examples alone.

The accounts rest on it: a batch that is drawn otherwise, or a step more, is another privacy loss.
"""

import pytest
import torch
from conftest import make_run

from lib import data, methods
from lib.generators import generator
from lib.methods.non_private import NonPrivate
from lib.preprocessing import Preprocessing
from lib.sampling import Sampler
from lib.train import OutOfTime, Training, _start, train

PRIVATE = {"method": "dpsgd", "optimizer": "sgd", "clip_norm": 1.0, "noise_multiplier": 1.0, "sampler": "poisson"}
RUNS = {
    "Poisson": PRIVATE,
    "of a fixed size": PRIVATE | {"sampler": "without_replacement", "neighbouring_relation": "replace_one"},
    "shuffled": PRIVATE | {"sampler": "shuffled", "accountant": "gdp"},
    "a budget that ends within an epoch": PRIVATE | {"epsilon": 1.7, "epochs": 9},
    "taking turns": PRIVATE | {"method": "correlated_noise", "noise_power": 0.5, "noise_bands": 3},
    "public examples": PRIVATE | {"public_examples": 100},
    "a validation split": PRIVATE | {"validation_examples": 300, "public_examples": 100},
    "without privacy": {},
}


@pytest.fixture
def seen(monkeypatch):
    """What the method of a run is called with: ``steps``, ``batches`` (x, y) and ``public``."""
    calls = {"steps": [], "batches": [], "public": []}
    build = methods.build

    def spied(run, examples, model):
        method = build(run, examples, model)
        kind = type(method)
        if "method" not in calls:
            prepare, backward = kind.prepare, kind.backward

            def with_public(self, model, public):
                calls["public"].append(public)
                prepare(self, model, public)

            def of_batch(self, model, x, y, step):
                calls["steps"].append(step)
                calls["batches"].append((x.clone(), y.clone()))
                return backward(self, model, x, y, step)

            monkeypatch.setattr(kind, "prepare", with_public)
            monkeypatch.setattr(kind, "backward", of_batch)
        calls["method"], calls["examples"] = method, examples
        return method

    monkeypatch.setattr(methods, "build", spied)
    return calls


def split(run):
    """Training examples (inputs, labels), and the public ones, as the run's splits have them."""
    dataset, public = data.load(run.dataset), None
    if run.public_examples:
        dataset, public = dataset.without("public_examples", run.public_examples, generator(0, "public split"))
    if run.validation_examples:
        dataset = dataset.hold_out(run.validation_examples, generator(0, "validation split"))
    return dataset, public


@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_every_step_has_the_samplers_next_batch(seen, changes):
    run = make_run(**({"epochs": 3, "batch_size": 100, "seed": 5} | changes))
    train(run)
    dataset, public = split(run)
    examples = len(dataset.train_labels)
    method, scale = seen["method"], Preprocessing(run.dataset, "none", run.input_scale)
    assert seen["examples"] == examples
    assert seen["steps"] == list(range(method.steps))
    sampler = Sampler(run.sampler, examples, run.batch_size, max(run.noise_bands, 1))
    draws, expected = generator(5, "sampling"), []
    while len(expected) < method.steps:
        expected += sampler.epoch(draws, len(expected))
    if "epsilon" in changes:
        assert method.steps % sampler.steps_per_epoch  # else this case tests nothing
    for (x, y), batch in zip(seen["batches"], expected, strict=False):
        assert torch.equal(y, dataset.train_labels[batch])
        assert torch.equal(x, scale.testing(dataset.train_inputs[batch]))
    epochs = -(-method.steps // sampler.steps_per_epoch)
    assert len(seen["public"]) == epochs
    for shown in seen["public"]:
        if public is None:
            assert shown is None
        else:
            assert torch.equal(shown[0], scale.testing(public[0]))
            assert torch.equal(shown[1], public[1])


def test_no_public_example_is_a_private_one_as_well():
    every = data.load("digits").train_inputs.flatten(1)
    dataset, public = split(make_run(public_examples=100, validation_examples=300))
    parts = (public[0], dataset.train_inputs, dataset.test_inputs)
    assert [len(part) for part in parts] == [100, 1037, 300]
    together = torch.cat([part.flatten(1) for part in parts])
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, every.tolist()))


def test_an_interrupted_run_sees_the_same_batches(seen, tmp_path):
    run, path = make_run(**PRIVATE, epochs=1, batch_size=200), tmp_path / "checkpoint"
    train(run)
    whole, seen["batches"], seen["steps"] = seen["batches"], [], []
    for _ in range(len(whole)):
        try:
            train(run, deadline=0.0, checkpoint=path)
        except OutOfTime:
            continue
    assert seen["steps"] == list(range(len(whole)))
    for (x, y), (of_x, of_y) in zip(seen["batches"], whole, strict=True):
        assert torch.equal(x, of_x)
        assert torch.equal(y, of_y)


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda self, model, x, y, step: None, "to leave gradients in the parameters' grad; got none"),
        (lambda self, *of: 0.7 if left(self, *of) is None else 0.0, "to return the mean loss, .* got 0.7"),
    ],
)
def test_a_method_that_leaves_nothing_to_follow_is_refused_in_its_first_step(backward, message, monkeypatch):
    """Else chance would be stored as its accuracy."""
    monkeypatch.setattr(NonPrivate, "backward", backward)
    with pytest.raises(ValueError, match=rf"^lib/methods/non_private\.py: expected backward {message}"):
        train(make_run())


def test_the_noise_on_components_is_drawn_apart_from_all_else(monkeypatch):
    drawn = []
    monkeypatch.setattr(_start, "generator", lambda seed, *what: drawn.append(what[0]) or generator(seed, *what))
    private = {"method": "dpsgd", "clip_norm": 1.0, "noise_multiplier": 1.0, "sampler": "poisson"}
    run = make_run(model="pca_1000", optimizer="sgd", pca_noise_multiplier=1.0, **private)
    Training(run, torch.device("cpu")).attach()
    assert drawn == ["pca noise"]
    assert "pca noise" not in Training.PURPOSES


def test_a_method_that_does_not_say_its_privacy_is_refused_before_its_first_step(seen, monkeypatch):
    """Else the whole training would be lost for it."""
    monkeypatch.setattr(NonPrivate, "privacy", lambda self: {"claimed": {}})
    with pytest.raises(ValueError, match=r"^lib/methods/non_private\.py: expected privacy to say 'neighbouring"):
        train(make_run())
    assert not seen["steps"]


def left(method, model, x, y, step):
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
