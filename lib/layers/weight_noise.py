"""Gaussian noise on the weights of a layer: w ~ N(µ, σ²) with µ learnt by the reparametrisation trick.

v2 section 2 (= v1 section 3): ``w = µ + σ ξ, ξ ~ N(0, 1)``, so ``∂loss/∂µ = ∂loss/∂w`` and σ is a constant.  This is
not NoisyNet's learned noise.  One draw serves all examples of a forward pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightNoise(nn.Module):
    """What :class:`NoisyLinear` and :class:`NoisyConv2d` share; mixed into a torch layer, never used alone.

    The layer's own ``weight`` and ``bias`` are the means µ, so its ``state_dict`` is that of its torch twin.
    """

    noise_std: float
    noise_on_bias: bool
    generator: torch.Generator | None
    _held: dict[str, Tensor] | None

    def _set_noise(self, noise_std: float, noise_on_bias: bool, generator: torch.Generator | None) -> None:
        if not noise_std >= 0.0 or noise_std == float("inf"):
            raise ValueError(f"noise_std: expected a finite number of at least 0; got {noise_std!r}")
        self.noise_std, self.noise_on_bias, self.generator = float(noise_std), noise_on_bias, generator
        self._held = None

    def _noisy_parameters(self) -> tuple[Tensor, Tensor | None]:
        """``(weight, bias)`` with noise added, each of its own shape; the parameters themselves when σ = 0."""
        if self.noise_std == 0.0:
            return self.weight, self.bias
        noise = self._draw() if self._held is None else self._held
        bias = self.bias + noise["bias"] if "bias" in noise else self.bias
        return self.weight + noise["weight"], bias

    def _draw(self) -> dict[str, Tensor]:
        noised = {"weight": self.weight}
        if self.bias is not None and self.noise_on_bias:
            noised["bias"] = self.bias
        return {
            name: torch.empty_like(mean).normal_(0.0, self.noise_std, generator=self.generator).detach()
            for name, mean in noised.items()
        }

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, noise_std={self.noise_std:g}, noise_on_bias={self.noise_on_bias}"


def noisy_layers(model: nn.Module) -> Iterator[WeightNoise]:
    """The layers of ``model`` whose weights carry noise."""
    return (layer for layer in model.modules() if isinstance(layer, WeightNoise))


def set_weight_noise(
    model: nn.Module, noise_std: float, *, noise_on_bias: bool = True, generator: torch.Generator | None = None
) -> None:
    """Give every noisy layer of ``model`` the same σ and one common ``generator`` (None: torch's default one)."""
    for layer in noisy_layers(model):
        layer._set_noise(noise_std, noise_on_bias, generator)


def noisy_parameters(model: nn.Module) -> dict[str, Tensor]:
    """``{name: value}`` of every parameter, with a draw of its noise; in the order of the layers, that of a sequence's
    passes."""
    values = dict(model.named_parameters())
    names = {id(parameter): name for name, parameter in values.items()}
    for layer in noisy_layers(model):
        weight, bias = layer._noisy_parameters()
        values[names[id(layer.weight)]] = weight
        if bias is not None:
            values[names[id(layer.bias)]] = bias
    return values


@contextmanager
def without_noise(model: nn.Module) -> Iterator[None]:
    """Inside, no layer draws."""
    stds = {layer: layer.noise_std for layer in noisy_layers(model)}
    for layer in stds:
        layer.noise_std = 0.0
    try:
        yield
    finally:
        for layer, std in stds.items():
            layer.noise_std = std


@contextmanager
def held_noise(model: nn.Module) -> Iterator[None]:
    """Draw once on entry and use that draw in every forward pass inside; outside, each forward pass draws afresh.

    A layer whose noise is held already keeps it, and one without noise has none to draw.
    """
    layers = [layer for layer in noisy_layers(model) if layer.noise_std and layer._held is None]
    for layer in layers:
        layer._held = layer._draw()
    try:
        yield
    finally:
        for layer in layers:
            layer._held = None
