"""Training with public examples: whose statistics, what is proven, and where the public images come from."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from conftest import make_run

from lib import data, methods
from lib.data import as_input
from lib.methods._statistics import MIXED
from lib.run import Run
from lib.train import Training, train
from lib.train._start import dataset_of, model_of

DIGITS = 1437
PUBLIC = {"norm": "public_batch_without_affine", "public_examples": 4}
MIXED_BATCH = {"statistics": "mixed", "statistics_batch": 8}


def private(**changes) -> Run:
    settings = {"model": "lenet5", "method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 0.5}
    settings |= {"epsilon": 3.0, "epochs": 1, "batch_size": 128, "lr": 0.5}
    return make_run(**(settings | changes))


@pytest.mark.parametrize("gradient", ["off", "on"])
@pytest.mark.parametrize("statistics", ["public", "per_example"])
def test_sound_statistics_have_the_proven_epsilon_of_dpsgd(statistics, gradient):
    record = train(private(**PUBLIC, statistics=statistics, statistics_gradient=gradient))
    privacy = record["privacy"]
    assert privacy["proven"]["epsilon"] == privacy["claimed"]["pld"] == pytest.approx(3.0, abs=0.05)
    assert privacy["proven"]["epsilon"] <= 3.0
    assert (
        "; the public examples are public; an example that is removed leaves its place" in privacy["proven"]["assumes"]
    )
    assert privacy["sampling_prob"] == 128 / (DIGITS - 4)  # public examples are not trained on
    assert record["metrics"]["test_accuracy"] > 0


@pytest.mark.parametrize("method", ["dpsgd", "si_dpsgd"])
def test_shared_statistics_have_none_and_say_why(method):
    privacy = train(private(**PUBLIC, **MIXED_BATCH, method=method))["privacy"]
    assert privacy["claimed"]["pld"] <= 3.0
    assert privacy["proven"]["epsilon"] is None
    assert MIXED in privacy["proven"]["why"]


def test_noised_running_averages_have_the_epsilon_of_both_parts():
    noised = {"norm": "noised_batch_without_affine", "statistics_share": 0.2, "statistics_clip_norm": 3.0}
    privacy = train(private(**noised))["privacy"]
    assert privacy["proven"]["epsilon"] == privacy["claimed"]["pld"]
    assert privacy["noise_multiplier"] == train(private())["privacy"]["noise_multiplier"]


def test_gradients_through_the_statistics_and_their_batch_change_the_step():
    digits, totals = data.load("digits"), []
    x, y = as_input(digits.train_inputs[:32]), digits.train_labels[:32]
    for batch, gradient in [(8, "off"), (8, "on"), (16, "on"), (0, "off")]:
        run = private(**PUBLIC, statistics="mixed", statistics_batch=batch, statistics_gradient=gradient)
        model = model_of(run, digits, (as_input(digits.test_inputs[:4]), None)).train()
        totals.append(methods.build(run, DIGITS, model).summed(model, x, y, 0)["model.0.weight"])
    for one, other in combinations(totals, 2):
        assert not torch.allclose(one, other, rtol=1e-2)


def test_without_privacy_the_whole_batch_shares_statistics_with_the_public_examples():
    record = train(make_run(model="lenet5", epochs=2, lr=0.002, **PUBLIC, statistics="mixed", statistics_gradient="on"))
    assert record["metrics"]["test_accuracy"] > 60
    assert record["privacy"]["proven"]["epsilon"] is None


def test_public_images_of_another_data_set_are_its_first_test_images(monkeypatch):
    digits = data.load("digits")
    other = replace(digits, name="kmnist", test_inputs=digits.test_inputs.flip(0), test_labels=digits.test_labels)
    monkeypatch.setattr(data, "load", lambda name, **_: {"digits": digits, "kmnist": other}[name])
    run = private(**PUBLIC, public_dataset="kmnist")
    dataset, (images, _) = dataset_of(run, torch.device("cpu"))
    assert len(dataset.train_labels) == DIGITS  # nothing is taken from the private data
    torch.testing.assert_close(images, as_input(digits.test_inputs.flip(0)[:4]))
    assert torch.equal(model_of(run, dataset, (images, None)).public, images)
    assert len(dataset_of(replace(run, public_examples=360), torch.device("cpu"))[1][0]) == 360
    with pytest.raises(ValueError, match="public_examples: expected at most 360, the test images of kmnist; got 361"):
        dataset_of(replace(run, public_examples=361), torch.device("cpu"))


def test_no_test_image_is_normalised_with_other_test_images():
    """Else outputs would be no post-processing of the parameters, the image and the public ones."""
    public = {"norm": "public_batch_without_affine", "public_examples": 4, "statistics": "mixed"}
    training, joint = Training(make_run(model="lenet5", **public), torch.device("cpu")), []
    training.attach()
    training.model.register_forward_hook(lambda model, *_: joint.append(model.joint))
    training.test(lambda: None)
    assert joint == [False]
