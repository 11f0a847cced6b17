"""Weight noise against the same network without it, and against plain torch layers; a step is gradient and Adam."""

import torch
from torch import nn

from lib import methods, models
from lib.bench import Numbers, Step, ratios, step_of
from lib.generators import generator, seed_for
from lib.layers import NoisyConv2d, NoisyLinear, set_weight_noise
from lib.run import Run

BATCH, ROUNDS = 256, 60


def plain_twin(model: nn.Sequential) -> nn.Sequential:
    """The same network, with the same weights, from torch's own layers."""
    layers = []
    for layer in model:
        twin = layer
        if isinstance(layer, NoisyLinear):
            twin = nn.Linear(layer.in_features, layer.out_features)
        elif isinstance(layer, NoisyConv2d):
            twin = nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, padding=layer.padding)
        twin.load_state_dict(layer.state_dict())
        layers.append(twin)
    return nn.Sequential(*layers)


def step(model: nn.Module, run: Run, x: torch.Tensor, y: torch.Tensor) -> Step:
    """One training step of ``model``."""
    method, optimizer = methods.build(run, BATCH, model), torch.optim.Adam(model.parameters(), lr=run.lr, fused=True)
    return step_of(method, model, optimizer, x, y)


def measure(device: torch.device, *, rounds: int = ROUNDS) -> dict[str, dict[str, Numbers]]:
    """{network: {variant: numbers}}."""
    draws = generator(0, "bench")
    x = torch.rand(BATCH, 1, 28, 28, generator=draws).to(device)
    y = torch.randint(10, (BATCH,), generator=draws).to(device)
    results = {}
    for name in ("lenet_300_100", "lenet5"):
        run = Run(dataset="mnist", model=name, norm="batch", lr=1e-3, epochs=1, batch_size=BATCH)
        networks = {"torch's layers": plain_twin(models.build(name, norm="batch")).to(device)}
        for variant, std in {"noisy layers, σ = 0": 0.0, "noisy layers, σ = 1": 1.0}.items():
            torch.manual_seed(seed_for(0, "init"))
            networks[variant] = models.build(name, norm="batch").to(device)
            set_weight_noise(networks[variant], std, generator=generator(0, "weight noise", device))
        steps = {variant: step(model, run, x, y) for variant, model in networks.items()}
        results[name] = ratios(steps, rounds=rounds, batch_size=BATCH)
    return results
