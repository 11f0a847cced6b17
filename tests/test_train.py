"""The trainer: it learns, repeats itself, and each field of a run does what it says."""

import time
from dataclasses import replace
from itertools import islice
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from conftest import make_run
from torch import nn

from lib import data, pca, registry
from lib.data import Dataset, as_input, text
from lib.generators import generator
from lib.grads.trials import trial
from lib.layers import NoisyLinear, NoisyLSTM, noisy_layers
from lib.methods.non_private import NonPrivate
from lib.preprocessing import STANDARDS, Preprocessing
from lib.train import OutOfTime, Training, _start, _training, evaluate, train
from lib.train._start import dataset_of, model_of
from lib.train.evaluation import set_noise


def without_env(record: dict) -> dict:
    return {block: value for block, value in record.items() if block != "env"}


def test_it_learns_and_records_what_it_did():
    record = train(make_run(epochs=3))
    assert record["metrics"]["test_accuracy"] > 80
    assert record["history"]["test_accuracy"][-1] == record["metrics"]["test_accuracy"]
    assert record["history"]["train_loss"] == sorted(record["history"]["train_loss"], reverse=True)
    assert record["privacy"]["steps"] == 3 * (1437 // 64)
    assert record["privacy"]["proven"]["epsilon"] is None
    assert record["env"]["data_sha256"] == data.load("digits").sha256


def test_the_last_norm_layer_changes_the_training():
    settings = {"dataset": "digits_rgb", "model": "vgg16_narrow", "norm": "batch", "augmentation": "crop_and_flip"}
    runs = [make_run(**settings, epochs=1, last_norm=last) for last in ("as_designed", "removed", "added")]
    assert len({train(run)["history"]["train_loss"][0] for run in runs}) == 3


def test_the_same_run_gives_the_same_record_and_another_seed_another():
    run = make_run(weight_noise_std=0.05, norm="batch", epochs=1)
    first = without_env(train(run))
    torch.manual_seed(99)  # the global generator has no part in it
    assert without_env(train(run)) == first
    assert train(replace(run, seed=1))["history"] != first["history"]


CROPS = {"dataset": "digits_rgb", "model": "convnet", "augmentation": "crop_and_flip", "optimizer": "sgd"}
PRIVATE = CROPS | {"clip_norm": 1.0, "noise_multiplier": 0.1, "sampler": "poisson", "momentum": 0.5}
MINI_SETS = PRIVATE | {"sampler": "without_replacement", "neighbouring_relation": "replace_one", "mini_set_size": 64}
LAYERWISE = {"public_examples": 100, "gradient_norm_examples": 50, "layers": "tensors"}
OF_METHODS = {
    "non_private": [CROPS, CROPS | {"optimizer": "adam"}, CROPS | {"weight_noise_std": 0.01, "norm": "batch"}],
    "noisy_sgd": [CROPS | {"gradient_noise_std": 0.01}],
    "dpsgd": [PRIVATE, PRIVATE | {"clipped": "layer"}, PRIVATE | {"optimizer": "adam", "momentum": 0.0}],
    "si_dpsgd": [PRIVATE, PRIVATE | {"momentum": 0.0}],
    "correlated_noise": [PRIVATE | {"noise_power": 0.5, "noise_bands": 3}],
    "batch_clipping": [MINI_SETS, MINI_SETS | {"mini_set_size": 1}],
    "adaptive_layerwise": [MINI_SETS | LAYERWISE, MINI_SETS | LAYERWISE | {"mini_set_size": 1}],
}


def test_every_method_has_its_steps_tested():
    assert set(OF_METHODS) == set(registry.names("methods"))


@pytest.mark.parametrize(
    "run", [make_run(method=method, **how) for method, several in OF_METHODS.items() for how in several], ids=str
)
def test_every_entry_of_a_gradient_moves_its_own_weight(run):
    """Also where the images have their channels last, and with them a convolution's gradients: fused steps are those of
    torch's slow ones."""
    ends = []
    for fused in (True, False):
        training = Training(run, torch.device("cpu"))
        training.attach()
        for group in training.optimizer.param_groups:
            group["fused"] = fused
        with training.epoch() as batches:
            for batch in islice(batches, 2):
                x, y = training.examples(batch)
                assert x.is_contiguous(memory_format=torch.channels_last)
                training.advance(training.method.backward(training.model, x, y, training.step))
        ends.append(dict(training.model.named_parameters()))
    torch.testing.assert_close(*ends)


NOISY = {"weight_noise_std": 0.1}


@pytest.mark.parametrize(
    ("beside", "changes"),
    [
        ({}, NOISY),
        (NOISY, {"weight_noise_on": "weights"}),
        (NOISY, {"weight_noise_draw": "epoch"}),
        ({}, {"norm": "batch"}),
        ({}, {"norm": "layer"}),
        ({}, {"optimizer": "sgd"}),
        ({}, {"lr_schedule": "linear"}),
        ({}, {"model": "lenet5"}),
        ({}, {"public_examples": 100}),
        ({}, {"input_scale": "standardised"}),
    ],
    ids=str,
)
def test_every_setting_changes_the_training(beside, changes):
    plain, changed = (train(make_run(epochs=1, **c))["history"]["train_loss"] for c in (beside, beside | changes))
    assert changed != plain


def test_the_last_test_alone_is_averaged_over_the_run_s_draws(monkeypatch):
    asked = []
    original = _training.evaluate
    monkeypatch.setattr(_training, "evaluate", lambda *a, **how: asked.append(how["draws"]) or original(*a, **how))
    train(make_run(epochs=3, test_draws=4, **NOISY))
    assert asked == [1, 1, 4]
    train(make_run(epochs=2, test_draws=0, **NOISY))
    assert asked[3:] == [0, 0]  # at µ after every epoch


def test_augmentation_is_for_training_alone(monkeypatch):
    """Crops are drawn for every batch; test images and public examples are seen as they are."""
    drawn = []
    original = Preprocessing._cropped
    monkeypatch.setattr(Preprocessing, "_cropped", lambda p, x, g: drawn.append(len(x)) or original(p, x, g))
    public = {"norm": "batch", "public_examples": 100, "test_statistics": "public"}
    train(make_run(model="lenet5_tanh", augmentation="crop", epochs=2, **public))
    assert drawn == [64] * (2 * (1337 // 64))


def test_what_is_drawn_for_one_purpose_shifts_no_others_draws(monkeypatch):
    """Batches are the same with augmentation and without, and so are losses whatever noise the tests draw."""
    drawn, original = [], Training.examples
    monkeypatch.setattr(Training, "examples", lambda self, batch: drawn.append(batch) or original(self, batch))
    for augmentation in ("none", "shift"):
        train(make_run(batch_size=512, augmentation=augmentation))
    assert len(drawn) == 8
    assert all(map(torch.equal, drawn[:4], drawn[4:]))
    noisy = make_run(batch_size=512, weight_noise_std=0.1)
    losses = [train(replace(noisy, test_draws=draws))["history"]["train_loss"] for draws in (0, 1)]
    assert losses[0] == losses[1]


def test_views_of_an_example_lie_together_and_are_shifted_each_by_itself():
    settings = {"method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 1.0, "noise_multiplier": 1.0}
    run = make_run(model="lenet5", augmentation="shift", augmult=4, **settings)
    training = Training(run, torch.device("cpu"))
    training.attach()
    x, y = training.examples(torch.arange(30))
    images, labels = training.data[0].train_inputs[:30], training.data[0].train_labels[:30]
    assert torch.equal(y, labels)
    shifts = F.pad(as_input(images), [1] * 4).unfold(2, 28, 1).unfold(3, 28, 1).flatten(1, 3)  # (30, 9, 28, 28)
    found = (x.view(30, 4, 1, 28, 28) == shifts.unsqueeze(1)).flatten(3).all(3)  # which shift each view is
    assert (found.sum(2) == 1).all()
    assert found.flatten(0, 1).any(0).all()
    assert len(found.long().argmax(2).unique(dim=0)) > 20  # fours of places, of 30 examples


@pytest.mark.parametrize("draw", ["step", "epoch"])
def test_noise_is_drawn_as_often_as_the_run_says(draw, monkeypatch):
    drawn = []
    original = NoisyLinear._draw
    monkeypatch.setattr(NoisyLinear, "_draw", lambda layer: drawn.append(layer) or original(layer))
    train(make_run(weight_noise_std=0.1, weight_noise_draw=draw, test_draws=0))
    layers, epochs, steps = 3, 2, 1437 // 64
    assert len(drawn) == layers * epochs * (steps if draw == "step" else 1)


@pytest.mark.parametrize(
    ("changes", "per_pass"),
    [
        ({}, 5),  # two maps each way, and the dense layer
        ({"weight_noise_on": "lstm"}, 4),
        ({"weight_noise_draw": "time_step"}, 3 + 2 * 20),
        ({"weight_noise_draw": "time_step", "weight_noise_on": "lstm"}, 2 + 2 * 20),
        ({"weight_noise_draw": "time_step_all"}, 1 + 4 * 20),
    ],
    ids=str,
)
def test_an_lstm_is_noised_where_and_when_the_run_says(changes, per_pass, monkeypatch):
    drawn = []
    original = NoisyLinear._draw
    monkeypatch.setattr(NoisyLinear, "_draw", lambda layer: drawn.append(layer) or original(layer))
    texts = {"dataset": "topics", "model": "bilstm", "epochs": 1, "batch_size": 300, "test_draws": 0}
    train(make_run(weight_noise_std=0.1, **texts, **changes))
    assert len(drawn) == per_pass * (1200 // 300)


def test_a_vocabulary_of_the_training_texts_is_what_the_run_is_tested_with_and_is_said():
    """The data set's own words are made from what is left to train on, so after the validation split."""
    texts = {"dataset": "topics", "model": "bilstm", "validation_examples": 1190, "batch_size": 5, "epochs": 1}
    private = {"method": "dpsgd", "optimizer": "sgd", "clip_norm": 1.0, "noise_multiplier": 1.0, "sampler": "poisson"}
    run = make_run(**texts, **private, vocabulary="private")
    (own, _), (public, _) = (dataset_of(of, torch.device("cpu")) for of in (run, replace(run, vocabulary="public")))
    words = set(own.train_inputs.unique().tolist())
    assert set(own.test_inputs.unique().tolist()) <= words | {text.PADDING, text.UNKNOWN}
    assert not set(public.test_inputs.unique().tolist()) <= words | {text.PADDING, text.UNKNOWN}
    assert "is not counted" in train(run)["privacy"]["proven"]["assumes"].rpartition(";")[2]


def test_a_run_on_public_examples_alone_is_given_no_private_one():
    run = make_run(dataset="digits", public_examples=100)
    on_public = replace(run, trained_on="public")
    (private, (inputs, labels)), (alone, _) = (dataset_of(of, torch.device("cpu")) for of in (run, on_public))
    assert torch.equal(as_input(alone.train_inputs), inputs)
    assert torch.equal(alone.train_labels, labels)
    assert torch.equal(alone.test_inputs, private.test_inputs)
    held_out, _ = dataset_of(replace(on_public, validation_examples=40), torch.device("cpu"))
    assert len(held_out.train_labels) == 60  # the other 40 are public, too


def test_a_run_on_public_examples_alone_has_an_epsilon_of_zero():
    run = make_run(dataset="digits", public_examples=100, trained_on="public")
    proven = train(run)["privacy"]["proven"]
    assert (proven["epsilon"], proven["assumes"]) == (0.0, "the public examples are public")
    assert train(replace(run, trained_on="private"))["privacy"]["proven"]["epsilon"] is None
    with pytest.raises(ValueError, match="trained_on: expected 'private' for method 'noisy_sgd'; got 'public'"):
        train(replace(run, method="noisy_sgd", gradient_noise_std=0.1))


@pytest.mark.parametrize(
    "changes",
    [{"weight_noise_on": "lstm"}, *({"weight_noise_draw": draw} for draw in ("time_step", "time_step_all"))],
    ids=str,
)
def test_an_lstms_noise_is_refused_where_there_is_none(changes):
    (name,) = changes
    with pytest.raises(ValueError, match=f"{name}: expected another for model 'lenet_300_100', which has no LSTM"):
        train(make_run(weight_noise_std=0.1, **changes))


def test_the_linear_schedule_ends_at_0(monkeypatch):
    rates = []
    original = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda o: (rates.append(o.param_groups[0]["lr"]), original(o)))
    train(make_run(epochs=2, lr_schedule="linear", lr=0.5))
    steps = 2 * (1437 // 64)
    assert rates == pytest.approx([0.5 * (1 - t / steps) for t in range(steps)])


def test_a_tuning_run_never_looks_at_the_test_set(monkeypatch):
    digits = data.load("digits")
    spoilt = replace(digits, test_inputs=torch.zeros_like(digits.test_inputs), test_labels=digits.test_labels.flip(0))
    run = make_run(epochs=1, validation_examples=297)
    honest = without_env(train(run, device="cpu"))  # where the spoilt ones are
    monkeypatch.setattr(data, "load", lambda *_, **__: spoilt)
    assert without_env(train(run, device="cpu")) == honest
    assert list(honest["metrics"]) == ["validation_accuracy"]


def one_example_network(bias: float) -> tuple[torch.nn.Module, Dataset]:
    """Logits (0, bias) for every image, and ten images of class 1."""
    model = torch.nn.Sequential(torch.nn.Flatten(), NoisyLinear(784, 2))
    torch.nn.init.zeros_(model[1].weight)
    model[1].bias.data = torch.tensor([0.0, bias])
    images, labels = torch.zeros(10, 1, 28, 28, dtype=torch.uint8), torch.ones(10, dtype=torch.int64)
    return model, Dataset(
        name="made up", sha256="", train_inputs=images, train_labels=labels, test_inputs=images, test_labels=labels
    )


def test_the_test_noise_is_drawn_and_averaged_and_0_draws_are_none():
    """P(0 + ξ_0 < bias + ξ_1) with ξ ~ N(0, 1) is Φ(bias/√2) = 0.7602 for bias = 1."""
    model, dataset = one_example_network(1.0)
    run, noise = make_run(weight_noise_std=1.0), generator(0, "test noise")
    assert evaluate(model, run, dataset, noise, draws=0) == 100.0
    assert evaluate(model, run, dataset, noise, draws=4000) == pytest.approx(76.02, abs=3)  # 4 standard errors: 2.7


@pytest.mark.parametrize(("statistics", "expected"), [("batch", True), ("running", False)])
def test_batch_norm_at_test_uses_the_statistics_the_run_names(statistics, expected):
    modes = []
    model, dataset = one_example_network(1.0)
    model.append(torch.nn.BatchNorm1d(2))
    model[-1].register_forward_hook(lambda layer, *_: modes.append(layer.training))
    evaluate(model, make_run(norm="batch", test_statistics=statistics), dataset, generator(0, "test noise"), draws=0)
    assert modes == [expected]


def test_a_diverged_run_is_a_result():
    record = train(make_run(optimizer="sgd", lr=1e30))
    assert record["history"]["train_loss"][-1] is None
    assert record["metrics"]["test_accuracy"] < 20


def test_the_deadline_ends_a_run():
    with pytest.raises(OutOfTime, match="1 of 44 steps done"):
        train(make_run(), deadline=time.time())
    assert train(make_run(epochs=1, batch_size=1437), deadline=time.time())["metrics"]  # finished is finished


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 1438}, "batch_size: expected 1 to 1437"),
        ({"validation_examples": 1437}, "validation_examples: expected 1 to 1436"),
        (
            {"model": "vgg16_narrow"},
            r"model: expected one that takes \(1, 28, 28\), what 'none' makes of 'digits'; got 'vgg16_narrow': Given",
        ),
        (
            {"public_dataset": "stripes_rgb", "public_examples": 4, "norm": "batch", "test_statistics": "public"},
            r"public_dataset: expected one with inputs of shape \(1, 28, 28\), .*; got 'stripes_rgb', \(3, 8, 8\)",
        ),
    ],
)
def test_settings_that_do_not_fit_the_data_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        train(make_run(**changes))


def test_a_model_of_other_outputs_than_classes_is_refused(monkeypatch):
    original = registry.load
    short = ModuleType("short")
    short.build = lambda **how: nn.Sequential(nn.Flatten(), NoisyLinear(784, 7))
    monkeypatch.setattr(registry, "load", lambda room, name: short if room == "models" else original(room, name))
    message = r"^model: expected logits \(1, 10\) of one example of 'digits'; got \(1, 7\) of 'lenet_300_100'$"
    with pytest.raises(ValueError, match=message):
        train(make_run())


def test_the_private_pca_is_set_before_training_and_belongs_to_its_model_alone(monkeypatch):
    settings = {"model": "pca_1000", "method": "dpsgd", "sampler": "poisson", "clip_norm": 1.0, "epsilon": 8.0}
    settings |= {"optimizer": "sgd", "lr": 0.5, "epochs": 1, "accountant": "rdp", "validation_examples": 300}
    asked, original = [], pca.principal_components

    def remembering(images, dimensions, **how):
        asked.append((len(images), dimensions, how["noise_multiplier"]))
        return original(images, dimensions, **how)

    monkeypatch.setattr(pca, "principal_components", remembering)
    train(make_run(**settings, pca_noise_multiplier=4.0))
    assert asked == [(1437 - 300, 60, 4.0)]  # the examples held out have no part in it
    for changes, message in (
        (settings, "expected a number for model 'pca_1000'; got None"),
        ({"pca_noise_multiplier": 1.0}, "expected None for model 'lenet_300_100'; got 1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            train(make_run(**changes))


def test_the_step_size_follows_its_schedule_and_momentum_is_the_runs(monkeypatch):
    groups = []
    original = torch.optim.SGD.step
    monkeypatch.setattr(torch.optim.SGD, "step", lambda o: (groups.append(dict(o.param_groups[0])), original(o)))
    train(make_run(optimizer="sgd", momentum=0.9, lr=0.5, lr_schedule="exponential", lr_decay=0.1))
    per_epoch = 1437 // 64
    assert [group["lr"] for group in groups] == pytest.approx([0.5] * per_epoch + [0.05] * per_epoch)
    assert {group["momentum"] for group in groups} == {0.9}


def test_models_that_are_built_alike_are_looked_at_once(monkeypatch):
    """What a look at the first run's model has shown is not looked for again, but for another norm's."""
    tried = []
    for place in ("uses", "mixing"):
        monkeypatch.setattr(f"lib.grads.{place}.trial", lambda *of, **how: tried.append(of) or trial(*of, **how))
    _start._found.cache_clear()

    def times(**changes) -> int:
        tried.clear()
        private = {"method": "dpsgd", "sampler": "poisson", "noise_multiplier": 1.0, "clip_norm": 1.0}
        train(make_run(**private, optimizer="sgd", epochs=1, batch_size=300, **changes))
        return len(tried)

    first = times()
    assert times(seed=1, lr=0.1) < first / 2
    assert times(norm="layer") >= first


def test_all_seeds_hold_out_the_same_examples_and_have_the_same_public_ones():
    split = {"validation_examples": 297, "public_examples": 100}
    (one, public), (other, others) = (dataset_of(make_run(**split, seed=seed), torch.device("cpu")) for seed in (0, 1))
    assert torch.equal(one.test_inputs, other.test_inputs)
    assert torch.equal(one.train_labels, other.train_labels)
    assert torch.equal(public[0], others[0])
    alone, _ = dataset_of(make_run(validation_examples=297), torch.device("cpu"))
    draws = generator(0, "validation split")  # as of every stored run
    assert torch.equal(alone.test_inputs, data.load("digits").hold_out(297, draws).test_inputs)


def test_seeds_have_first_weights_of_their_own():
    digits = data.load("digits")
    first, second = (model_of(make_run(seed=seed), digits, None)[1].weight for seed in (0, 1))
    assert not torch.equal(first, second)


def test_public_examples_are_scaled_as_the_runs_own():
    run = make_run(input_scale="standardised", public_examples=100)
    _, (images, _) = dataset_of(run, torch.device("cpu"))
    mean, std = STANDARDS["digits"][0][0], STANDARDS["digits"][1][0]
    _, (taken, _) = data.load("digits").without("public_examples", 100, generator(0, "public split"))
    torch.testing.assert_close(images, (as_input(taken) - mean) / std)


def test_a_test_is_of_the_test_set():
    """Of images that the model takes for class 1, all those trained on are labelled 0, those tested on 1."""
    model = nn.Sequential(nn.Flatten(), NoisyLinear(784, 2))
    model[1].weight.data.zero_()
    model[1].bias.data = torch.tensor([0.0, 1.0])
    images, ones = torch.zeros(10, 1, 28, 28, dtype=torch.uint8), torch.ones(10, dtype=torch.int64)
    how = {"train_inputs": images, "train_labels": 0 * ones, "test_inputs": images, "test_labels": ones}
    assert evaluate(model, make_run(), Dataset(name="made up", sha256="", **how), torch.Generator(), draws=0) == 100.0


def test_the_accuracy_is_that_of_the_last_epoch_and_not_of_the_best(monkeypatch):
    accuracies = iter([90.0, 95.0, 80.0])
    monkeypatch.setattr("lib.train._training.evaluate", lambda *_, **__: next(accuracies))
    record = train(make_run(epochs=3))
    assert record["metrics"] == {"test_accuracy": 80.0}
    assert record["history"]["test_accuracy"] == [90.0, 95.0, 80.0]


def test_batch_norms_test_statistics_are_those_of_a_thousand_examples():
    """As many test batches as there are thousands of examples, begun ones included."""
    model, sizes = nn.Sequential(nn.Flatten(), NoisyLinear(4, 2)), []
    model.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    images, labels = torch.zeros(2400, 1, 2, 2, dtype=torch.uint8), torch.ones(2400, dtype=torch.int64)
    how = {"train_inputs": images, "train_labels": labels, "test_inputs": images, "test_labels": labels}
    evaluate(model, make_run(), Dataset(name="made up", sha256="", **how), torch.Generator(), draws=0)
    assert sizes == [800] * 3


def test_the_noise_of_the_pca_is_the_seeds():
    how = {"model": "pca_1000", "method": "dpsgd", "sampler": "poisson", "clip_norm": 1.0, "noise_multiplier": 1.0}
    how |= {"optimizer": "sgd", "pca_noise_multiplier": 4.0}
    digits = data.load("digits")
    first, second, again = (model_of(make_run(**how, seed=seed), digits, None)[1].components for seed in (0, 1, 0))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("on", "biases"), [("weights", False), ("weights_and_biases", True), ("lstm", True)])
def test_biases_have_noise_where_the_run_says(on, biases):
    model = NoisyLSTM(3, 2)
    set_noise(model, make_run(weight_noise_std=0.1, weight_noise_on=on), generator(0, "noise"))
    assert {layer.noise_on_bias for layer in noisy_layers(model)} == {biases}


def test_public_statistics_are_not_the_running_averages():
    """Which are of private examples, and not released."""
    model, dataset = one_example_network(1.0)
    model.append(nn.BatchNorm1d(2))
    outputs, public = [], (torch.rand(8, 1, 28, 28), None)
    model.register_forward_hook(lambda _, __, y: outputs.append(y))
    run = make_run(norm="batch", test_statistics="public", public_examples=8)
    for mean in (0.0, 5.0):
        model[-1].running_mean.fill_(mean)
        evaluate(model, run, dataset, generator(0, "test noise"), draws=0, public=public)
    first, second = torch.cat(outputs).chunk(2)
    assert torch.equal(first, second)


def test_steps_are_made_in_training_mode(monkeypatch):
    modes, original = [], NonPrivate.backward

    def watched(self, model, *of):
        modes.append(model.training)
        return original(self, model, *of)

    monkeypatch.setattr(NonPrivate, "backward", watched)
    train(make_run(norm="batch", test_statistics="running", batch_size=500))
    assert modes == [True] * 4
