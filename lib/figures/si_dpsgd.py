"""What SI-DPSGD claims and what holds, as frames and figures; pure functions of settings and stored results."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from lib import accounting, report
from lib.figures.dots import dots
from lib.store import Store
from lib.tables import Table


def claimed_and_true(
    *, noise_multiplier: float, batch_size: int, examples: int, epochs: int, delta: float = 1e-5
) -> pd.Series:
    """One setting of v1's algorithm 1: what v1's accountant claims, and what holds; Poisson sampling, constant steps.

    "θ_T alone" is exact for a linear loss, "all θ_t" the exact value for one participation per epoch in a fixed place;
    ``δ`` is the true one of θ_T at the claimed ε.
    """
    how = {"noise_multiplier": noise_multiplier, "sampling_prob": batch_size / examples}
    how["steps"] = epochs * (examples // batch_size)
    claimed = accounting.epsilon(**how, delta=delta, accountant="rdp_2020")
    return pd.Series(
        {
            "claimed ε": claimed,
            "the same by PLD": accounting.epsilon(**how, delta=delta),
            "true ε of θ_T alone": accounting.si_dpsgd_epsilon(**how, delta=delta),
            "true ε of all θ_t": accounting.si_dpsgd_epsilon(**how, delta=delta, released="transcript"),
            "true δ at the claimed ε": accounting.si_dpsgd_delta(epsilon=claimed, **how),
        }
    )


def claimed_and_true_drawn(**setting: float) -> Figure:
    """:func:`claimed_and_true` as dots."""
    found = claimed_and_true(**setting)
    true = found.pop("true δ at the claimed ε")
    return dots(found.to_frame("ε"), title=f"δ is {true:.3g} at the claimed ε, not {setting.get('delta', 1e-5):.0e}")


def against_power(table: Table, tier: str, store: Store, *, powers: dict[str, float], dashed: Sequence[str]) -> Figure:
    """Accuracy against p at equal proven ε: a line for each column; ``dashed`` rows, which have no p, as levels."""
    frame = report.results(table, tier, store)
    figure, axes = plt.subplots(figsize=(8.5, 4.4), layout="constrained")
    colours = dict(zip(table.columns, sns.color_palette("viridis", len(table.columns)), strict=True))
    for column, head in zip(table.columns, report.heads(table), strict=True):
        of_column = frame[frame["column"] == column]
        on_line = of_column[of_column["row"].isin(powers)].assign(p=lambda part: part["row"].map(powers))
        if len(on_line):
            sns.lineplot(
                on_line, x="p", y="accuracy", color=colours[column], label=head, marker="o", errorbar="se", ax=axes
            )
        for row, style in zip(dashed, ("--", ":"), strict=False):
            level = of_column[of_column["row"] == row]["accuracy"]
            if len(level):
                axes.axhline(level.mean(), color=colours[column], linestyle=style, linewidth=1)
    axes.set(title=f"{table.title}\n-- {dashed[0]}   ·· {dashed[-1]}", xlabel="p", ylabel="accuracy (%)")
    axes.title.set_fontsize("small")
    plt.close(figure)
    return figure


def price_of_the_sampler(*, noise_multiplier: float, sampling_prob: float, epochs: int, delta: float) -> pd.DataFrame:
    """The same noise, steps and batches of one size, under every sampler: ε by the accountant that covers it."""
    steps = epochs * int(1 / sampling_prob + 1e-9)
    how = {"noise_multiplier": noise_multiplier, "sampling_prob": sampling_prob, "steps": steps, "delta": delta}
    accountants = {"poisson": "pld", "with_replacement": "pld", "shuffled": "gdp", "fixed_order": "gdp"}
    lines = {
        sampler: {"accountant": name, "ε": accounting.epsilon(**how, sampler=sampler, accountant=name)}
        for sampler, name in accountants.items()
    }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("sampler")
