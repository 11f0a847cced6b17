"""LSTM with Gaussian noise on its weights, out of two noisy linear maps per direction."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from lib.layers.noisy_linear import NoisyLinear
from lib.layers.weight_noise import held_noise


class NoisyLSTM(nn.Module):
    """One layer, one direction or both, over x (B, T, D); returns the hidden states (B, T, H) or (B, T, 2H).

    With i, f, g, o the four quarters of ``W_ih x_t + b_ih + W_hh h_{t−1} + b_hh``, as :class:`torch.nn.LSTM`:

        ``c_t = σ(f) c_{t−1} + σ(i) tanh(g)``,    ``h_t = σ(o) tanh(c_t)``,    h_0 = c_0 = 0

    Torch's layer hides its gates, and with them the gradients that per-example norms are made of; here both maps are
    layers of their own.  One draw of their noise serves all time steps, or where ``noise_every_time_step`` is
    ``"recurrent"`` W_hh gets fresh noise at each, and where it is ``"all"`` W_ih does, too, as in the authors' code;
    W_ih else maps the inputs of all steps in one product.

    **Arguments** ``input_size`` D, ``hidden_size`` H, ``bidirectional``; ``norm``: makes the layer that normalises the
    output of either map, from its size 4H (layer norm as in Ba et al. 2016, but for that of the cell, which the
    authors' code has, too; v1 and v2 do not say theirs); those of :class:`NoisyLinear` for the noise.

    **Padding** ``lengths`` (B,): x[b, t] counts for t < lengths[b], and beyond it states stay what they are.  So
    the last state of the way forward is that at T − 1, of the way back that at 0, whatever the lengths.

    **Source** v2 Table 4's BiLSTM; the authors' code calls it ``SILSTM``.

        >>> NoisyLSTM(50, 32, bidirectional=True)(torch.ones(4, 7, 50)).shape
        torch.Size([4, 7, 64])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bidirectional: bool = False,
        norm: Callable[[int], nn.Module] = lambda size: nn.Identity(),
        noise_every_time_step: str = "none",
        **noise: Any,
    ) -> None:
        super().__init__()
        if noise_every_time_step not in ("none", "recurrent", "all"):
            raise ValueError(f"noise_every_time_step: expected none, recurrent or all; got {noise_every_time_step!r}")
        self.hidden_size, self.noise_every_time_step = hidden_size, noise_every_time_step
        directions = 2 if bidirectional else 1
        self.input = nn.ModuleList(NoisyLinear(input_size, 4 * hidden_size, **noise) for _ in range(directions))
        self.hidden = nn.ModuleList(NoisyLinear(hidden_size, 4 * hidden_size, **noise) for _ in range(directions))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)  # as torch's
        self.input_norm = nn.ModuleList(norm(4 * hidden_size) for _ in range(directions))
        self.hidden_norm = nn.ModuleList(norm(4 * hidden_size) for _ in range(directions))

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        with held_noise(self) if self.noise_every_time_step == "none" else nullcontext():
            return torch.cat([self._one_way(x, lengths, way) for way in range(len(self.input))], dim=2)

    def _one_way(self, x: Tensor, lengths: Tensor | None, way: int) -> Tensor:
        if self.noise_every_time_step == "all":
            mapped = torch.stack([self.input[way](x_t) for x_t in x.unbind(1)], dim=1)
        else:
            mapped = self.input[way](x)
        steps = list(self.input_norm[way](mapped).unbind(1))  # T of (B, 4H)
        order = range(len(steps)) if way == 0 else range(len(steps) - 1, -1, -1)
        h = c = x.new_zeros(len(x), self.hidden_size)
        states: list[Tensor] = steps.copy()
        for t in order:
            i, f, g, o = (steps[t] + self.hidden_norm[way](self.hidden[way](h))).chunk(4, dim=1)
            new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            new_h = o.sigmoid() * new_c.tanh()
            if lengths is None:
                h, c = new_h, new_c
            else:
                counts = (t < lengths).unsqueeze(1)
                h, c = torch.where(counts, new_h, h), torch.where(counts, new_c, c)
            states[t] = h
        return torch.stack(states, dim=1)

    def load_torch(self, layer: nn.LSTM) -> None:
        """Take over the weights of torch's ``layer`` of the same sizes; ``ValueError`` for one of others."""
        ways, own = 2 if layer.bidirectional else 1, self.input[0].in_features
        theirs = (layer.input_size, layer.hidden_size, ways, layer.num_layers, layer.proj_size, layer.bias)
        if theirs != (own, self.hidden_size, len(self.input), 1, 0, True):
            raise ValueError(
                f"layer: expected one layer with biases and without projection, from {own} to {self.hidden_size}, "
                f"{len(self.input)} ways; got {layer}"
            )
        for way in range(len(self.input)):
            suffix = "_l0" + ("_reverse" if way else "")
            for name, linear in (("ih", self.input[way]), ("hh", self.hidden[way])):
                linear.load_state_dict(
                    {kind: getattr(layer, f"{kind}_{name}{suffix}").detach() for kind in ("weight", "bias")}
                )
