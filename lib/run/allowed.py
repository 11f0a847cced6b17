"""What the fields of a run may be; each check raises in one line that names the field."""

import math
import sys
from numbers import Integral, Real
from typing import Any

from lib import accounting, schedules

CHOICES = {
    "norm": (
        *("none", "batch", "layer", "layer_without_affine", "instance", "group_without_affine"),
        *("public_batch", "public_batch_without_affine", "noised_batch_without_affine"),
    ),
    "activation": ("relu", "tanh"),
    "optimizer": ("adam", "sgd"),
    "lr_schedule": schedules.NAMES,
    "weight_noise_on": ("weights_and_biases", "weights", "lstm"),
    "weight_noise_draw": ("step", "epoch", "time_step", "time_step_all"),
    "test_statistics": ("batch", "running", "public"),
    "sampler": accounting.SAMPLERS,
    "clipped": ("gradient", "layer"),
    "accountant": accounting.accountants(),
    "neighbouring_relation": accounting.NEIGHBOURING_RELATIONS,
    "test_at": ("theta", "mu"),
    "first_weights": ("exact", "noised"),
    "averaged_over": ("vectors", "examples"),
    "layers": ("tensors", "modules", "four_groups"),
    "adaptive_clipping": ("enhanced", "zhang", "multiplication_factors"),
    "fix_converged": ("never", "epoch", "hovering"),
    "augmentation": ("none", "shift", "crop", "crop_and_flip", "crop_24_and_flip"),
    "input_scale": ("unit", "standardised"),
    "statistics": ("public", "per_example", "mixed"),
    "statistics_gradient": ("off", "on"),
    "pretraining_norm": ("", "none", "batch", "layer", "layer_without_affine", "instance", "group_without_affine"),
    "vocabulary": ("public", "private"),
    "trained_on": ("private", "public"),
    "last_norm": ("as_designed", "removed", "added"),
}
PRECISIONS = ("float32", "bfloat16")  # no field: like the device, how precisely a run is computed is recorded
AT_LEAST = {"epochs": 1, "batch_size": 1, "mini_set_size": 1, "augmult": 1} | dict.fromkeys(
    (
        "seed",
        "test_draws",
        "validation_examples",
        "public_examples",
        "gradient_norm_examples",
        "statistics_batch",
        "statistics_share",
        "noise_power",
        "noise_bands",
        "lr_decay_epochs",
        "weight_noise_std",
        "gradient_noise_std",
        "momentum",
        "noise_multiplier",
        "pca_noise_multiplier",
        "pretraining_epochs",
    ),
    0,
)
MORE_THAN_0 = (
    *("lr", "lr_decay", "clip_norm", "clip_norm_decay", "noise_multiplier_decay", "epsilon", "delta"),
    "statistics_clip_norm",
)
LESS_THAN_1 = ("delta", "momentum", "statistics_share")


def checked(name: str, kinds: tuple[type, ...], value: Any) -> Any:
    """``value`` as one of ``kinds``; a whole number where a float is meant becomes one, so 7 and 7.0 are one run, as
    are 0.0 and −0.0, and numbers of NumPy are taken for Python's."""
    if isinstance(value, Real) and not isinstance(value, bool):
        value = int(value) if isinstance(value, Integral) else float(value) + 0.0
    if float in kinds and type(value) is int:
        value = float(value) if abs(value) <= sys.float_info.max else math.inf
    if type(value) not in kinds:
        expected = " or ".join(k.__name__ for k in kinds)
        raise TypeError(f"{name}: expected {expected}; got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number; got {value!r}")
    return value


def check_range(name: str, value: Any) -> None:
    """``ValueError`` unless ``value`` is one that the field may have; None may be where its type allows it."""
    if value not in CHOICES.get(name, (value,)):
        expected = f"one of {', '.join(CHOICES[name])}"
    elif value is None:
        return
    elif name in AT_LEAST and value < AT_LEAST[name]:
        expected = f"at least {AT_LEAST[name]}"
    elif name in MORE_THAN_0 and value <= 0:
        expected = "more than 0.0"
    elif name in LESS_THAN_1 and value >= 1:
        expected = "less than 1"
    elif name == "noise_power" and value > 1:
        expected = "at most 1.0"
    else:
        return
    raise ValueError(f"{name}: expected {expected}; got {value!r}")


def check_statistics(run: Any) -> None:
    """Settings of batch norm's statistics belong to the norms that have them, which need them."""
    public, noised = run.norm.startswith("public_batch"), run.norm.startswith("noised_batch")
    used = run.public_examples > 0 and (public or run.test_statistics == "public" or run.gradient_norm_examples > 0)
    expected = {  # field → what is expected of it here, and whether it is that
        "public_examples": ("at least 1", not public or run.public_examples > 0),
        "public_dataset": ("'', as no public_examples are used", used or not run.public_dataset),
        "statistics": ("'public'", public or run.statistics == "public"),
        "statistics_gradient": ("'off'", public or run.statistics_gradient == "off"),
        "statistics_batch": ("0, as statistics are not mixed", run.statistics == "mixed" or not run.statistics_batch),
        "statistics_clip_norm": ("one" if noised else "None", (run.statistics_clip_norm is not None) == noised),
        "statistics_share": ("more than 0" if noised else "0", (run.statistics_share > 0) == noised),
        "test_statistics": ("'batch'", run.norm == "batch" or run.test_statistics == "batch"),
    }
    for name, (what, met) in expected.items():
        if not met:
            raise ValueError(f"{name}: expected {what} for norm {run.norm!r}; got {getattr(run, name)!r}")
    if run.public_dataset and run.public_dataset == run.dataset:
        raise ValueError(
            f"public_dataset: expected other data than dataset {run.dataset!r}, whose test images they would be; "
            f"got {run.public_dataset!r}"
        )


def check_public_examples(run: Any) -> None:
    """There are as many as other settings ask for, of this data set where they are to be trained on."""
    if run.trained_on == "public" and run.public_dataset:
        raise ValueError(f"public_dataset: expected '' for trained_on 'public'; got {run.public_dataset!r}")
    needed = max(run.gradient_norm_examples, int("public" in (run.test_statistics, run.trained_on)))
    if run.public_examples < needed:
        raise ValueError(
            f"public_examples: expected at least {needed} for gradient_norm_examples {run.gradient_norm_examples}, "
            f"trained_on {run.trained_on!r} and test_statistics {run.test_statistics!r}; got {run.public_examples}"
        )


def check_decays(run: Any) -> None:
    """What is multiplied after every epoch is still a number in the last."""
    for name in ("clip_norm_decay", "noise_multiplier_decay"):
        logarithm = (run.epochs - 1) * math.log(getattr(run, name))
        if not math.log(sys.float_info.min) < logarithm < math.log(sys.float_info.max):
            raise ValueError(
                f"{name}: expected one whose power is a number above 0 after {run.epochs} epochs; "
                f"got {getattr(run, name)!r}"
            )


def check_unused(run: Any) -> None:
    """A setting that does nothing beside another is refused: a record would say that it had been tried."""
    decays = run.lr_schedule in ("exponential", "linear_then_constant")
    if run.lr_schedule == "linear_then_constant" and not run.lr_decay_epochs:
        raise ValueError("lr_decay_epochs: expected at least 1 for lr_schedule 'linear_then_constant'; got 0")
    for name, default, used, beside in (
        ("momentum", 0.0, run.optimizer == "sgd", "optimizer"),
        ("lr_decay", 1.0, decays, "lr_schedule"),
        ("lr_decay_epochs", 0, run.lr_schedule == "linear_then_constant", "lr_schedule"),
        # Its statistics and what they are of would see two draws of one network.
        ("weight_noise_std", 0.0, not run.norm.startswith("public_batch"), "norm"),
        ("weight_noise_std", 0.0, run.test_statistics != "public", "test_statistics"),
        ("weight_noise_on", "weights_and_biases", run.weight_noise_std > 0, "weight_noise_std"),
        ("weight_noise_draw", "step", run.weight_noise_std > 0, "weight_noise_std"),
        ("test_draws", 5, run.weight_noise_std > 0, "weight_noise_std"),
        ("last_norm", "as_designed", run.norm != "none", "norm"),
        ("averaged_over", "vectors", run.mini_set_size > 1, "mini_set_size"),
        ("clipped", "gradient", run.clip_norm is not None, "clip_norm"),
        ("clip_norm_decay", 1.0, run.clip_norm is not None, "clip_norm"),
        ("noise_multiplier_decay", 1.0, run.noise_multiplier != 0, "noise_multiplier"),
        ("fix_converged", "never", run.epochs > 1, "epochs"),  # they are fixed from the second epoch on
        ("augmult", 1, run.augmentation != "none", "augmentation"),
        # Pretrained features are fixed; joint and noised statistics would be of all views.
        ("augmult", 1, not run.pretrained_on, "pretrained_on"),
        ("augmult", 1, not run.norm.startswith(("public_batch", "noised_batch")), "norm"),
    ):
        if getattr(run, name) != default and not used:
            raise ValueError(
                f"{name}: expected {default!r} for {beside} {getattr(run, beside)!r}; got {getattr(run, name)!r}"
            )


def check_pretraining(run: Any) -> None:
    """Pretraining is on other data than the private ones, and takes at least an epoch."""
    if run.pretrained_on and run.pretrained_on == run.dataset:
        raise ValueError(
            f"pretrained_on: expected public data, other than dataset {run.dataset!r}; got {run.pretrained_on!r}"
        )
    if bool(run.pretrained_on) != bool(run.pretraining_epochs):
        expected = "at least 1" if run.pretrained_on else "0"
        raise ValueError(
            f"pretraining_epochs: expected {expected} for pretrained_on {run.pretrained_on!r}; "
            f"got {run.pretraining_epochs}"
        )
    if run.pretraining_norm and not run.pretrained_on:
        raise ValueError(f"pretraining_norm: expected '' for pretrained_on ''; got {run.pretraining_norm!r}")
