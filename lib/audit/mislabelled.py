"""The weak, realistic attack: wrongly labelled images among real ones, and the losses of the trained network on them.

    python -m lib.audit mislabelled

Of m MNIST images with a wrong label each, every one is in the training set by a fair coin.  A network that has seen one
has a smaller loss on it; Steinke et al. 2023 turn the guesses into a lower bound on ε.  The attacker sees the network
that is tested and chooses neither gradients nor initial weights, so what it finds is far below what holds.
"""

from dataclasses import replace
from typing import Any

import torch

from lib import data, models
from lib.audit.attacked import coins, train
from lib.audit.bounds import CONFIDENCE
from lib.audit.canaries import Attack
from lib.generators import generator, seed_for
from lib.methods.dpsgd import cross_entropy
from lib.run import Run

EXAMPLES, CANARIES = 10_000, 2_000
NON_PRIVATE = Run(dataset="mnist", model="lenet5", activation="tanh", lr=1e-3, epochs=30, batch_size=256)
DPSGD = replace(NON_PRIVATE, method="dpsgd", sampler="poisson", optimizer="sgd", lr=1.0, clip_norm=0.5, epsilon=8.0)
V1 = replace(DPSGD, method="si_dpsgd", lr=0.5, clip_norm=3.1, accountant="rdp_2020")
RUNS = {
    "non-private": NON_PRIVATE,
    "DPSGD, ε = 8": DPSGD,
    "SI-DPSGD, claimed ε = 8": V1,
    "SI-DPSGD, claimed ε = 1": replace(V1, epsilon=1.0),
    "SI-DPSGD, claimed ε = 8, at µ_T": replace(V1, test_at="mu"),
    "SI-DPSGD, claimed ε = 1, at µ_T": replace(V1, epsilon=1.0, test_at="mu"),
}


def measure() -> dict[str, dict[str, Any]]:
    """{run: {"run", "epsilon", "accuracy" (percent, test images), "canary_accuracy" (on included ones' labels)}}."""
    return {name: _measured(run) for name, run in RUNS.items()}


def _measured(run: Run) -> dict[str, Any]:
    images = data.load(run.dataset)
    chosen = torch.randperm(len(images.train_labels), generator=generator(0, "audit images"))[:EXAMPLES]
    x, y = data.as_input(images.train_inputs[chosen]), images.train_labels[chosen].clone()
    wrong = torch.randint(1, images.classes, (CANARIES,), generator=generator(0, "audit labels"))
    y[:CANARIES] = (y[:CANARIES] + wrong) % images.classes
    included = coins(run, CANARIES)
    present = torch.ones(EXAMPLES, dtype=torch.bool)
    present[:CANARIES] = included
    torch.manual_seed(seed_for(run.seed, "init"))
    model = models.build(run.model, activation=run.activation)
    with train(run, model, x, y, present), torch.no_grad():
        losses = cross_entropy(model(x[:CANARIES]), y[:CANARIES])
        right = model(x[:CANARIES]).argmax(1) == y[:CANARIES]
        tested = model(data.as_input(images.test_inputs)).argmax(1) == images.test_labels
    found = Attack(-losses.double().numpy(), included.numpy(), run.delta, run.sampler)
    return {
        "run": run.hashed,
        "epsilon": found.one_run(),
        "confidence": CONFIDENCE,
        "accuracy": 100 * tested.float().mean().item(),
        "canary_accuracy": 100 * right[included].float().mean().item(),
    }
