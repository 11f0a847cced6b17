"""The sensitivity of one DPSGD step of LeNet-5 on MNIST, for every normalisation and several clip norms.

    python -m lib.audit sensitivity

measures it on a fresh network, L = 32 private images and M public ones, 30 as in v1's code or 128 as in v2, and stores
it under ``results/audits``.  Private are images that are drawn, or one image over and over: a guarantee is of all data.
A search among what can be an image finds lower bounds; 2 C is what clipping promises when one example is replaced.
Noised running averages are of earlier batches, in a fresh network 0 and 1; what a batch adds to them is released by
itself.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lib import data, models
from lib.audit.meter import sensitivity
from lib.generators import generator, seed_for
from lib.grads import clipped_sum
from lib.layers import WithPublic
from lib.methods.dpsgd import cross_entropy

PRIVATE = 32
CLIP_NORMS = (0.1, 0.5, 3.0, 30.0)
SEARCH = {"examples": 1, "classes": 3, "ascent": 12, "within": (0.0, 1.0)}
PUBLIC_NORM = "public_batch_without_affine"


class Network(NamedTuple):
    """LeNet-5 with a norm; with settings of ``WithPublic``, and so many public images, where it sees them."""

    norm: str
    settings: dict[str, Any] = {}  # noqa: RUF012
    public: int = 30


MIXED = {"statistics": "mixed", "gradient": True}
NETWORKS = {
    "LeNet-5": Network("none"),
    "LN-LeNet-5": Network("layer_without_affine"),
    "GN-LeNet-5": Network("group_without_affine"),
    "BN-LeNet-5, each example with public": Network(PUBLIC_NORM, {"statistics": "per_example", "gradient": True}),
    "BN-LeNet-5, public alone": Network(PUBLIC_NORM, {"statistics": "public", "gradient": True}),
    "BN-LeNet-5, public alone, as constants": Network(PUBLIC_NORM, {"statistics": "public"}),
    "BN-LeNet-5, noised running averages": Network("noised_batch_without_affine"),
    "BN-LeNet-5, as printed, M = 30": Network(PUBLIC_NORM, MIXED),
    "BN-LeNet-5, as printed": Network(PUBLIC_NORM, MIXED, public=128),
}


def network(name: str, images: Tensor) -> nn.Module:
    """The named network, freshly initialised, with the first of the public ``images`` where it sees them."""
    norm, settings, public = NETWORKS[name]
    torch.manual_seed(seed_for(0, "init"))
    model = models.build("lenet5", norm=norm)
    return (WithPublic(model, images[:public], **settings) if settings else model).train()


def measure() -> dict[str, dict[str, dict[str, Any]]]:
    """{network: {clip norm: {"multiple", "how"}}}."""
    private, others = data.load("mnist"), data.load("kmnist")
    chosen = torch.randperm(len(private.train_labels), generator=generator(0, "audit"))[:PRIVATE]
    batches = {"": chosen, ", all others alike": chosen[:1].expand(PRIVATE)}
    images = data.as_input(others.test_inputs[: max(of.public for of in NETWORKS.values())])
    results = {}
    for name, of in NETWORKS.items():
        model = network(name, images)
        how = {"implementation": "joint" if of.settings == MIXED else "fast"}
        results[name] = {}
        for clip_norm in CLIP_NORMS:
            summed, found = partial(_summed, clip_norm, how), {}
            for words, batch in batches.items():
                x, y = data.as_input(private.train_inputs[batch]), private.train_labels[batch]
                found[words] = sensitivity(summed, model, x, y, clip_norm=clip_norm, **SEARCH)
            words = max(found, key=lambda words: found[words].multiple)
            results[name][f"{clip_norm:g}"] = {"multiple": found[words].multiple, "how": found[words].how + words}
    return results


def _summed(clip_norm: float, how: dict[str, str], model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    return clipped_sum(model, cross_entropy, x, y, clip_norm=clip_norm, **how)[0]
