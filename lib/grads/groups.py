"""Groups of parameters that are clipped together, each with its clip norm."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

WHOLE = ""  # the name of the one group when the whole gradient is clipped


class Groups:
    """Which group each trainable parameter belongs to.

    ``clip_norm`` is C for the whole gradient, or ``{module or parameter name: C_h}``; a parameter belongs to the
    longest of the names that it lies under.  ``names`` are in the order given, ``of[parameter name]`` the index.
    """

    def __init__(self, model: nn.Module, clip_norm: float | Mapping[str, float]) -> None:
        self._whole = not isinstance(clip_norm, Mapping)
        norms = {WHOLE: clip_norm} if self._whole else dict(clip_norm)
        for name, norm in norms.items():
            if not norm > 0 or math.isnan(norm):
                where = f"clip_norm of {name!r}" if name else "clip_norm"
                raise ValueError(f"{where}: expected more than 0; got {norm!r}")
        self.names, self._norms, self.of = list(norms), list(norms.values()), {}
        for parameter, value in model.named_parameters():
            if value.requires_grad:
                under = [n for n in self.names if n == WHOLE or parameter == n or parameter.startswith(f"{n}.")]
                if not under:
                    raise ValueError(f"clip_norm: expected a group for {parameter!r}; got {', '.join(self.names)}")
                self.of[parameter] = self.names.index(max(under, key=len))
        if unused := [name for i, name in enumerate(self.names) if i not in self.of.values()]:
            raise ValueError(f"clip_norm: expected names of the model's modules or parameters; got {unused[0]!r}")

    def norms(self, squares: Mapping[str, Tensor]) -> Tensor:
        """Norms (B, groups) from the squared norms (B,) of every parameter's gradient."""
        members = [[square for name, square in squares.items() if self.of[name] == i] for i in range(len(self.names))]
        zeros = torch.zeros_like(next(iter(squares.values())))
        return torch.stack([sum(of_group, zeros) for of_group in members], dim=1).sqrt()

    def factors(self, norms: Tensor) -> Tensor:
        """What each example's gradient is multiplied with, (B, groups): min(1, C/‖g‖); 0 where ‖g‖ is not finite."""
        clip = torch.tensor(self._norms, dtype=norms.dtype, device=norms.device)
        factors = torch.where(norms <= clip, torch.ones_like(norms), clip / norms)
        return torch.where(norms.isfinite().all(dim=1, keepdim=True), factors, torch.zeros_like(norms))

    def named(self, norms: Tensor) -> Tensor | dict[str, Tensor]:
        """(B,) for the whole gradient, ``{group: (B,)}`` otherwise."""
        return norms[:, 0] if self._whole else dict(zip(self.names, norms.unbind(1), strict=True))
