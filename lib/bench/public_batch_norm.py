"""Batch norm with public images: DPSGD steps of LeNet-5 with each kind of statistics against a plain one, and v2's test
phase in batches against its loop over single images.

A step is 512 private images in microbatches.  Its peak memory is that of a microbatch and its public rows.  Variants
are called as the rows of :mod:`lib.tables.mnist_dpsgd_bn`: gradients go through the statistics, unless as constants.
"""

from functools import partial

import torch
from torch import Tensor, nn

from lib import methods, models
from lib.bench import Numbers, Step, peak_memory, ratios, step_of
from lib.generators import generator, seed_for
from lib.layers import WithPublic
from lib.run import Run

NORM = "public_batch_without_affine"
CONSTANTS, THROUGH = {"norm": NORM}, {"norm": NORM, "public_examples": 8, "statistics_gradient": "on"}
STEPS = {  # variant → changes to the plain run
    "plain": {},
    "layer norm": {"norm": "layer_without_affine"},
    "layer norm, four views": {"norm": "layer_without_affine", "augmentation": "shift", "augmult": 4},
    "noised running averages": {
        "norm": "noised_batch_without_affine",
        "statistics_share": 0.2,
        "statistics_clip_norm": 3.0,
    },
    "public alone, as constants, M = 128": CONSTANTS | {"public_examples": 128},
    "each example with public, as constants, M = 30": CONSTANTS | {"public_examples": 30, "statistics": "per_example"},
    "public alone, M = 8": THROUGH,
    "each example with public, M = 8": THROUGH | {"statistics": "per_example"},
    "as printed, M = 8, 8 private": THROUGH | {"statistics": "mixed", "statistics_batch": 8},
}
EXAMPLES, BATCH, ROUNDS = 60_000, 512, 8
TEST_IMAGES, TEST_PUBLIC, TEST_ROUNDS = 500, 30, 3


def _images(examples: int, device: torch.device) -> Tensor:
    return torch.rand(examples, 1, 28, 28, generator=generator(0, "bench")).to(device)


def _network(norm: str, device: torch.device) -> nn.Module:
    torch.manual_seed(seed_for(0, "init"))
    return models.build("lenet5", norm=norm).to(device)


def _model(run: Run, device: torch.device) -> nn.Module:
    model = _network(run.norm, device).train()
    if run.norm != NORM:
        return model
    how = {"gradient": run.statistics_gradient == "on", "shared_by": run.statistics_batch}
    return WithPublic(model, _images(run.public_examples, device), statistics=run.statistics, **how).train()


def step(variant: str, size: int, device: torch.device) -> Step:
    """One DPSGD step on ``size`` images."""
    settings = {"method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 0.5, "noise_multiplier": 1.0}
    run = Run(dataset="", model="lenet5", lr=0.1, epochs=1, batch_size=size, **(settings | STEPS[variant]))
    model = _model(run, device)
    method, optimizer = methods.build(run, EXAMPLES, model), torch.optim.SGD(model.parameters(), lr=run.lr, fused=True)
    x, y = _images(size * run.augmult, device), torch.arange(size, device=device) % 10
    return step_of(method, model, optimizer, x, y)


def tested(loop: bool, device: torch.device) -> Step:
    """v2's test phase: every image with the public ones; all at once, or as printed, one after the other."""
    images, public = _images(TEST_IMAGES, device), _images(TEST_PUBLIC, device)
    batched = WithPublic(_network("public_batch", device), public, statistics="per_example").eval()
    single = _network("batch", device).train()

    @torch.no_grad()
    def at_once() -> None:
        batched(images)

    @torch.no_grad()
    def one_by_one() -> None:
        for image in images.split(1):
            single(torch.cat([image, public]))

    return one_by_one if loop else at_once


def measure(device: torch.device, *, rounds: int = ROUNDS, size: int = BATCH) -> dict[str, dict[str, Numbers]]:
    """{"LeNet-5, a step" | "LeNet-5, v2's test phase": {variant: numbers}}."""
    steps = ratios({variant: step(variant, size, device) for variant in STEPS}, rounds=rounds, batch_size=size)
    memory = peak_memory({variant: partial(step, variant) for variant in STEPS}, size, device)
    for variant, numbers in steps.items():
        numbers |= memory[variant]
    loops = {"in batches": tested(loop=False, device=device), "one image at a time": tested(loop=True, device=device)}
    test = ratios(loops, rounds=min(rounds, TEST_ROUNDS), batch_size=TEST_IMAGES)
    return {"LeNet-5, a step": steps, "LeNet-5, v2's test phase": test}
