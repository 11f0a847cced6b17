"""Step sizes over a run, as factors on the run's η.

``constant``              1
``linear``                falls to 0 over the run, per step
``exponential``           × ``lr_decay`` after every epoch (v1's code: .9; bc: .9)
``linear_then_constant``  falls to ``lr_decay`` over the first ``lr_decay_epochs`` epochs and stays (abadi: .1 → .052)
``one_cycle``             rises from 1/25 to 1 over 30 % of the run, then falls to 4e-6, both along a cosine (v1's code:
                          torch's OneCycleLR; the cycle that torch also makes in the momentum is left out)

    >>> [round(factor("linear_then_constant", t, steps=40, steps_per_epoch=10, decay=0.52, decay_epochs=2), 2)
    ...  for t in (0, 10, 20, 30)]
    [1.0, 0.76, 0.52, 0.52]
"""

import math

NAMES = ("constant", "linear", "exponential", "linear_then_constant", "one_cycle")
START, PEAK_AT, END = 1 / 25, 0.3, 1 / 25e4  # of one_cycle


def factor(
    name: str, step: int, *, steps: int, steps_per_epoch: int, decay: float = 1.0, decay_epochs: int = 0
) -> float:
    """The factor at ``step`` = 0, 1, … of ``steps``; ``ValueError`` for an unknown schedule."""
    if name == "constant":
        return 1.0
    if name == "linear":
        return 1.0 - step / max(steps, 1)
    if name == "exponential":
        return decay ** (step // steps_per_epoch)
    if name == "linear_then_constant":
        return 1.0 - (1.0 - decay) * min(1.0, step / max(decay_epochs * steps_per_epoch, 1))
    if name == "one_cycle":
        peak = PEAK_AT * steps - 1
        if step <= peak:
            return _cosine(START, 1.0, step / peak)
        return _cosine(1.0, END, min(1.0, (step - peak) / max(steps - 1 - peak, 1e-9)))
    raise ValueError(f"lr_schedule: expected one of {', '.join(NAMES)}; got {name!r}")


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
