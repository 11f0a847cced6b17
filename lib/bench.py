"""What a training step costs, as ratios within one process: ``make bench``.

Weight noise against the same network without it, and against plain torch layers.  The variants take turns, step by
step, so that a machine whose speed drifts slows all of them; quoted are the median ratio and its quartiles.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import torch
from torch import nn

from lib import environment, methods, models
from lib.generators import generator, seed_for
from lib.layers import NoisyConv2d, NoisyLinear, set_weight_noise
from lib.run import Run
from lib.store import BENCHMARKS

BATCH = 256
ROUNDS, WARM_UP = 60, 5


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


def step(model: nn.Module, run: Run, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    """One training step of ``model``: gradient and Adam."""
    method, optimizer = methods.build(run, BATCH), torch.optim.Adam(model.parameters(), lr=run.lr, fused=True)

    def once() -> None:
        method.backward(model, x, y, 0)
        optimizer.step()
        if x.is_cuda:
            torch.cuda.synchronize()

    return once


def ratios(steps: dict[str, Callable[[], None]], base: str) -> dict[str, dict[str, float]]:
    """Median and quartiles of each variant's time over that of ``base`` in the same round."""
    seconds = {name: [] for name in steps}
    for round_ in range(WARM_UP + ROUNDS):
        for name, once in steps.items():
            started = time.perf_counter()
            once()
            if round_ >= WARM_UP:
                seconds[name].append(time.perf_counter() - started)
    result = {}
    for name in steps:
        low, middle, high = np.quantile(np.divide(seconds[name], seconds[base]), [0.25, 0.5, 0.75])
        result[name] = {
            "ratio": middle,
            "low": low,
            "high": high,
            "milliseconds": 1e3 * float(np.median(seconds[name])),
        }
    return result


def noisy_step(device: torch.device) -> dict[str, dict[str, dict[str, float]]]:
    """The bench: {network: {variant: numbers}}."""
    draws = generator(0, "bench")
    x = torch.rand(BATCH, 1, 28, 28, generator=draws).to(device)
    y = torch.randint(10, (BATCH,), generator=draws).to(device)
    results = {}
    for name in ("lenet_300_100", "lenet5"):
        run = Run(dataset="mnist", model=name, norm="batch", lr=1e-3, epochs=1, batch_size=BATCH)
        networks = {}
        for variant, std in {"noisy layers, σ = 0": 0.0, "noisy layers, σ = 1": 1.0}.items():
            torch.manual_seed(seed_for(0, "init"))
            networks[variant] = models.build(name, norm="batch").to(device)
            set_weight_noise(networks[variant], std, generator=generator(0, "weight noise", device))
        networks = {"torch's layers": plain_twin(models.build(name, norm="batch")).to(device)} | networks
        results[name] = ratios(
            {variant: step(model, run, x, y) for variant, model in networks.items()}, "torch's layers"
        )
    return results


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    started, clock = datetime.now(UTC), time.perf_counter()
    results = noisy_step(device)
    env = environment.describe(device, started=started, seconds=time.perf_counter() - clock, data_sha256="")
    path = BENCHMARKS / f"noisy_step-{device.type}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"results": results, "batch_size": BATCH, "env": env}, indent=1, ensure_ascii=False) + "\n"
    )
    for name, variants in results.items():
        for variant, numbers in variants.items():
            print(f"{name:14} {variant:20} × {numbers['ratio']:.2f} [{numbers['low']:.2f}, {numbers['high']:.2f}]")


if __name__ == "__main__":
    main()
