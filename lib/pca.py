"""Private principal components, as abadi computes them in front of its MNIST network.

Each example is scaled to norm 1, so that adding or removing one changes the covariance Σ a aᵀ by at most 1 in
Frobenius norm (and replacing one by at most √2); a symmetric matrix of N(0, z²) noise makes that a Gaussian mechanism.
Everything after is post-processing.  The examples are not centred: a mean would cost budget of its own.
"""

import torch
from torch import Tensor

from lib import gaussian
from lib.data import as_input


def principal_components(
    images: Tensor, dimensions: int, *, noise_multiplier: float, generator: torch.Generator
) -> Tensor:
    """The ``dimensions`` leading eigenvectors of the noised covariance, (dimensions, D), of images (N, …) of D pixels.

    One query on all examples: ``Event(noise_multiplier, sampling_prob=1.0, steps=1)``, with the sampler's neighbouring
    relation.  Raises ``ValueError`` if there are fewer pixels than ``dimensions``.
    """
    pixels = images[0].numel()
    if not 1 <= dimensions <= pixels:
        raise ValueError(f"dimensions: expected 1 to {pixels}, the number of pixels; got {dimensions}")
    covariance = torch.zeros(pixels, pixels, dtype=torch.float64, device=images.device)
    for part in images.split(10_000):
        rows = as_input(part).flatten(1).double()
        rows = rows / rows.norm(dim=1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
        covariance += rows.T @ rows
    noised = gaussian.hide(covariance, noise_multiplier, generator)
    # One draw for each entry on or above the diagonal.  Those entries alone have sensitivity at most 1, and they are
    # the whole matrix.
    _, vectors = torch.linalg.eigh(noised.triu() + noised.triu(1).T)
    return vectors[:, -dimensions:].T.flip(0).float()
