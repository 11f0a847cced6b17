"""Runs: the id, its stability, and what is refused."""

import math
from dataclasses import asdict, fields

import numpy as np
import pytest
from conftest import make_run

from lib import registry
from lib.run import Run
from lib.run.allowed import CHOICES

VIEWS = {"augmentation": "shift", "augmult": 4}
MODELS, METHODS = (", ".join(registry.names(room)) for room in ("models", "methods"))

# Stored results are found by these ids.  If one changes, every stored result is lost: do not update, find out why.
PINNED = {
    "c5c980d29bfd": {},
    "8a4514707b3a": {"seed": 3, "norm": "batch", "weight_noise_std": 2.0},
    "5daa62a57236": {
        **{"model": "lenet5", "lr_schedule": "linear", "validation_examples": 297},
        **{"weight_noise_std": 0.1, "test_draws": 0},
    },
}


@pytest.mark.parametrize(("run_id", "changes"), PINNED.items())
def test_ids_are_pinned(run_id, changes):
    assert make_run(**changes).id == run_id


def test_a_whole_number_and_its_float_are_one_run():
    assert make_run(weight_noise_std=2, lr=1).id == make_run(weight_noise_std=2.0, lr=1.0).id


def test_a_default_given_explicitly_leaves_the_id_alone():
    assert make_run(seed=0, norm="none", test_draws=5).id == make_run().id


def test_every_field_counts_in_the_id():
    changes = {
        "dataset": "mnist",
        "model": "lenet5",
        "lr": 0.02,
        "epochs": 3,
        "batch_size": 32,
        "norm": "batch",
        "method": "dpsgd",
        "optimizer": "sgd",
        "lr_schedule": "linear",
        "seed": 1,
        "weight_noise_std": 0.1,
        "validation_examples": 9,
        "sampler": "poisson",
        "gradient_noise_std": 0.1,
        "clip_norm": 1.0,
        "noise_multiplier": 0.0,
        "noise_multiplier_decay": 0.9,
        "delta": 1e-6,
        "accountant": "rdp",
        "neighbouring_relation": "replace_one",
        "pca_noise_multiplier": 1.0,
        "test_at": "mu",
        "activation": "tanh",
        "public_examples": 10,
        "mini_set_size": 2,
        "layers": "modules",
        "adaptive_clipping": "zhang",
        "fix_converged": "epoch",
        "augmentation": "crop",
        "input_scale": "standardised",
        "first_weights": "noised",
        "noise_power": 0.5,
        "noise_bands": 2,
        "vocabulary": "private",
    }
    ids = {make_run(**{name: value}).id for name, value in changes.items()}
    ids.add(make_run(epsilon=1.0, sampler="poisson").id)
    ids.add(make_run(public_examples=10, gradient_norm_examples=5).id)
    public = {"norm": "public_batch", "public_examples": 10}
    mixed = public | {"statistics": "mixed"}
    noised = {"norm": "noised_batch_without_affine", "statistics_clip_norm": 1.0, "statistics_share": 0.5}
    of_statistics = [public, public | {"public_dataset": "kmnist"}, public | {"statistics_gradient": "on"}]
    of_statistics += [mixed, mixed | {"statistics_batch": 4}]
    of_statistics += [noised, noised | {"statistics_share": 0.2}, noised | {"statistics_clip_norm": 2.0}]
    pretrained = {"pretrained_on": "cifar100", "pretraining_epochs": 1}
    of_statistics += [pretrained, pretrained | {"pretraining_epochs": 2}, pretrained | {"pretrained_on": "mnist"}]
    of_statistics += [pretrained | {"pretraining_norm": "layer"}]
    falling = {"lr_schedule": "exponential"}
    then_constant = {"lr_schedule": "linear_then_constant", "lr_decay_epochs": 1}
    of_others = [falling, falling | {"lr_decay": 0.9}, then_constant, then_constant | {"lr_decay_epochs": 2}]
    of_others += [{"optimizer": "sgd", "momentum": 0.9}, {"norm": "batch", "test_statistics": "running"}]
    of_others += [{"mini_set_size": 2, "averaged_over": "examples"}, {"public_examples": 10, "trained_on": "public"}]
    of_others += [{"augmentation": "shift"}, VIEWS, {"norm": "layer", "last_norm": "added"}]
    noisy = {"weight_noise_on": "weights", "weight_noise_draw": "epoch", "test_draws": 0}
    of_others += [{"weight_noise_std": 0.1, name: value} for name, value in noisy.items()]
    of_others += [{"clip_norm": 1.0} | further for further in ({"clip_norm_decay": 0.9}, {"clipped": "layer"})]
    of_others += [{"clip_norm": 1.0, "clip_norm_decay": 1e-200}]  # the smallest number is 1e-308
    with_others = {"public_examples": 10, "public_dataset": "kmnist"}
    of_others += [with_others | {"norm": "batch", "test_statistics": "public"}]
    of_others += [with_others | {"gradient_norm_examples": 5}]
    ids |= {make_run(**settings).id for settings in of_statistics + of_others}
    assert len(ids | {make_run().id}) == len(changes) + 3 + len(of_statistics) + len(of_others)
    tried = set(changes).union(*of_statistics, *of_others, {"epsilon", "gradient_norm_examples"})
    assert tried == {field.name for field in fields(Run)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_noise_std": -0.1}, "weight_noise_std: expected at least 0; got -0.1"),
        ({"weight_noise_std": math.inf}, "weight_noise_std: expected a finite number; got inf"),
        ({"epsilon": 0.0}, "epsilon: expected more than 0.0; got 0.0"),
        ({"epsilon": -1}, "epsilon: expected more than 0.0; got -1.0"),
        ({"epsilon": math.inf}, "epsilon: expected a finite number; got inf"),
        ({"lr": 10**400}, "lr: expected a finite number; got inf"),
        ({"delta": 0.0}, "delta: expected more than 0.0; got 0.0"),
        ({"delta": 1.0}, "delta: expected less than 1; got 1.0"),
        ({"noise_multiplier": -1.0}, "noise_multiplier: expected at least 0; got -1.0"),
        ({"clip_norm": 0.0}, "clip_norm: expected more than 0.0; got 0.0"),
        ({"momentum": 1.0}, "momentum: expected less than 1; got 1.0"),
        (
            {"method": "dpsgd", "sampler": "shuffled", "epsilon": 1.0},
            "accountant: expected one of gdp for sampler 'shuffled' under 'add_or_remove_one'; got 'pld', "
            "which covers poisson and with_replacement and balls_and_bins there",
        ),
        (
            {"weight_noise_std": 0.1, "norm": "public_batch", "public_examples": 8},
            "weight_noise_std: expected 0.0 for norm 'public_batch'; got 0.1",
        ),
        (
            {"weight_noise_std": 0.1, "norm": "batch", "public_examples": 8, "test_statistics": "public"},
            "weight_noise_std: expected 0.0 for test_statistics 'public'; got 0.1",
        ),
        (
            {"weight_noise_on": "weights"},
            "weight_noise_on: expected 'weights_and_biases' for weight_noise_std 0.0; got 'weights'",
        ),
        ({"weight_noise_draw": "epoch"}, "weight_noise_draw: expected 'step' for weight_noise_std 0.0; got 'epoch'"),
        ({"test_draws": 0}, "test_draws: expected 5 for weight_noise_std 0.0; got 0"),
        ({"last_norm": "added"}, "last_norm: expected 'as_designed' for norm 'none'; got 'added'"),
        (
            {"public_examples": 4, "public_dataset": "kmnist"},
            "public_dataset: expected '', as no public_examples are used for norm 'none'; got 'kmnist'",
        ),
        ({"lr": 0}, "lr: expected more than 0.0; got 0.0"),
        ({"lr": "0.1"}, "lr: expected float; got '0.1'"),
        ({"epochs": 0}, "epochs: expected at least 1; got 0"),
        ({"epochs": 1.5}, "epochs: expected int; got 1.5"),
        ({"seed": True}, "seed: expected int; got True"),
        (
            {"norm": "group"},
            f"norm: expected one of {', '.join(CHOICES['norm'])}; got 'group'",
        ),
        ({"model": "lenet"}, f"unknown model 'lenet'; expected one of {MODELS}"),
        (
            {"pretrained_on": "digits", "pretraining_epochs": 1},
            "pretrained_on: expected public data, other than dataset 'digits'; got 'digits'",
        ),
        (
            {"pretrained_on": "cifar100"},
            "pretraining_epochs: expected at least 1 for pretrained_on 'cifar100'; got 0",
        ),
        ({"pretraining_epochs": 3}, "pretraining_epochs: expected 0 for pretrained_on ''; got 3"),
        ({"pretraining_norm": "batch"}, "pretraining_norm: expected '' for pretrained_on ''; got 'batch'"),
        (
            {"norm": "public_batch", "public_examples": 4, "public_dataset": "digits"},
            "public_dataset: expected other data than dataset 'digits', whose test images they would be; got 'digits'",
        ),
        ({"momentum": 0.9}, "momentum: expected 0.0 for optimizer 'adam'; got 0.9"),
        ({"lr_decay": 0.9}, "lr_decay: expected 1.0 for lr_schedule 'constant'; got 0.9"),
        ({"clip_norm_decay": 0.9}, "clip_norm_decay: expected 1.0 for clip_norm None; got 0.9"),
        ({"clipped": "layer"}, "clipped: expected 'gradient' for clip_norm None; got 'layer'"),
        (
            {"gradient_norm_examples": 5},
            "public_examples: expected at least 5 for gradient_norm_examples 5, trained_on 'private' and "
            "test_statistics 'batch'; got 0",
        ),
        (
            {"trained_on": "public"},
            "public_examples: expected at least 1 for gradient_norm_examples 0, trained_on 'public' and "
            "test_statistics 'batch'; got 0",
        ),
        (
            {"trained_on": "public", "norm": "public_batch", "public_examples": 8, "public_dataset": "kmnist"},
            "public_dataset: expected '' for trained_on 'public'; got 'kmnist'",
        ),
        (
            {"lr_schedule": "linear_then_constant", "lr_decay": 0.5},
            "lr_decay_epochs: expected at least 1 for lr_schedule 'linear_then_constant'; got 0",
        ),
        (
            {"lr_schedule": "exponential", "lr_decay_epochs": 1},
            "lr_decay_epochs: expected 0 for lr_schedule 'exponential'; got 1",
        ),
        ({"test_statistics": "running"}, "test_statistics: expected 'batch' for norm 'none'; got 'running'"),
        ({"noise_power": 1.5}, "noise_power: expected at most 1.0; got 1.5"),
        ({"averaged_over": "examples"}, "averaged_over: expected 'vectors' for mini_set_size 1; got 'examples'"),
        (
            {"augmult": 4},
            "augmult: expected 1 for augmentation 'none'; got 4",
        ),
        (
            VIEWS | {"pretrained_on": "cifar100", "pretraining_epochs": 1},
            "augmult: expected 1 for pretrained_on 'cifar100'; got 4",
        ),
        (
            VIEWS | {"norm": "public_batch", "public_examples": 4},
            "augmult: expected 1 for norm 'public_batch'; got 4",
        ),
        ({"augmult": 0}, "augmult: expected at least 1; got 0"),
        *(
            (
                {"method": "dpsgd", "clip_norm": 1.0, "epochs": 4, name: 1e200},
                f"{name}: expected one whose power is a number above 0 after 4 epochs; got 1e+200",
            )
            for name in ("clip_norm_decay", "noise_multiplier_decay")
        ),
        (
            {"method": "dpsgd", "clip_norm": 1.0, "epochs": 4, "clip_norm_decay": 1e-200},
            "clip_norm_decay: expected one whose power is a number above 0 after 4 epochs; got 1e-200",
        ),
        ({"method": "dpsdg"}, f"unknown method 'dpsdg'; expected one of {METHODS}"),
        *(
            ({name: value}, f"{name}: expected at least 0; got {value}")
            for name, value in (
                *((name, -1) for name in ("seed", "test_draws", "validation_examples", "public_examples")),
                *((name, -1) for name in ("gradient_norm_examples", "statistics_batch", "noise_bands")),
                *((name, -1) for name in ("lr_decay_epochs", "pretraining_epochs")),
                *((name, -0.1) for name in ("statistics_share", "noise_power", "gradient_noise_std", "momentum")),
                ("pca_noise_multiplier", -0.1),
            )
        ),
        *(({name: 0}, f"{name}: expected at least 1; got 0") for name in ("batch_size", "mini_set_size")),
        *(
            ({name: 0.0}, f"{name}: expected more than 0.0; got 0.0")
            for name in ("lr_decay", "clip_norm_decay", "noise_multiplier_decay", "statistics_clip_norm")
        ),
        ({"statistics_share": 1.0}, "statistics_share: expected less than 1; got 1.0"),
        ({"lr": math.nan}, "lr: expected a finite number; got nan"),
        (
            {"lr_schedule": "one_cycle", "lr_decay": 0.9},
            "lr_decay: expected 1.0 for lr_schedule 'one_cycle'; got 0.9",
        ),
        (
            {"noise_multiplier": 0.0, "noise_multiplier_decay": 0.9},
            "noise_multiplier_decay: expected 1.0 for noise_multiplier 0.0; got 0.9",
        ),
        ({"epochs": 1, "fix_converged": "epoch"}, "fix_converged: expected 'never' for epochs 1; got 'epoch'"),
        (
            {"gradient_norm_examples": 4, "public_dataset": "kmnist"},
            "public_dataset: expected '', as no public_examples are used for norm 'none'; got 'kmnist'",
        ),
        ({"statistics_gradient": "on"}, "statistics_gradient: expected 'off' for norm 'none'; got 'on'"),
        (
            {"norm": "public_batch", "public_examples": 4, "statistics_batch": 2},
            "statistics_batch: expected 0, as statistics are not mixed for norm 'public_batch'; got 2",
        ),
        ({"statistics_share": 0.5}, "statistics_share: expected 0 for norm 'none'; got 0.5"),
        (
            {"norm": "batch", "test_statistics": "public"},
            "public_examples: expected at least 1 for gradient_norm_examples 0, trained_on 'private' and "
            "test_statistics 'public'; got 0",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(changes, message):
    with pytest.raises((TypeError, ValueError)) as refused:
        make_run(**changes)
    assert str(refused.value) == message


def test_numbers_of_numpy_and_a_zero_with_a_sign_are_the_same_run():
    of_numpy = make_run(lr=np.float64(0.25), seed=np.int64(3), momentum=-0.0, optimizer="sgd")
    of_python = make_run(lr=0.25, seed=3, optimizer="sgd")
    assert (of_numpy, of_numpy.id) == (of_python, of_python.id)
    assert type(of_numpy.lr) is float
    assert type(of_numpy.seed) is int
    with pytest.raises(TypeError, match=r"^seed: expected int; got True$"):
        make_run(seed=True)


def test_nothing_is_another_run_for_the_sign_of_its_zero():
    private = {"method": "dpsgd", "clip_norm": 1.0}
    assert make_run(**private, noise_multiplier=-0.0).id == make_run(**private, noise_multiplier=0.0).id


def test_a_run_names_all_data_that_it_needs():
    public = {"norm": "public_batch", "public_examples": 8, "public_dataset": "kmnist"}
    assert make_run(dataset="mnist", **public).datasets == {"mnist", "kmnist"}
    assert make_run(dataset="mnist", pretrained_on="cifar100", pretraining_epochs=1).datasets >= {"mnist", "cifar100"}


def test_a_pretraining_is_a_run_of_its_own_that_seeds_and_private_settings_share():
    private = {"method": "dpsgd", "clip_norm": 1.0, "epsilon": 2.0, "sampler": "poisson", "optimizer": "sgd", "lr": 2.0}
    taken = {"model": "tf_tutorial", "augmentation": "crop_24_and_flip", "input_scale": "standardised"}
    public = {"norm": "public_batch_without_affine", "public_examples": 8, "pretrained_on": "cifar100"}
    run = make_run(**private, **taken, **public, pretraining_epochs=5)
    pretraining = run.pretraining
    assert pretraining == Run(
        **taken,
        dataset="cifar100",
        norm="batch",
        test_statistics="running",
        lr=0.001,
        lr_schedule="linear",
        batch_size=128,
        epochs=5,
    )
    assert pretraining.pretraining is None
    assert make_run(**taken, **public, pretraining_epochs=5, seed=3).pretraining == pretraining
    without_last = make_run(
        model="vgg16", norm="layer", last_norm="removed", pretrained_on="mnist", pretraining_epochs=1
    )
    assert without_last.pretraining.last_norm == "removed"
    layer = make_run(pretrained_on="cifar100", pretraining_epochs=5, norm="layer").pretraining
    assert (layer.norm, layer.test_statistics) == ("layer", "batch")
    assert make_run(**taken, pretrained_on="cifar100", pretraining_norm="batch", pretraining_epochs=5).pretraining == (
        pretraining
    )


def test_a_run_survives_its_dictionary():
    run = make_run(norm="layer", seed=4)
    assert Run(**asdict(run)) == run
    with pytest.raises(ValueError, match="unknown run field 'sigma'"):
        Run(**asdict(run), sigma=1.0)


def test_noised_statistics_have_one_view_of_an_example():
    with pytest.raises(ValueError, match=r"^augmult: expected 1 for norm 'noised_batch_without_affine'; got 4$"):
        make_run(
            augmentation="shift",
            augmult=4,
            norm="noised_batch_without_affine",
            statistics_share=0.2,
            statistics_clip_norm=1.0,
        )
