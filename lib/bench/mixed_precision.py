"""A step of ordinary training in float32 and in mixed precision, with batch norm: small networks and deep ones."""

import torch

from lib import environment, methods, models
from lib.bench import NotHereError, Numbers, Step, ratios
from lib.generators import generator, seed_for
from lib.run import Run
from lib.run.allowed import PRECISIONS

BATCH = 128
NETWORKS = {  # name → model, rounds, input
    "LeNet-5": ("lenet5", 40, (1, 28, 28)),
    "ResNet-18, narrow": ("resnet18_narrow", 8, (3, 32, 32)),
    "VGG-16, narrow": ("vgg16_narrow", 8, (3, 32, 32)),
}


def step(network: str, precision: str, device: torch.device) -> Step:
    """One step, as :mod:`lib.train` takes it."""
    name, _, shape = NETWORKS[network]
    run = Run(dataset="", model=name, norm="batch", lr=1e-3, epochs=1, batch_size=BATCH)
    torch.manual_seed(seed_for(0, "init"))
    model = models.build(name, norm="batch").to(device)
    method, optimizer = methods.build(run, BATCH, model), torch.optim.Adam(model.parameters(), lr=run.lr, fused=True)
    x = torch.rand(BATCH, *shape, generator=generator(0, "bench")).to(device, memory_format=torch.channels_last)
    y = torch.arange(BATCH, device=device) % 10

    def once() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            method.backward(model, x, y, 0)
        method.update(model, optimizer)

    return once


def measure(device: torch.device, *, rounds: int | None = None) -> dict[str, dict[str, Numbers]]:
    """{network: {precision: numbers}}; :class:`NotHereError` where bfloat16 is emulated."""
    if not environment.computes_in_bfloat16():
        raise NotHereError("this processor emulates bfloat16, which is slower than float32")
    results = {}
    for network, (_, default, _) in NETWORKS.items():
        steps = {precision: step(network, precision, device) for precision in PRECISIONS}
        results[network] = ratios(steps, rounds=rounds or default, batch_size=BATCH)
    return results
