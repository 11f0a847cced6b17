"""Models: one file, one architecture, layers put together and nothing new.

A model file defines ``build(norm, activation, classes) -> nn.Module``; all its trainable maps are noisy layers with
σ = 0, so one architecture serves noise-free training, noisy weights and SI-DPSGD alike.

    >>> sum(p.numel() for p in build("lenet5").parameters())
    61706
"""

import math

from torch import nn

from lib import registry

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


def build(name: str, *, norm: str = "none", activation: str = "relu", classes: int = 10) -> nn.Module:
    """The model in ``lib/models/<name>.py``, freshly initialised by torch's default generator.

    Raises ``ValueError`` for an unknown model, normalisation or activation.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}; got {activation!r}")
    return registry.load("models", name).build(norm=norm, activation=ACTIVATIONS[activation], classes=classes)


def norm_layer(norm: str, *shape: int, last: bool = False) -> list[nn.Module]:
    """The layers that normalise pre-activations of ``shape`` (C, H, W) or (D,): a list of none or one.

    v2 eq. 1 to 3: batch norm takes its mean and variance over examples (and positions), layer norm over all
    neurons of the layer, [C, H, W] for a convolution; both with learnable γ = 1, β = 0 at the start.  v1's code has
    neither γ and β nor a normalisation of the ``last`` layer: that is ``layer_without_affine``, which leaves fewer
    parameters to carry noise.  ``instance`` is the batch norm of a batch of one: every channel of every image by
    itself, so it needs more than one position.
    """
    if norm == "none":
        return []
    if norm == "layer":
        return [nn.LayerNorm(list(shape))]
    if norm == "layer_without_affine":
        return [] if last else [nn.LayerNorm(list(shape), elementwise_affine=False)]
    if norm == "batch":
        return [nn.BatchNorm2d(shape[0]) if len(shape) == 3 else nn.BatchNorm1d(shape[0])]
    if norm == "instance":
        if math.prod(shape[1:]) == 1:
            raise ValueError(
                f"norm: expected none, batch, layer or layer_without_affine, as a layer of shape {shape} has a single "
                "value per channel, which normalised by itself is 0; got 'instance'"
            )
        return [nn.GroupNorm(shape[0], shape[0])]
    raise ValueError(f"norm: expected one of none, batch, layer, layer_without_affine, instance; got {norm!r}")
