"""Groups of parameters that are clipped together, each with its clip norm."""

from collections.abc import Mapping
from functools import reduce
from numbers import Real

import torch
from torch import Tensor, nn

Group = str | tuple[str, ...]  # the name of a module or parameter, or several
WHOLE = ""  # the name of the one group when the whole gradient is clipped
DTYPES = (torch.float32, torch.float64)  # of half precision a clipped sum is longer than C, and a small square 0
SMALLEST = torch.finfo(torch.float32).tiny  # a smaller factor is rounded, up to twice itself
LEAST = 1e-15  # a norm as long as this comes out as 0, where squares of 10⁸ numbers are too small for float32


class Groups:
    """Which group each trainable parameter belongs to.

    ``clip_norm`` is C for the whole gradient, or ``{group: C_h}``, where a group is the name of a module or parameter,
    or a tuple of such; a parameter belongs to the longest of the names that it lies under.  ``names`` are in the order
    given, ``of[parameter name]`` the index.  Norms are those of the gradient with every parameter's part multiplied by
    its entry in ``scales`` (1 where there is none).  ``parameters`` are the model's trainable ones, in order.  Where a
    gradient is one vector, ``stretches`` are neighbours that are clipped and scaled alike, ``{first's name: entries}``.

    Raises ``ValueError`` for a clip norm that is not positive, a parameter in no group, of half precision or of
    another precision than the first, and a group without any.
    """

    def __init__(
        self,
        model: nn.Module,
        clip_norm: float | Mapping[Group, float],
        scales: Mapping[str, float] | None = None,
    ) -> None:
        self._whole = not isinstance(clip_norm, Mapping)
        norms = {WHOLE: clip_norm} if self._whole else dict(clip_norm)
        for name, norm in norms.items():
            if not isinstance(norm, Real) or isinstance(norm, bool) or not norm > 0:
                where = f"clip_norm of {name!r}" if name else "clip_norm"
                raise ValueError(f"{where}: expected a number of more than 0, math.inf to clip nothing; got {norm!r}")
        self.names, self._norms, self._scales = list(norms), list(norms.values()), dict(scales or {})
        self.of, self.stretches, alike = {}, {}, None
        self._copies: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self.model, self.parameters = model, {name: p for name, p in model.named_parameters() if p.requires_grad}
        owners = {member: i for i, name in enumerate(self.names) for member in _members(name)}
        if not self.parameters:
            raise ValueError(f"model: expected a parameter that is trained; got {type(model).__name__} without any")
        one = next(iter(self.parameters.values()))
        for parameter, value in self.parameters.items():
            under = [n for n in owners if n == WHOLE or parameter == n or parameter.startswith(f"{n}.")]
            if not under:
                raise ValueError(f"clip_norm: expected a group for {parameter!r}; got {', '.join(owners)}")
            self.of[parameter] = owners[max(under, key=len)]
            if value.dtype not in DTYPES:
                raise ValueError(f"{parameter}: expected float32 or float64, which keep a bound; got {value.dtype}")
            if value.dtype != one.dtype:
                raise ValueError(f"{parameter}: expected {one.dtype} as the model's first parameter; got {value.dtype}")
            place = self.of[parameter], self._scales.get(parameter)
            if place != alike:
                first, alike = parameter, place
            self.stretches[first] = self.stretches.get(first, 0) + value.numel()
        if unused := [name for i, name in enumerate(self.names) if i not in self.of.values()]:
            raise ValueError(
                f"clip_norm: expected names of the model's modules or parameters that are trained; got {unused[0]!r}"
            )

    def norms(self, squares: Mapping[str, Tensor]) -> Tensor:
        """Norms (…, groups) from the squared norms (…) of parameters' gradients; 0 of a group that has none."""
        zeros = torch.zeros_like(next(iter(squares.values())))
        members: list[list[Tensor]] = [[zeros] for _ in self.names]
        for name, square in squares.items():
            scale = self._scales.get(name)
            members[self.of[name]].append(square if scale is None else square * scale**2)
        return torch.stack([reduce(torch.add, of_group) for of_group in members], dim=-1).sqrt()

    def factors(self, norms: Tensor) -> Tensor:
        """What each gradient is multiplied with, (…, groups): min(1, C/‖g‖), or 0 where float32 cannot hold that.

        0 for all groups where one ‖g‖ is not finite.
        """
        factors = (self._beside(norms) / norms.clamp(min=LEAST)).clamp(max=1.0)
        usable = norms.isfinite().all(dim=-1, keepdim=True) & (factors >= SMALLEST)
        return torch.where(usable, factors, 0.0)

    def _beside(self, norms: Tensor) -> Tensor:
        """The C_h in their precision, on their device: copied once, as a GPU is waited for whenever it is given one."""
        place = norms.dtype, norms.device
        if place not in self._copies:
            self._copies[place] = norms.new_tensor(self._norms)
        return self._copies[place]

    def reach(self, parameter: str) -> float:
        """How long the clipped, unscaled part of ``parameter`` can be: its group's C ÷ its scale."""
        return self._norms[self.of[parameter]] / self._scales.get(parameter, 1.0)

    def zeros(self) -> Tensor:
        """A gradient of zeros that is one vector."""
        return torch.cat([torch.zeros_like(p).flatten() for p in self.parameters.values()])

    def parts(self, vector: Tensor) -> dict[str, Tensor]:
        """Of a gradient that is one vector, ``{parameter name: a view of its part}``."""
        parts = vector.split([p.numel() for p in self.parameters.values()])
        return {name: part.view_as(p) for part, (name, p) in zip(parts, self.parameters.items(), strict=True)}

    def named(self, norms: Tensor) -> Tensor | dict[Group, Tensor]:
        """(B,) for the whole gradient, ``{group: (B,)}`` otherwise."""
        return norms[:, 0] if self._whole else dict(zip(self.names, norms.unbind(1), strict=True))


def _members(group: Group) -> tuple[str, ...]:
    return (group,) if isinstance(group, str) else group
