"""A step of batch clipping (one backward pass, clip, noise, update) against a step of plain SGD; bc's networks."""

import torch
from torch import Tensor

from lib import methods, models
from lib.bench import Numbers, Step, ratios, step_of
from lib.generators import generator, seed_for
from lib.run import Run

NETWORKS = {  # name → model, batch size, rounds, input
    "BN-LeNet-5": ("lenet5_tanh", 64, 60, (1, 32, 32)),
    "convnet": ("convnet", 64, 40, (3, 32, 32)),
    "ResNet-18": ("resnet18", 64, 6, (3, 32, 32)),
}
PRIVATE = {
    "sampler": "without_replacement",
    "neighbouring_relation": "replace_one",
    "clip_norm": 0.1,
    "noise_multiplier": 1.0,
}
VARIANTS = {
    "SGD": {},
    "BC, full gradient": {"method": "batch_clipping", **PRIVATE},
    "BC, layerwise": {"method": "adaptive_layerwise", "gradient_norm_examples": 64, **PRIVATE},
}
EXAMPLES, PUBLIC = 50_000, 64


def step(network: str, variant: str, device: torch.device) -> Step:
    """One step of ``variant``; what is done once an epoch (the expected gradient norms) is done before."""
    name, size, _, shape = NETWORKS[network]
    settings = VARIANTS[variant] | ({"mini_set_size": size} if variant != "SGD" else {})
    settings |= {"model": name, "norm": "batch", "batch_size": size, "public_examples": PUBLIC}
    run = Run(dataset="", lr=0.1, epochs=1, **settings)
    torch.manual_seed(seed_for(0, "init"))
    model = models.build(name, norm="batch").to(device)
    method, optimizer = methods.build(run, EXAMPLES, model), torch.optim.SGD(model.parameters(), lr=run.lr, fused=True)
    method.prepare(model, _batch(PUBLIC, shape, device))
    model.train()
    x, y = _batch(size, shape, device)
    return step_of(method, model, optimizer, x, y)


def _batch(size: int, shape: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    draws = generator(0, "bench")
    x = torch.rand(size, *shape, generator=draws)
    return x.to(device), torch.randint(10, (size,), generator=draws).to(device)


def measure(device: torch.device, *, rounds: int | None = None) -> dict[str, dict[str, Numbers]]:
    """{network: {variant: numbers}}."""
    results = {}
    for network, (_, size, default, _) in NETWORKS.items():
        steps = {variant: step(network, variant, device) for variant in VARIANTS}
        results[network] = ratios(steps, rounds=rounds or default, batch_size=size)
    return results
