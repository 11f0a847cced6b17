"""Models: one file, one architecture, layers put together and nothing new.

A model file defines ``build(norm, activation, classes) -> nn.Module``, one of texts with ``features`` too, one whose
last norm layer the papers vary with ``last_norm``; all its trainable maps are noisy layers with σ = 0, so one
architecture serves noise-free training, noisy weights and SI-DPSGD alike, and with norm "none" there is nothing else to
train.

    >>> sum(p.numel() for p in build("lenet5").parameters())
    61706
"""

import inspect
import math
from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from lib import layers, registry
from lib.layers import NoisedBatchNorm, PublicBatchNorm, noisy_layers
from lib.run.allowed import CHOICES

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
NORMS, LAST_NORMS = CHOICES["norm"], CHOICES["last_norm"]
WITHOUT_AFFINE = "_without_affine"


def build(
    name: str,
    *,
    norm: str = "none",
    activation: str = "relu",
    classes: int = 10,
    features: int | None = None,
    last_norm: str = "as_designed",
) -> nn.Module:
    """The model in ``lib/models/<name>.py``, freshly initialised by torch's default generator.

    ``features`` D: the dimension of the word vectors that a model of texts takes.  ``last_norm``: v2 Table 3's networks
    without their last norm layer ("removed", the papers' …-mod) and with one more, after the last trainable layer
    ("added", the papers' BN-…).  Raises ``ValueError`` for an unknown model, normalisation, activation or last norm,
    where ``features`` or ``last_norm`` do not fit the model, and for a model file of which a record would be false: one
    that ignores the norm, or whose maps carry no noise.
    """
    for given, value, allowed in (("activation", activation, tuple(ACTIVATIONS)), ("last_norm", last_norm, LAST_NORMS)):
        if value not in allowed:
            raise ValueError(f"{given}: expected one of {', '.join(allowed)}; got {value!r}")
    settings = {"norm": norm, "activation": ACTIVATIONS[activation], "classes": classes}
    make, takes = _made_by(name)
    if ("features" in takes) != (features is not None):
        texts = features is not None
        able = [other for other in registry.names("models") if ("features" in _made_by(other)[1]) == texts]
        raise ValueError(f"model: expected one of {', '.join(able)} for these data; got {name!r}")
    if features is not None:
        settings["features"] = features
    if last_norm != LAST_NORMS[0]:
        if "last_norm" not in takes:
            raise ValueError(f"last_norm: expected {LAST_NORMS[0]!r} for model {name!r}; got {last_norm!r}")
        settings["last_norm"] = last_norm
    expected = f"lib/models/{name}.py: expected build({', '.join(settings)}) that returns an nn.Module"
    registry.check_call(expected, make, **settings)
    model = make(**settings)
    if not isinstance(model, nn.Module):
        raise ValueError(f"{expected}; got {model!r}")
    with torch.random.fork_rng(devices=[]):  # the draws of the first weights stay what they are
        _check(name, norm, model, plain=model if norm == "none" else make(**settings | {"norm": "none"}))
    return model


def _made_by(name: str) -> tuple[Any, Collection[str]]:
    """``build`` of the model's file, and what it takes: ``features`` if it is of texts."""
    make = getattr(registry.load("models", name), "build", None)
    return make, inspect.signature(make).parameters if callable(make) else ()


def _check(name: str, norm: str, model: nn.Module, plain: nn.Module) -> None:
    """``ValueError`` unless all that ``plain``, without norm, trains is noisy, and ``model`` has other layers."""
    noisy = set(noisy_layers(plain))
    others = [
        f"{type(layer).__name__} {place!r}"
        for place, layer in plain.named_modules()
        if layer not in noisy and any(parameter.requires_grad for parameter in layer.parameters(recurse=False))
    ]
    if others:
        known = ", ".join(kind for kind in vars(layers) if kind.startswith("Noisy"))
        raise ValueError(
            f"lib/models/{name}.py: expected noisy layers of lib.layers ({known}) for all that is trained with norm "
            f"'none'; got {', '.join(others)}"
        )
    if norm != "none" and [*map(type, model.modules())] == [*map(type, plain.modules())]:
        raise ValueError(f"lib/models/{name}.py: expected norm layers with norm {norm!r}; got those of norm 'none'")


def cut(model: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
    """A model of images in two: the convolutions, up to where the map becomes a vector (B, D), and the linear layers.

    Raises ``ValueError`` for a model that is not such a sequence.
    """
    layers = list(model) if isinstance(model, nn.Sequential) else []
    place = next((i + 1 for i, layer in enumerate(layers) if isinstance(layer, nn.Flatten)), 0)
    if not any(isinstance(layer, nn.Conv2d) for part in layers[:place] for layer in part.modules()):
        raise ValueError(
            "model: expected a sequence of convolutions, nn.Flatten and linear layers; got one without convolutions"
        )
    return model[:place], model[place:]


def norm_layer(norm: str, *shape: int, last: bool = False, pool: nn.MaxPool2d | None = None) -> list[nn.Module]:
    """The layers that normalise pre-activations of ``shape`` (C, H, W) or (D,), and ``pool`` them after: some or none.

    v2 eq. 1 to 3: batch norm takes its mean and variance over examples (and positions), layer norm over all
    neurons of the layer, [C, H, W] for a convolution; both with learnable γ = 1, β = 0 at the start.  v1's code has
    neither γ and β nor a normalisation of the ``last`` layer: those are the norms "without affine", which leave fewer
    parameters to carry noise.  ``group`` has two groups of channels.  ``instance`` is the batch norm of a batch of one:
    every channel of every image by itself, so it needs more than one position.
    """
    if norm not in NORMS:
        raise ValueError(f"norm: expected one of {', '.join(NORMS)}; got {norm!r}")
    kind, affine = norm.removesuffix(WITHOUT_AFFINE), not norm.endswith(WITHOUT_AFFINE)
    pools = [] if pool is None else [pool]
    if kind == "none" or (last and not affine):
        return pools
    if kind == "public_batch":
        return [PublicBatchNorm(shape[0], affine=affine, pool=pool)]
    return [_layer(kind, shape, affine), *pools]


def _layer(kind: str, shape: tuple[int, ...], affine: bool) -> nn.Module:
    if kind == "layer":
        return nn.LayerNorm(list(shape), elementwise_affine=affine)
    if kind == "batch":
        return nn.BatchNorm2d(shape[0]) if len(shape) == 3 else nn.BatchNorm1d(shape[0])
    if kind == "group":
        return nn.GroupNorm(2, shape[0], affine=affine)
    if kind == "noised_batch":
        return NoisedBatchNorm(shape[0])
    if math.prod(shape[1:]) == 1:
        raise ValueError(
            f"norm: expected another than 'instance', as a layer of shape {shape} has a single value per channel, "
            "which normalised by itself is 0"
        )
    return nn.GroupNorm(shape[0], shape[0])
