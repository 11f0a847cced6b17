"""What batch norm's statistics ask of a method that clips every example's gradient."""

import math

import torch
from torch import Tensor, nn

from lib.layers import NoisedBatchNorm
from lib.run import Run

MIXED = (
    "all examples of a batch share batch norm's statistics, so one changed example changes every clipped gradient: "
    "by up to 2C each, and their sum by up to (2L − 1) C where one is added or removed, not by C"
)
CHUNK = 1024  # examples in one pass; memory only


class NoisedStatistics:
    """The statistics of the model's :class:`~lib.layers.NoisedBatchNorm` layers, released beside every noised gradient.

    Gradient and statistics are one query on one batch, of two parts with noise multipliers z_g and z_s.  It is a
    Gaussian mechanism with 1/z² = 1/z_g² + 1/z_s², so the share f of the budget that the statistics get, in µ², is
    z_s = z/√f, and z_g = z/√(1 − f).  Without such layers there is nothing to release, and f = 0.
    """

    def __init__(self, run: Run, model: nn.Module, generator: torch.Generator) -> None:
        self.run, self._generator = run, generator
        self._layers = [layer for layer in model.modules() if isinstance(layer, NoisedBatchNorm)]

    def weights_noise(self, noise_multiplier: float) -> float:
        """z_g of z."""
        return noise_multiplier / math.sqrt(1 - self.run.statistics_share)

    @torch.no_grad()
    def release(self, model: nn.Module, x: Tensor, noise_multiplier: float) -> None:
        """Move the running averages by the noised statistics of the batch, if ``model`` has any."""
        if not self._layers:
            return
        for layer in self._layers:
            layer.watch(self.run.statistics_clip_norm)
        for part in x.split(CHUNK) if len(x) else ():
            model(part)
        for layer in self._layers:
            layer.release(
                expected_batch_size=self.run.batch_size,
                noise_multiplier=noise_multiplier / math.sqrt(self.run.statistics_share),
                released=sum(len(layer.mean) for layer in self._layers),
                generator=self._generator,
            )
