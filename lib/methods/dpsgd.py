"""DPSGD (abadi algorithm 1, v2 section 3): clip each example's gradient, sum, add noise, divide by the batch size.

    ``ĝ_t = (Σ_{i in batch} g_i · min(1, C/‖g_i‖) + N(0, z²C²)) / L``

L is the expected batch size, whatever came; an empty batch is noise alone.  With augmentation multiplicity K, "augmult"
(De et al. 2022, 2204.13650), g_i is the mean gradient of K augmented views of example i.  One example changes the sum
by at most C (add or remove one) or 2C (replace one) for each time that it was drawn, and the optimiser sees nothing but
ĝ, so momentum, step sizes and Adam are post-processing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib import accounting, gaussian
from lib.generators import generator
from lib.grads import Groups, clipped_sum, stacked, trained_layers
from lib.layers import held_statistics
from lib.methods import Batch, Method
from lib.methods._at_once import MICROBATCH, AtOnce
from lib.methods._budget import budget
from lib.methods._statistics import MIXED, NoisedStatistics
from lib.run import Run

ROWS = {"cpu": 512, "cuda": 4096}  # in one pass, where every example brings its public ones
ASSUMES = (
    "batches drawn as the sampler says, floating-point sums of clipped gradients as good as exact and noise as "
    "Gaussian, data set size, number of classes and settings public; the seed and the data's hash, which are published "
    "here so that runs can be repeated, secret, and the seed that of no other run; "
    "the search for the settings, whichever examples judged it, the accuracies on those that its records hold, and the "
    "time and memory that every record tells, are not counted"
)
CLIPPED_AND_NOISED = frozenset(
    (
        *("clip_norm", "clip_norm_decay", "noise_multiplier", "noise_multiplier_decay", "epsilon", "delta"),
        *("accountant", "sampler", "neighbouring_relation"),
    )
)
SETTINGS = CLIPPED_AND_NOISED | {"clipped", "statistics", "statistics_share", "pca_noise_multiplier", "augmult"}
PUBLIC = "; the public examples are public"
STANDARDISED = "; mean and standard deviation of the images' channels are public"
EMPTY = "; an example that is removed leaves its place empty, so that steps, sampling probability and splits stay"
LARGE = "; but at this δ publishing one of the examples as it is would be private, too, as δ × examples is 1 or more"
PROVERS = ("pld", "gdp", "rdp")  # tightest first


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy (B,), of logits (B·K, classes) the mean over every example's K views, for labels (B,)."""
    views = len(outputs) // len(y)
    return F.cross_entropy(outputs, y.repeat_interleave(views), reduction="none").view(-1, views).mean(1)


class DPSGD(Method):
    """The method of the module's page, set up for one run; ``layers`` L are clipped and noised each by itself."""

    def __init__(
        self, run: Run, examples: int, model: nn.Module, *, discount: float = 1.0, layers: int = 1, groups: int = 1
    ) -> None:
        super().__init__(run, examples, groups=groups)
        self.budget = budget(run, self.sampler, discount * math.sqrt(layers))
        self.steps = self.budget.steps
        moved = discount * self.budget.events[-1].sensitivity  # by a step's event; a private PCA's comes before
        each = f" in each of {layers} layers" if layers > 1 else ""
        self.sensitivity = f"sensitivity {'' if moved == 1 else f'{moved:g}'}C{each}"  # in words, for the record
        device = next(model.parameters()).device
        self._at_once = AtOnce()
        self._groups: Groups | None = None  # for this model and this clip norm
        self._grouped_for: tuple[nn.Module, float] | None = None
        self._noise = generator(run.seed, "gradient noise", device)
        self._statistics = NoisedStatistics(run, model, generator(run.seed, "statistics noise", device))

    def clip_norm(self, step: int) -> float:
        """C at ``step``; infinite if nothing is clipped."""
        first = math.inf if self.run.clip_norm is None else self.run.clip_norm
        return first * self.run.clip_norm_decay ** (step // self.sampler.steps_per_epoch)

    def noise_multiplier(self, step: int) -> float:
        """z at ``step``."""
        return self.budget.noise_multiplier * self.run.noise_multiplier_decay ** (step // self.sampler.steps_per_epoch)

    def noise_std(self, step: int) -> float:
        """z·C at ``step``, more where statistics share the budget: the noise on the sum of the clipped gradients."""
        z = self._statistics.weights_noise(self.noise_multiplier(step))
        return z * self.clip_norm(step) if z else 0.0

    def groups(self, model: nn.Module, step: int) -> Groups:
        """What is clipped together at ``step``, and to which norm.

        Asked again where the model or :meth:`clip_norm` changes; a method that changes it otherwise, say by a norm for
        each layer that follows the gradients, overrides :meth:`grouped`, too, or it clips to norms of earlier steps.
        """
        clip_norm = self.clip_norm(step)
        if self.run.clipped == "layer":
            layers = trained_layers(model)
            clip_norm = dict.fromkeys(layers, clip_norm / math.sqrt(len(layers)))
        return Groups(model, clip_norm)

    def grouped(self, model: nn.Module, step: int) -> Groups:
        """:meth:`groups`, put together once for as long as model and clip norm stay what they are."""
        if self._grouped_for != (asked := (model, self.clip_norm(step))):
            self._groups, self._grouped_for = self.groups(model, step), asked
        return self._groups

    def summed(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> dict[str, Tensor]:
        """Σ of the clipped gradients, before noise: what one participation of an example moves by at most C."""
        how = {"clip_norm": self.grouped(model, step)}
        how["implementation"] = "joint" if self.run.statistics == "mixed" else "fast"

        def total(size: int) -> dict[str, Tensor]:
            with held_statistics(model):
                return clipped_sum(model, cross_entropy, x, y, microbatch_size=size, **how)[0]

        return self._at_once.fit(lambda halvings: self._microbatch(x, halvings), total)

    def _microbatch(self, x: Tensor, halvings: int) -> int:
        """How many examples are gone through at once; those that share statistics stay together."""
        run, shared = self.run, 1
        if run.statistics == "mixed":
            shared = run.statistics_batch or len(x)
        most = MICROBATCH[x.device.type] >> halvings
        if run.statistics_gradient == "on":
            most = (ROWS[x.device.type] >> halvings) // (shared + run.public_examples)
        most //= run.augmult
        return max(1, shared, most // max(1, shared) * shared)

    def backward(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> None:
        self.leave(model, self.summed(model, x, y, step), step)
        self._statistics.release(model, x, self.noise_multiplier(step))

    @classmethod
    def backward_together(
        cls, methods: Sequence[Self], models: Sequence[nn.Module], batches: Sequence[Batch], step: int
    ) -> list[Tensor | None]:
        x, y, counts = stacked.padded(batches)
        totals, _ = stacked.clipped_sums(
            models[0],
            cross_entropy,
            stacked.values_of(models),
            x,
            y,
            counts=counts,
            clip_norms=[method.clip_norm(step) for method in methods],
            microbatch_size=max(1, MICROBATCH[x.device.type] // len(models)),
        )
        for i, (method, model) in enumerate(zip(methods, models, strict=True)):
            method.leave(model, {name: total[i] for name, total in totals.items()}, step)
        return [None] * len(methods)

    def leave(self, model: nn.Module, total: Mapping[str, Tensor], step: int) -> None:
        """Leave in every parameter's ``grad`` what the optimiser is to follow: ĝ of :meth:`summed`."""
        trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        hidden = self.hidden(as_vector([total[name] for name in trained]), self.noise_std(step))
        for parameter, part in parts(hidden.div_(self.run.batch_size), list(trained.values())):
            # In the parameter's own layout, which torch's fused optimisers take for granted on a CPU.
            parameter.grad = part if parameter.is_contiguous() else torch.empty_like(parameter).copy_(part)

    def hidden(self, total: Tensor, std: float) -> Tensor:
        """This step's sum, one vector, with the noise that hides it; a tensor that is nobody else's."""
        return gaussian.hide(total, std, self._noise)

    def privacy(self) -> dict[str, Any]:
        run = self.run
        if run.statistics == "mixed":
            return self._block({"epsilon": None, "assumes": "", "why": MIXED})
        assumes = self.all_assumed
        able = accounting.accountants(sampler=run.sampler, neighbouring_relation=run.neighbouring_relation)
        why = f"no accountant here covers {run.sampler} under {run.neighbouring_relation}"
        for prover in filter(able.__contains__, PROVERS):
            try:
                proven = finite(self.budget.epsilon(prover))
            except ValueError as error:  # noise too small for it, for which a run is not lost
                why = str(error)
            else:
                why = f"{self.sensitivity}, accountant {prover}"
                if proven is not None or not self.budget.noise_multiplier:  # of a tiny δ the next may have one
                    return self._block({"epsilon": proven, "assumes": assumes, "why": why})
        return self._block({"epsilon": None, "assumes": assumes, "why": why})

    @property
    def all_assumed(self) -> str:
        """What every proof of this run assumes."""
        run = self.run
        further = {
            PUBLIC: run.public_examples > 0,
            STANDARDISED: run.input_scale == "standardised" and not run.pretrained_on,
            EMPTY: run.neighbouring_relation == "add_or_remove_one",
        }
        return ASSUMES + "".join(words for words, assumed in further.items() if assumed)

    def _block(self, proven: dict[str, Any]) -> dict[str, Any]:
        run = self.run
        large = proven["epsilon"] is not None and run.delta * self.sampler.examples >= 1
        return {
            "neighbouring_relation": run.neighbouring_relation,
            "sampler": run.sampler,
            "noise_multiplier": self.budget.noise_multiplier,
            "sampling_prob": self.sampler.sampling_prob,
            "steps": self.steps,
            "delta": run.delta,
            "claimed": {run.accountant: finite(self.budget.epsilon(run.accountant))},
            "proven": proven | {"why": proven["why"] + LARGE * large},
            "audited": None,
        }


def as_vector(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def parts(vector: Tensor, tensors: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Each of ``tensors`` with its part of :func:`as_vector`, a view of its shape."""
    of_each = vector.split([tensor.numel() for tensor in tensors])
    return [(tensor, part.view(tensor.shape)) for tensor, part in zip(tensors, of_each, strict=True)]


def finite(epsilon: float) -> float | None:
    """JSON has no infinity; no noise is no guarantee, null."""
    return epsilon if math.isfinite(epsilon) else None


def check_norm(run: Run) -> None:
    """``ValueError`` for a norm under which clipping every example by itself bounds nothing."""
    if run.norm == "batch":
        raise ValueError(
            f"norm: expected another for method {run.method!r} with every example clipped by itself; got 'batch', "
            "which makes every example's gradient depend on all others, so that clipping each bounds nothing; batch "
            "norms that can be private are 'public_batch', 'noised_batch_without_affine' and, of a batch of one, "
            "'instance'"
        )


def may_differ(run: Run) -> tuple[str, ...]:
    """See :func:`lib.methods.may_differ`; of runs whose gradients are clipped as a whole and depend on values alone.

    With both ε and noise given, ε ends each run at a step of its own.
    """
    budget_ends_it = run.epsilon is not None and run.noise_multiplier is not None
    more_than_values = run.public_examples or run.statistics_share or run.first_weights != "exact"
    if budget_ends_it or more_than_values or run.clipped != "gradient" or run.augmult > 1:
        return ()
    return ("seed", "lr", "clip_norm", "noise_multiplier", "epsilon")


def build(run: Run, examples: int, model: nn.Module) -> DPSGD:
    check_norm(run)
    return DPSGD(run, examples, model)
