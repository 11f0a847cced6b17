"""What a step costs, as bars: ratios of time and of peak memory to the non-private step."""

import math

import matplotlib.pyplot as plt
from matplotlib.figure import Figure


def ratios(results: dict[str, dict[str, dict[str, float]]], *, aim: float | None = None) -> Figure:
    """A panel for each network; a bar for each variant, with quartiles over rounds, and a dot for its peak memory.

    ``aim``: a ratio to be marked, none by default.
    """
    figure, panels = plt.subplots(
        1, len(results), figsize=(4.4 * len(results), 3.2), squeeze=False, sharey=True, layout="constrained"
    )
    for axes, (network, variants) in zip(panels.flat, results.items(), strict=True):
        middle, low, high = ([v[key] for v in variants.values()] for key in ("ratio", "low", "high"))
        spread = [[m - a for m, a in zip(middle, low, strict=True)], [b - m for m, b in zip(middle, high, strict=True)]]
        axes.barh(list(variants), middle, xerr=spread, height=0.6, label="time")
        memory = {name: v["memory"] for name, v in variants.items() if math.isfinite(v.get("memory", math.nan))}
        axes.plot(list(memory.values()), list(memory), "ko", label="peak memory")
        if aim is not None:
            axes.axvline(aim, color="grey", linestyle=":", label="aim")
        axes.set(title=network, xlabel="× non-private")
    panels.flat[0].invert_yaxis()
    panels.flat[0].legend(fontsize="small")
    plt.close(figure)
    return figure
