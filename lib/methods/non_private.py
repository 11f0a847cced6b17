"""Training without privacy: shuffled epochs and the mean gradient of the batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.run import Run
from lib.sampling import shuffled_epoch


@dataclass(frozen=True)
class NonPrivate:
    """Cross-entropy, averaged over batches of ``batch_size``."""

    batch_size: int

    def batches(self, examples: int, generator: torch.Generator) -> Iterator[Tensor]:
        return shuffled_epoch(examples, self.batch_size, generator)

    def backward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """Set every ``grad`` to the batch mean's; return the loss, still on the device."""
        model.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    def privacy(self, examples: int, steps: int) -> dict[str, Any]:
        """No guarantee: ε is null.  Noise on the weights alone, without a sensitivity, is not a mechanism."""
        return {
            "neighbouring_relation": None,
            "sampler": "shuffled epochs",
            "noise_multiplier": 0.0,
            "sampling_prob": self.batch_size / examples,
            "steps": steps,
            "claimed": {},
            "proven": {
                "epsilon": None,
                "assumes": "",
                "why": "non-private training: gradients are neither clipped nor noised",
            },
            "audited": None,
        }


def build(run: Run) -> NonPrivate:
    return NonPrivate(batch_size=run.batch_size)
