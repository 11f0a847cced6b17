"""Models: one file, one architecture, layers put together and nothing new.

A model file defines ``build(norm, activation, classes) -> nn.Module``, one of texts with ``features`` too; all its
trainable maps are noisy layers with σ = 0, so one architecture serves noise-free training, noisy weights and SI-DPSGD
alike.

    >>> sum(p.numel() for p in build("lenet5").parameters())
    61706
"""

import inspect
import math

from torch import nn

from lib import registry
from lib.layers import NoisedBatchNorm, PublicBatchNorm

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
NORMS = (
    *("none", "batch", "layer", "layer_without_affine", "instance", "group_without_affine"),
    *("public_batch", "public_batch_without_affine", "noised_batch_without_affine"),
)
WITHOUT_AFFINE = "_without_affine"


def build(
    name: str, *, norm: str = "none", activation: str = "relu", classes: int = 10, features: int | None = None
) -> nn.Module:
    """The model in ``lib/models/<name>.py``, freshly initialised by torch's default generator.

    ``features`` D: the dimension of the word vectors that a model of texts takes.  Raises ``ValueError`` for an unknown
    model, normalisation or activation, and where ``features`` do not fit the model.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}; got {activation!r}")
    model, settings = registry.load("models", name), {"norm": norm, "activation": ACTIVATIONS[activation]}
    if (takes := "features" in inspect.signature(model.build).parameters) != (features is not None):
        raise ValueError(f"model: expected one of {'texts' if features else 'images'} for these data; got {name!r}")
    return model.build(classes=classes, **settings, **({"features": features} if takes else {}))


def norm_layer(norm: str, *shape: int, last: bool = False) -> list[nn.Module]:
    """The layers that normalise pre-activations of ``shape`` (C, H, W) or (D,): a list of none or one.

    v2 eq. 1 to 3: batch norm takes its mean and variance over examples (and positions), layer norm over all
    neurons of the layer, [C, H, W] for a convolution; both with learnable γ = 1, β = 0 at the start.  v1's code has
    neither γ and β nor a normalisation of the ``last`` layer: those are the norms "without affine", which leave fewer
    parameters to carry noise.  ``group`` has two groups of channels.  ``instance`` is the batch norm of a batch of one:
    every channel of every image by itself, so it needs more than one position.
    """
    if norm not in NORMS:
        raise ValueError(f"norm: expected one of {', '.join(NORMS)}; got {norm!r}")
    kind, affine = norm.removesuffix(WITHOUT_AFFINE), not norm.endswith(WITHOUT_AFFINE)
    if kind == "none" or (last and not affine):
        return []
    if kind == "layer":
        return [nn.LayerNorm(list(shape), elementwise_affine=affine)]
    if kind == "batch":
        return [nn.BatchNorm2d(shape[0]) if len(shape) == 3 else nn.BatchNorm1d(shape[0])]
    if kind == "group":
        return [nn.GroupNorm(2, shape[0], affine=affine)]
    if kind == "public_batch":
        return [PublicBatchNorm(shape[0], affine=affine)]
    if kind == "noised_batch":
        return [NoisedBatchNorm(shape[0])]
    if math.prod(shape[1:]) == 1:
        raise ValueError(
            f"norm: expected another than 'instance', as a layer of shape {shape} has a single value per channel, "
            "which normalised by itself is 0"
        )
    return [nn.GroupNorm(shape[0], shape[0])]
