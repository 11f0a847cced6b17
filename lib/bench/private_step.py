"""A private step (clip, sum, noise, update) against a non-private one, and against Opacus; time and peak memory.

Opacus comes with ``pip install '.[bench]'``; without it its variants are left out.  Its noise and clipping are those of
ours: clip norm 1, noise multiplier 1, plain SGD.
"""

import warnings
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, ResNet

from lib import gaussian
from lib.bench import Numbers, Step, peak_memory, ratios
from lib.generators import generator, seed_for
from lib.grads import clipped_sum
from lib.layers import NoisyLSTM
from lib.methods.dpsgd import MICROBATCH, as_vector, cross_entropy, parts

CLIP_NORM, NOISE_MULTIPLIER, LR = 1.0, 1.0, 0.1
NETWORKS = {  # batch size and rounds; a smaller batch where a step takes seconds on a CPU
    "LeNet-5": (256, 30),
    "convnet, GroupNorm": (256, 12),
    "ResNet-18, GroupNorm": (32, 8),
    "BiLSTM(50→32)": (256, 20),
}


class BiLSTM(nn.Module):
    """Word vectors (B, T, 50) → logits (B, 4), by the mean of the hidden states."""

    def __init__(self, lstm: nn.Module) -> None:
        super().__init__()
        self.lstm, self.output = lstm, nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        states = self.lstm(x)
        return self.output((states[0] if isinstance(states, tuple) else states).mean(1))


class Block(BasicBlock):
    """torchvision's, which adds its shortcut in place, where Opacus' hooks cannot follow."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def network(name: str, *, lstm: Callable[..., nn.Module] = NoisyLSTM) -> nn.Module:
    """A network of the bench, from torch's own layers; ``lstm`` is the LSTM layer's class."""
    torch.manual_seed(seed_for(0, "init"))
    if name == "LeNet-5":
        return nn.Sequential(
            *(nn.Conv2d(1, 6, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )
    if name == "convnet, GroupNorm":  # bc's convnet with group norm for batch norm
        widths = (3, 32, 64, 64, 128)
        blocks = [
            (nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.GroupNorm(8, o), nn.AvgPool2d(2) if o < 128 else pool)
            for i, o, pool in zip(widths, widths[1:], [nn.AdaptiveAvgPool2d(1)] * 4, strict=False)
        ]
        return nn.Sequential(*(layer for block in blocks for layer in block), nn.Flatten(), nn.Linear(128, 10))
    if name == "ResNet-18, GroupNorm":
        model = ResNet(Block, [2, 2, 2, 2], num_classes=10, norm_layer=partial(nn.GroupNorm, 16))
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()  # for 32×32 images
        return model
    return BiLSTM(lstm(50, 32, bidirectional=True))


def batch(name: str, device: torch.device, size: int) -> tuple[Tensor, Tensor]:
    shape = {"LeNet-5": (1, 28, 28), "BiLSTM(50→32)": (20, 50)}.get(name, (3, 32, 32))
    draws = generator(0, "bench")
    x = torch.rand(size, *shape, generator=draws)
    return x.to(device), torch.randint(4, (size,), generator=draws).to(device)


def non_private(name: str, size: int, device: torch.device) -> Step:
    model, (x, y) = network(name).to(device), batch(name, device, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def once() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return once


def ours(implementation: str, name: str, size: int, device: torch.device) -> Step:
    how = {"implementation": implementation, "microbatch_size": MICROBATCH[device.type]}
    model, (x, y) = network(name).to(device), batch(name, device, size)
    optimizer, noise = torch.optim.SGD(model.parameters(), lr=LR), generator(0, "gradient noise", device)

    def once() -> None:
        total, _ = clipped_sum(model, cross_entropy, x, y, clip_norm=CLIP_NORM, **how)
        hidden = gaussian.hide(as_vector(list(total.values())), NOISE_MULTIPLIER * CLIP_NORM, noise)
        for parameter, part in parts(hidden.div_(size), list(model.parameters())):
            parameter.grad = part
        optimizer.step()

    return once


def opacus(mode: str, name: str, size: int, device: torch.device) -> Step:
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.layers import DPLSTM
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    model = network(name, lstm=partial(DPLSTM, batch_first=True))
    for module in model.modules():  # Opacus refuses outputs that are changed in place
        if isinstance(module, nn.ReLU):
            module.inplace = False
    model, (x, y) = model.to(device), batch(name, device, size)
    how = {"noise_multiplier": NOISE_MULTIPLIER, "max_grad_norm": CLIP_NORM, "expected_batch_size": size}
    if mode == "hooks":
        wrapped = GradSampleModule(model)
        optimizer = DPOptimizer(torch.optim.SGD(wrapped.parameters(), lr=LR), **how)
        loss = nn.CrossEntropyLoss()
    else:
        wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP_NORM, use_ghost_clipping=True)
        optimizer = DPOptimizerFastGradientClipping(torch.optim.SGD(wrapped.parameters(), lr=LR), **how)
        loss = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="mean"))

    def once() -> None:
        with warnings.catch_warnings(action="ignore"):  # of torch, about Opacus' hooks
            optimizer.zero_grad()
            loss(wrapped(x), y).backward()
            optimizer.step()

    return once


def variants() -> dict[str, Callable[[str, int, torch.device], Step]]:
    """What is compared, the non-private step first."""
    found = {"non-private": non_private, "ours, fast": partial(ours, "fast")}
    found["ours, reference"] = partial(ours, "reference")
    try:
        import opacus as _  # noqa: F401
    except ImportError:
        return found
    return found | {"Opacus, hooks": partial(opacus, "hooks"), "Opacus, ghost clipping": partial(opacus, "ghost")}


def measure(device: torch.device, networks: dict[str, tuple[int, int]] = NETWORKS) -> dict[str, dict[str, Numbers]]:
    """{network: {variant: numbers}}."""
    results = {}
    for name, (size, rounds) in networks.items():
        makes = {variant: partial(make, name) for variant, make in variants().items()}
        memory = peak_memory(makes, size, device)
        steps = {variant: make(size, device) for variant, make in makes.items()}
        results[name] = ratios(steps, rounds=rounds, batch_size=size)
        for variant, numbers in results[name].items():
            numbers |= memory[variant]
    return results
