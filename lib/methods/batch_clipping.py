"""General batch clipping (bc 3.1): the mean gradients of mini-sets are clipped, instead of every example's by itself.

A batch of m examples is k mini-sets S_j of s examples each, m = k·s.  With g(S) = (1/s) Σ_{ξ in S} ∇f(w; ξ),

    ``U = Σ_{j ≤ k} [g(S_j)]_C + N(0, (zC)²)``,     ``w ← w − (η/k) U``

s = 1 is individual clipping (IC, DPSGD), s = m batch clipping (BC).  Replacing one example changes one mini-set,
hence one clipped vector, hence U by at most 2C, whatever happens inside a mini-set: batch norm included.  bc's
N(0, (2Cσ)²) is z = 2σ.  In bc the update is divided by k, ``averaged_over="vectors"``: at equal ε the noise of a BC
update is then m times that of an IC update.  With ``averaged_over="examples"`` it is divided by m, and the noise is the
same for every s.

**Adding or removing** one example can turn the clipped mean of the only mini-set around, so under Poisson sampling BC
moves by 2C too, and the account is discounted by 2 (bc's footnote says of IC that Poisson sampling removes the factor
2; so it does, for s = 1 alone). A Poisson batch is one mini-set, however large it came. **Replacing** one in a Poisson
batch is refused for s > 1: what the accountants there are tight for is two examples that move a sum apart from where it
is without either by C each, and a clipped mean is moved from there by 2C. And running averages of batch norm, if they
are what is tested, are released without account.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from lib import gaussian
from lib.grads import Groups, check_buffers, clipped_mean
from lib.methods import Public, refuse
from lib.methods._converged import Converged
from lib.methods.dpsgd import CLIPPED_AND_NOISED, DPSGD, check_norm, cross_entropy
from lib.run import Run

SETTINGS = CLIPPED_AND_NOISED | {"pca_noise_multiplier", "mini_set_size", "averaged_over", "fix_converged"}
RUNNING = "batch norm's running averages are released with the network, and unaccounted"
NOT_RELEASED = "; batch norm's running averages are not released"


class BatchClipping(DPSGD):
    """The method of the module's page, set up for one run; ``layers`` L are clipped each by itself."""

    def __init__(self, run: Run, examples: int, model: nn.Module, *, layers: int = 1) -> None:
        # Under replace-one the accountants count 2C by themselves.
        turns = 2.0 if run.mini_set_size > 1 and run.sampler == "poisson" else 1.0
        super().__init__(run, examples, model, discount=turns, layers=layers)
        self.mixed_precision = run.mini_set_size > 1  # a mean gradient is float32 before it is clipped
        self._divisor = run.batch_size / (run.mini_set_size if run.averaged_over == "vectors" else 1)
        self._converged = Converged(model, run.fix_converged) if run.fix_converged != "never" else None
        self._buffers_checked = False
        # What the optimiser follows, of every step: one vector, for the same reason as in clipped_mean.
        whole = Groups(model, math.inf)
        self._noised = whole.zeros()
        self._parts = whole.parts(self._noised)

    def prepare(self, model: nn.Module, public: Public | None) -> None:
        self._grouped_for = None
        if self._converged:
            self._converged.fix(model)

    def summed(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> dict[str, Tensor]:
        """Σ_j [g(S_j)]_C, before noise: what one example, replaced, moves by at most 2C."""
        return self.grouped(model, step).parts(self._summed(model, x, y, step))

    def _summed(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        """The same as one vector."""
        if self.run.mini_set_size == 1:
            return torch.cat([part.flatten() for part in super().summed(model, x, y, step).values()])
        groups = self.grouped(model, step)
        if len(x) > 1 and not self._buffers_checked:  # what a mini-set changes besides its gradient is not clipped
            check_buffers(model, x)
            self._buffers_checked = True
        active = self._converged.active if self._converged else None
        if len(x) == 1 and self.run.norm == "batch":  # which cannot normalise one: like none, without a gradient
            x, y = x[:0], y[:0]
        # All of it, if it is to be one mini-set: a Poisson batch may have more examples than are expected.
        size = max(len(x), 1) if self.run.mini_set_size == self.run.batch_size else self.run.mini_set_size
        total, *others = [
            clipped_mean(model, cross_entropy, *part, groups, active)
            for part in zip(x.split(size), y.split(size), strict=True)
        ]
        return sum(others, start=total)

    def backward(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> None:
        total, z, groups = self._summed(model, x, y, step), self.noise_multiplier(step), self.grouped(model, step)

        def std(name: str) -> float:
            return z * groups.reach(name) if z else 0.0

        stds = [(entries, std(name)) for name, entries in groups.stretches.items()]
        torch.div(gaussian.hide(total, stds, self._noise), self._divisor, out=self._noised)
        for name, parameter in groups.parameters.items():
            parameter.grad = self._parts[name]
            if self._converged:
                self._converged.hold(name, parameter, std(name) / self._divisor)

    def update(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().update(model, optimizer)
        if self._converged:
            self._converged.observe(model, optimizer.param_groups[0]["lr"])

    @property
    def all_assumed(self) -> str:
        return super().all_assumed + (NOT_RELEASED if self.run.norm == "batch" else "")

    def _block(self, proven: dict[str, Any]) -> dict[str, Any]:
        run = self.run
        if run.norm == "batch" and run.test_statistics == "running":
            proven = {"epsilon": None, "assumes": "", "why": RUNNING}
        return super()._block(proven)


def check_mini_sets(run: Run) -> None:
    """``ValueError`` for mini-sets that do not fill a batch, or for which one example changes more than one."""
    size, batch = run.mini_set_size, run.batch_size
    if batch % size:
        raise ValueError(f"mini_set_size: expected a divisor of batch_size {batch}; got {size}")
    if size == 1:
        check_norm(run)
        refuse(run, "fix_converged")
        return
    if run.neighbouring_relation != "replace_one" and (
        size != batch or run.sampler in ("balls_and_bins", "shuffled", "fixed_order")
    ):
        raise ValueError(
            f"neighbouring_relation: expected replace_one for mini-sets of {size} in {run.sampler} batches of {batch}, "
            f"as one example more shifts all that follow; got {run.neighbouring_relation!r}"
        )
    if run.sampler == "poisson" and run.neighbouring_relation == "replace_one":
        raise ValueError(
            "sampler: expected a fixed size for mini-sets under replace_one, where no accountant here is tight for "
            "the clipped mean of a Poisson batch; got 'poisson'"
        )
    if run.fix_converged != "never" and (run.optimizer != "sgd" or run.momentum):
        raise ValueError(f"fix_converged: expected 'never' but for sgd without momentum; got {run.fix_converged!r}")


def build(run: Run, examples: int, model: nn.Module) -> BatchClipping:
    check_mini_sets(run)
    return BatchClipping(run, examples, model)
