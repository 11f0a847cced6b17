"""Many runs of LeNet-5 at once against one after another: 10 seeds × 5 σ of v2 Table 2, and as many of DPSGD.

A step here is a step of all of them, gradient and update, each with its own parameters, noise and batch.  On a CPU the
third way is that of a sweep: a worker, with one thread, for every core.  Every process keeps the memory it frees, as a
sweep's workers do (:mod:`lib.bench.kept_memory`): stacked tensors are large, and to be handed them anew takes a
good part of a step of all.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from multiprocessing import get_context

import torch
from joblib import cpu_count

from lib import environment, methods, models
from lib.bench import Numbers, Step, ratios
from lib.generators import generator, seed_for
from lib.layers import set_weight_noise
from lib.run import Run

SEEDS, NOISE, BATCH, ROUNDS = 10, (0.0, 0.01, 0.1, 1.0, 2.0), 256, 8
OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
PRIVATE = {"method": "dpsgd", "optimizer": "sgd", "sampler": "poisson", "clip_norm": 0.5}
KINDS = {  # how the runs are trained → the runs, for every σ or noise multiplier
    "with noisy weights": lambda std: {"weight_noise_std": std},
    "by DPSGD": lambda std: PRIVATE | {"noise_multiplier": 1.0 + std},
}


def step(kind: str, device: torch.device, *, seeds: range, together: bool) -> Step:
    """A step of every run."""
    settings = {"dataset": "mnist", "model": "lenet5", "lr": 1e-3, "epochs": 1, "batch_size": BATCH}
    runs = [Run(seed=seed, **settings, **KINDS[kind](std)) for seed in seeds for std in NOISE]
    networks, of_each, optimizers, batches = [], [], [], []
    for run in runs:
        torch.manual_seed(seed_for(run.seed, "init"))
        networks.append(models.build("lenet5").to(device))
        set_weight_noise(networks[-1], run.weight_noise_std, generator=generator(run.seed, "weight noise", device))
        of_each.append(methods.build(run, 60_000, networks[-1]))
        optimizers.append(OPTIMIZERS[run.optimizer](networks[-1].parameters(), lr=run.lr, fused=True))
        x = torch.rand(BATCH, 1, 28, 28, generator=generator(run.seed, "bench"))
        batches.append((x.to(device), torch.arange(BATCH, device=device) % 10))

    def once() -> None:
        if together:
            type(of_each[0]).backward_together(of_each, networks, batches, 0)
        for method, network, optimizer, batch in zip(of_each, networks, optimizers, batches, strict=True):
            if not together:
                method.backward(network, *batch, 0)
            method.update(network, optimizer)

    return once


@contextmanager
def workers(seeds: int) -> Iterator[Callable[[str], Step]]:
    """What makes, of a kind, the same step, by a process for every core, each with its share of the seeds."""
    cores = min(seeds, cpu_count())
    shares = [range(first, seeds, cores) for first in range(cores)]
    with ExitStack() as stack:
        of_one = {"mp_context": get_context("spawn"), "initializer": environment.keep_freed_memory}
        pools = [stack.enter_context(ProcessPoolExecutor(1, **of_one)) for _ in shares]

        def once(kind: str) -> None:
            for done in [pool.submit(_share, kind, share) for pool, share in zip(pools, shares, strict=True)]:
                done.result()

        yield lambda kind: partial(once, kind)


def _share(kind: str, seeds: range) -> None:
    _step_of_worker(kind, seeds)()


@cache
def _step_of_worker(kind: str, seeds: range) -> Step:
    torch.set_num_threads(1)
    return step(kind, torch.device("cpu"), seeds=seeds, together=False)


def measure(device: torch.device, *, rounds: int = ROUNDS) -> dict[str, dict[str, Numbers]]:
    """{kind: {"one after another" | "together" | "by workers": numbers}}; the last on a CPU alone.

    In a process of its own, as an allocator that is told to keep its memory cannot be told otherwise afterwards.
    """
    told = environment.keep_freed_memory
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=told) as pool:
        return pool.submit(_measure, device, rounds, SEEDS).result()


def _measure(device: torch.device, rounds: int, seeds: int) -> dict[str, dict[str, Numbers]]:
    results = {}
    with workers(seeds) if device.type == "cpu" else nullcontext() as by_workers:
        for kind in KINDS:
            steps = {
                "one after another": step(kind, device, seeds=range(seeds), together=False),
                "together": step(kind, device, seeds=range(seeds), together=True),
            }
            if by_workers is not None:
                steps["by workers"] = by_workers(kind)
            results[f"{seeds * len(NOISE)} × LeNet-5 {kind}"] = ratios(steps, rounds=rounds, batch_size=BATCH)
    return results
