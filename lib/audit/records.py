"""The privacy blocks of stored records, computed again: what is proven today, and what the attack finds.

    python -m lib.audit records

Records are kept for years, and proofs get better; noise and steps are what the run had.  What is proven is so of
today's code: that the code of then did the same is assumed, and that its noise was added in float32 is said
(:mod:`lib.audit.last_digits`), or was a single draw of it, with what is known of the cost
(:mod:`lib.audit.float32_noise`).  The attack is that of :mod:`lib.audit.canaries` on the run's mechanism: its method,
sampler, noise, schedule and number of steps, with its data and its network replaced.  Runs that share a mechanism share
the attack, also one that was stored before.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from lib.audit import bounds, canaries, iterates
from lib.audit.float32_noise import BOUND, SPIKED, cut_off
from lib.data import Dataset
from lib.methods import Public
from lib.record import Record
from lib.run import Run
from lib.store import StoreError
from lib.train import Training, dataset_of

CANARIES, OF_ONE_RUN = 60_000, 5_000  # at most; where only the test of one run holds, more cost more δ than they tell
ITERATES = {"last": "the last iterate", "transcript": "every iterate, by the likelihood ratio"}
BY_EPOCH = "every iterate, by the likelihood ratio of whole epochs"
TOLERANCE = 1e-3  # relative, between the ε claimed then and now
ROUNDING = 1e-6  # relative, between the same ε on two machines at most
CANCELLED = "2026-11-22T13:39:31"  # until then norms of positions that cancel were not rounded up
# What the attack does not depend on; the step size scales all scores.
ANY = {"dataset": "", "model": "lenet5", "activation": "relu", "lr": 1.0, "seed": 0, "validation_examples": 0}
ANY |= {"augmentation": "none", "augmult": 1, "input_scale": "unit"}


Mechanism = tuple[Run, float]  # a run's, with its sampling probability, so on that many examples
Audit = dict[str, Any] | None  # {"epsilon", "confidence", "attack"}; None where no attack fits


def stored(records: Iterable[Record]) -> dict[Mechanism, Audit]:
    """What today's attack found, by mechanism, in those of ``records`` that have it."""
    found = ((record, record["privacy"]["audited"]) for record in records)
    return {_mechanism(record): audit for record, audit in found if audit and audit["attack"] == attack(_run(record))}


def block(record: Record, known: dict[Mechanism, Audit]) -> dict[str, Any]:
    """The record's privacy block as it would be today; its audit is looked up in ``known``, or made and added there.

    Raises ``StoreError`` if steps or claimed ε are not those of the record: then the code no longer does what it did.
    """
    run, old = _run(record), record["privacy"]
    if old["neighbouring_relation"] is None:
        return old
    training = Training(run, torch.device("cpu"))
    training.attach(_data(run, training.device))
    new = training.privacy()
    if new["steps"] != old["steps"] or not _alike(new["claimed"], old["claimed"]):
        raise StoreError(
            f"{record['id']}: expected {old['steps']} steps and a claim of {old['claimed']}; "
            f"got {new['steps']} and {new['claimed']}"
        )
    mechanism = _mechanism(record)
    if not _attacked(run):
        known[mechanism] = None
    elif mechanism not in known:
        known[mechanism] = audited(run, training.method.sampler.examples)
    claimed = {name: _settled(epsilon, old["claimed"][name]) for name, epsilon in new["claimed"].items()}
    proven = new["proven"] | {"epsilon": _settled(new["proven"]["epsilon"], old["proven"]["epsilon"])}
    if proven["epsilon"] is not None:
        proven["assumes"] += _of_then(record, training)
    return new | {"claimed": claimed, "proven": proven, "audited": known[mechanism]}


def _of_then(record: Record, training: Training) -> str:
    """What is assumed of the code that trained a record, beside what today's says."""
    commit = (record["env"].get("git_commit") or "unknown")[:7] + "+" * bool(record["env"].get("dirty"))
    assumed = f"; the code of commit {commit}, which trained it, clips, draws and counts like today's"
    flags, run = record["env"]["flags"], training.run
    if flags.get("noise") == "float64":
        return assumed
    assumed += ", but for noise that was added in float32: what its last digits tell is not counted"
    if flags.get("draws") == 2:
        return assumed
    if not flags.get("whole_tail"):
        assumed += ", but for norms that may have come out too small, of long vectors by up to 1e-3"
        assumed += ", of positions that cancel by more" * (record["env"]["started"] < CANCELLED)
    spiked = f"its density, which has spikes from {SPIKED[0]:g} of them on, is not counted"
    if flags.get("whole_tail"):
        return f"{assumed}, but for noise of one float32 draw up to 4 standard deviations: {spiked}"
    assumed += f", and for noise of one float32 draw, cut off at {BOUND:.2f} standard deviations"
    in_parts = run.clipped != "gradient" or run.method == "adaptive_layerwise" or run.statistics_share
    if run.method == "si_dpsgd" or in_parts:  # sums of steps, or parts of a gradient, with a draw each
        return f"{assumed}: what that adds to δ and {spiked}"
    events = training.method.budget.events[run.pca_noise_multiplier is not None :]  # a private PCA's is in float64
    coordinates = sum(p.numel() for p in training.model.parameters() if p.requires_grad)
    return f"{assumed}, which adds at least {_rounded_down(cut_off(events, coordinates))} to δ: {spiked}"


def _rounded_down(value: float) -> str:
    """To one digit."""
    digit = 10.0 ** math.floor(math.log10(value))
    return f"{math.floor(value / digit) * digit:.0e}"


def _data(run: Run, device: torch.device) -> tuple[Dataset, Public | None]:
    """The run's; of pretrained features, which may not be here, the images that they were made from: as many."""
    if not run.pretrained_on:
        return dataset_of(run, device)
    images, public = dataset_of(replace(run, pretrained_on="", pretraining_epochs=0, pretraining_norm=""), device)
    return replace(images, pretrained_on=run.pretrained_on), public


def _run(record: Record) -> Run:
    """The record's run, with the noise that it had."""
    run, noise_multiplier = Run(**record["run"]), record["privacy"]["noise_multiplier"]
    private = record["privacy"]["neighbouring_relation"] is not None
    if private and run.noise_multiplier is None:
        return replace(run, noise_multiplier=noise_multiplier, epsilon=None)
    return run


def _mechanism(record: Record) -> Mechanism:
    return replace(_run(record), **ANY), record["privacy"]["sampling_prob"]


def _attacked(run: Run) -> bool:
    """Not where the canaries do not fit, nor without noise."""
    return canaries.fits(run) and bool(run.noise_multiplier)


def attack(run: Run) -> str:
    """The attack on a run, in words."""
    independent = run.sampler in canaries.INDEPENDENT
    test = "many independent runs" if independent else "one run (Steinke et al. 2023)"
    of = " or of opposite gradient" * (run.neighbouring_relation == "replace_one")
    by_epoch = _released(run) == "transcript" and run.sampler in iterates.ONCE_AN_EPOCH
    read = BY_EPOCH if by_epoch else ITERATES[_released(run)]
    return f"up to {_canaries(run)} canaries in orthogonal coordinates{of}, {read}, as {test}"


def audited(run: Run, examples: int) -> Audit:
    """What the attack finds."""
    how = {"canaries": min(_canaries(run), examples), "released": _released(run)}
    found = canaries.attack(replace(run, **ANY), examples=examples, **how)
    return {"epsilon": found.epsilon(), "confidence": bounds.CONFIDENCE, "attack": attack(run)}


def _canaries(run: Run) -> int:
    return CANARIES if run.sampler in canaries.INDEPENDENT else OF_ONE_RUN


def _released(run: Run) -> str:
    """Every iterate, of which proofs are; of SI-DPSGD the last alone, which v1 tests, and which refutes its claim."""
    return "last" if run.method == "si_dpsgd" else "transcript"


def _settled(new: float | None, old: float | None) -> float | None:
    """The ε of the record where today's differs by rounding alone."""
    return old if None not in (new, old) and math.isclose(new, old, rel_tol=ROUNDING) else new


def _alike(new: dict[str, float | None], old: dict[str, float | None]) -> bool:
    return new.keys() == old.keys() and all(
        (now is None) == (then is None) and (now is None or math.isclose(now, then, rel_tol=TOLERANCE))
        for now, then in zip(new.values(), old.values(), strict=True)
    )
