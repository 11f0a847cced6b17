"""ε by several ways of counting, as dots on one axis."""

import math

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter


def dots(frame: pd.DataFrame, *, title: str) -> Figure:
    """A dot with its number for each line of ``frame``, a colour for each column; ε on a logarithmic axis.  Numbers of
    the first column are above their dots and all others below, so that close dots of two columns can be read.

    A value that is NaN or infinite has no dot, and one of 0, which has no place on the axis, a number at its left end.
    """
    long = frame.rename_axis("way").melt(ignore_index=False, var_name="kind", value_name="value").reset_index()
    long["value"] = long["value"].where(long["value"].map(math.isfinite))
    several = len(frame.columns) > 1
    figure, axes = plt.subplots(figsize=(8, 1.4 + (0.55 if several else 0.4) * len(frame)), layout="constrained")
    how = {"palette": "colorblind", "jitter": False, "size": 9, "legend": several}
    positive = long["value"].where(long["value"] > 0)
    sns.stripplot(long.assign(value=positive), x="value", y="way", hue="kind", **how, ax=axes)
    left, right = (positive.min() / 3, positive.max() * 3) if positive.any() else (0.1, 10.0)
    for dot in long.dropna().itertuples():
        up, align = (7, "bottom") if dot.kind == frame.columns[0] else (-7, "top")
        told = {"xytext": (0, up), "textcoords": "offset points", "ha": "center", "va": align, "fontsize": "x-small"}
        at, number = (dot.value, f"{dot.value:.3g}") if dot.value > 0 else (left * 1.1, "← 0")
        axes.annotate(number, (at, dot.way), **told)
    axes.set(title=title, xscale="log", xlabel="ε", ylabel="", xlim=(left, right))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True)
    if several:
        axes.legend(title=None, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    plt.close(figure)
    return figure
