"""Training without privacy: the mean gradient of the batch."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.grads import stacked
from lib.methods import Batch, Method, Public
from lib.methods._gradient_norms import GradientNorms
from lib.methods.dpsgd import PUBLIC, STANDARDISED, cross_entropy
from lib.run import Run

SETTINGS = frozenset({"weight_noise_std", "gradient_norm_examples", "statistics", "pca_noise_multiplier", "trained_on"})
NOT_PRIVATE = "non-private training: gradients are neither clipped nor noised"
UNTOUCHED = "trained on the public examples alone, so nothing is told of a private one"


class NonPrivate(Method):
    """Cross-entropy, averaged over the batch.  The layers' gradient norms are measured if the run asks for it."""

    mixed_precision = True

    def __init__(self, run: Run, examples: int) -> None:
        super().__init__(run, examples)
        self._norms = GradientNorms(run.gradient_norm_examples)

    def prepare(self, model: nn.Module, public: Public | None) -> None:
        if self._norms.examples:
            self._norms.measure(model, public)

    def history(self) -> dict[str, Any]:
        return {"gradient_norms": self._norms.means} if self._norms.examples else {}

    def backward(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        model.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        self.leave(model, {name: parameter.grad for name, parameter in model.named_parameters()})
        return loss.detach()

    @classmethod
    def backward_together(
        cls, methods: Sequence[Self], models: Sequence[nn.Module], batches: Sequence[Batch], step: int
    ) -> list[Tensor | None]:
        values = stacked.values_of(models)
        x, y = (torch.stack(of_all) for of_all in zip(*batches, strict=True))
        losses, gradients = stacked.mean_gradients(models[0], cross_entropy, values, x, y)
        for i, (method, model) in enumerate(zip(methods, models, strict=True)):
            for name, buffer in model.named_buffers():  # of batch norm
                buffer.copy_(values[name][i])
            method.leave(model, {name: gradient[i] for name, gradient in gradients.items()})
        return list(losses)

    def leave(self, model: nn.Module, gradients: Mapping[str, Tensor]) -> None:
        """Leave in every parameter's ``grad`` what the optimiser is to follow."""
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[name]

    def privacy(self) -> dict[str, Any]:
        """No guarantee: ε is null, as noise without a sensitivity is not a mechanism; but 0 where no private example is
        touched."""
        proven = {"epsilon": None, "assumes": "", "why": NOT_PRIVATE}
        if self.run.trained_on == "public":
            assumes = PUBLIC + STANDARDISED * (self.run.input_scale == "standardised")
            proven = {"epsilon": 0.0, "assumes": assumes.removeprefix("; "), "why": UNTOUCHED}
        return {
            "neighbouring_relation": None,
            "sampler": "shuffled epochs",
            "noise_multiplier": 0.0,
            "sampling_prob": self.sampler.sampling_prob,
            "steps": self.steps,
            "claimed": {},
            "proven": proven,
            "audited": None,
        }


def may_differ(run: Run) -> tuple[str, ...]:
    """See :func:`lib.methods.may_differ`; a model that holds public examples is not one of values alone."""
    return () if run.public_examples else ("seed", "lr", "weight_noise_std", "gradient_noise_std")


def build(run: Run, examples: int, model: nn.Module) -> NonPrivate:
    return NonPrivate(run, examples)
