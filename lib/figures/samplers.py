"""The same noise and batches under other samplers than those that are counted; pure functions of the settings."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from lib import accounting


def price(*, noise_multiplier: float, sampling_prob: float, epochs: int, delta: float) -> pd.DataFrame:
    """The same noise, steps and batches of one size, under every sampler: ε by the accountant that covers it, and what
    it is at least of shuffled epochs; an epoch is the whole batches in 1/q."""
    of_epoch = int(1 / sampling_prob + 1e-9)
    how = {"noise_multiplier": noise_multiplier, "sampling_prob": sampling_prob, "steps": epochs * of_epoch}
    accountants = dict.fromkeys(("poisson", "with_replacement", "balls_and_bins"), "pld")
    accountants |= dict.fromkeys(("shuffled", "fixed_order"), "gdp")
    lines = {
        sampler: {"accountant": name, "ε": accounting.epsilon(**how, delta=delta, sampler=sampler, accountant=name)}
        for sampler, name in accountants.items()
    }
    lines["shuffled"]["at least"] = accounting.shuffled_epsilon_at_least(
        noise_multiplier=noise_multiplier, steps_per_epoch=of_epoch, epochs=epochs, delta=delta
    )
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("sampler")


def shuffled(*, noise_multiplier: float, steps_per_epoch: int, epochs: Sequence[int], delta: float) -> pd.DataFrame:
    """One line for each number of epochs: ε by PLD if their batches were Poisson samples or balls and bins, and what it
    is at least and at most of shuffled ones."""

    def counted(epoch: int, **how: str) -> float:
        return accounting.epsilon(
            noise_multiplier=noise_multiplier,
            sampling_prob=1 / steps_per_epoch,
            steps=epoch * steps_per_epoch,
            delta=delta,
            **how,
        )

    lines = {
        epoch: {
            "Poisson": counted(epoch),
            "balls and bins": counted(epoch, sampler="balls_and_bins"),
            "shuffled, at least": accounting.shuffled_epsilon_at_least(
                noise_multiplier=noise_multiplier, steps_per_epoch=steps_per_epoch, epochs=epoch, delta=delta
            ),
            "at most": counted(epoch, sampler="shuffled", accountant="gdp"),
        }
        for epoch in epochs
    }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("epochs")


def shuffled_drawn(frame: pd.DataFrame, *, title: str) -> Figure:
    """The lines of :func:`shuffled` on logarithmic axes; what shuffled batches may cost is shaded."""
    *others, least, most = frame.columns
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    axes.fill_between(frame.index, frame[least], frame[most], alpha=0.25, label="shuffled")
    for name, style in zip(others, ("-", "--"), strict=True):
        axes.plot(frame.index, frame[name], style, marker=".", label=name)
    axes.set(title=title, xlabel="epochs", ylabel="ε", xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    figure.legend(loc="outside right center", fontsize="small")
    plt.close(figure)
    return figure
