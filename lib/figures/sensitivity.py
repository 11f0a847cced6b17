"""How far one example moves the sum of the clipped gradients, measured."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from lib.figures import scale

ALLOWED = 2.0  # multiples of C, where one example is replaced
TICKS = (1, 2, 5, 10)


def drawn(audit: dict[str, dict[str, dict[str, float]]]) -> Figure:
    """The change found, in multiples of C: a line for each network, with a dot for each C and the largest written
    beside it; dotted what is allowed, 2 C.

    ``audit``: {network: {C: {"multiple": …}}}.
    """
    figure, axes = plt.subplots(figsize=(9, 1.4 + 0.32 * len(audit)), layout="constrained")
    every = [(found["multiple"], name) for name, by_clip_norm in audit.items() for found in by_clip_norm.values()]
    largest = {name: max(found["multiple"] for found in of_name.values()) for name, of_name in audit.items()}
    axes.plot(*zip(*every, strict=True), "o", color="C0", markerfacecolor="white", label="at each other C")
    axes.plot(list(largest.values()), list(largest), "o", color="C0", label="largest")
    for name, multiple in largest.items():
        told = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "fontsize": "small"}
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # readable where it lies on the dotted line
        axes.annotate(f"{multiple:.2f}", (multiple, name), bbox=box, **told)
    axes.axvline(ALLOWED, color="black", linestyle=":", label="allowed: 2 C")
    axes.set(
        xscale="log",
        xlim=(0.9, 1.7 * max(TICKS[-1], *largest.values())),
        ylim=(len(audit) - 0.5, -0.5),
        xlabel="multiples of C",
        title="largest change of the clipped sum when one example is replaced",
    )
    scale.plain_ticks(axes.xaxis, FixedLocator(TICKS))
    figure.legend(fontsize="small", loc="outside right center")
    plt.close(figure)
    return figure


def told(audit: dict[str, dict[str, dict[str, float]]]) -> str:
    """The same as text: a line for each network, a column for each C."""
    clip_norms = list(next(iter(audit.values())))
    width = max(map(len, audit))
    lines = [" " * width + "".join(f"  C = {clip_norm:>4}" for clip_norm in clip_norms)]
    for name, found in audit.items():
        lines.append(name.ljust(width) + "".join(f"  {found[c]['multiple']:8.2f}" for c in clip_norms))
    return "\n".join(lines)
