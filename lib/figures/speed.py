"""What a step costs, as bars: ratios of time and of peak memory to the first variant's, as the non-private step's."""

from collections.abc import Iterable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from lib.figures import scale

TICKS = (0.5, 0.75, 1, 1.5, 2, 5, 10, 20)
APART = 0.17  # of a bar, and of a dot, from the middle of their line


def ratios(results: dict[str, dict[str, dict[str, float]]], *, aim: float | None = None) -> Figure:
    """A panel for each network, all on one logarithmic scale; for each variant a bar from × 1 to its time, with
    quartiles over rounds, and below it a dot for its peak memory, each with its number.

    ``aim``: a ratio to be marked, none by default.
    """
    variants = list(dict.fromkeys(name for of_network in results.values() for name in of_network))
    size, how = (4.4 * len(results), 1.2 + 0.5 * len(variants)), {"sharex": True, "sharey": True, "squeeze": False}
    figure, panels = plt.subplots(1, len(results), figsize=size, layout="constrained", **how)
    for axes, (network, numbers) in zip(panels.flat, results.items(), strict=True):
        at = [variants.index(name) - APART for name in numbers]
        middle, low, high = ([v[key] for v in numbers.values()] for key in ("ratio", "low", "high"))
        spread = [[m - a for m, a in zip(middle, low, strict=True)], [b - m for m, b in zip(middle, high, strict=True)]]
        axes.barh(at, [m - 1 for m in middle], left=1, height=2 * APART, label="time")
        axes.errorbar(middle, at, xerr=spread, fmt="none", ecolor="black", elinewidth=1.5)
        memory = {name: v["memory"] for name, v in numbers.items() if "memory" in v}
        below = [variants.index(name) + APART for name in memory]
        if memory:
            axes.plot(list(memory.values()), below, "ko", markersize=4, label="peak memory")
        _tell(axes, zip((max(1, *ends) for ends in zip(middle, high, strict=True)), at, middle, strict=True))
        _tell(axes, zip(memory.values(), below, memory.values(), strict=True))
        if aim is not None:
            axes.axvline(aim, color="grey", linestyle=":", label="aim")
        axes.set(title=network, xlabel=f"× {next(iter(numbers))}, log scale", xscale="log")
        axes.grid(visible=False, axis="y")
    found = [n for of in results.values() for v in of.values() for n in (v["low"], v["high"], v.get("memory", 1.0))]
    axes.set(xlim=(min(0.95, 0.9 * min(found)), 1.5 * max(1.5, *found)))  # with room for the numbers
    scale.plain_ticks(axes.xaxis, FixedLocator(TICKS))
    panels[0, 0].set_yticks(range(len(variants)), variants)
    panels[0, 0].invert_yaxis()
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    plt.close(figure)
    return figure


def _tell(axes: Axes, numbers: Iterable[tuple[float, float, float]]) -> None:
    """Write each number to the right of its place, (x, y, number)."""
    for x, y, number in numbers:
        told = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": "x-small"}
        axes.annotate(f"{number:.2f}", (x, y), **told)
