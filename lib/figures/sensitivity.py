"""How far one example moves the sum of the clipped gradients, measured."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure


def drawn(audit: dict[str, dict[str, dict[str, float]]]) -> Figure:
    """The largest change found, in multiples of C, against C: a line for each network; dotted what is allowed, 2 C.

    ``audit``: {network: {C: {"multiple": …}}}.
    """
    figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
    for name, by_clip_norm in audit.items():
        multiples = [found["multiple"] for found in by_clip_norm.values()]
        axes.plot([float(clip_norm) for clip_norm in by_clip_norm], multiples, marker="o", label=name)
    axes.axhline(2.0, color="black", linestyle=":", label="allowed: 2 C")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="clip norm C",
        ylabel="multiples of C",
        title="largest change of the clipped sum when one example is replaced",
    )
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
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
