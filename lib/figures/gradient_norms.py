"""The layers' gradient norms against the epoch (bc figure 1)."""

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lib import report
from lib.store import Store
from lib.tables import Table

KINDS = {"Conv": "convolution", "Norm": "norm", "Linear": "linear", "shortcut": "shortcut"}  # by a layer's name
PALETTE = dict(zip(KINDS.values(), sns.color_palette("colorblind"), strict=False))


def drawn(table: Table, tier: str, store: Store) -> Figure:
    """A panel for each row: one line for each parameter tensor (mean over seeds), coloured by the kind of its layer."""
    frame = report.gradient_norms(table, tier, store)
    frame["kind"] = [next(kind for part, kind in KINDS.items() if part in layer) for layer in frame["layer"]]
    rows = list(dict.fromkeys(frame["row"])) or [table.rows[0]]
    figure, panels = plt.subplots(1, len(rows), figsize=(4 * len(rows), 3.8), squeeze=False, layout="constrained")
    for axes, row in zip(panels.flat, rows, strict=True):
        of_row = frame[frame["row"] == row]
        means = of_row.groupby(["epoch", "kind", "tensor"], as_index=False)["norm"].mean()
        for (kind, _), line in means.groupby(["kind", "tensor"]):
            axes.plot(line["epoch"], line["norm"], ".-", color=PALETTE[kind], linewidth=0.8)
        axes.set(title=row, xlabel="epoch", ylabel="", yscale="log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    keys = [plt.Line2D([], [], color=PALETTE[kind], marker=".", label=kind) for kind in dict.fromkeys(frame["kind"])]
    figure.legend(handles=keys, loc="outside right center", fontsize="small")
    figure.supylabel("mean gradient norm", fontsize="medium")
    figure.suptitle(
        f"Norms of the layers' gradients on public examples ({table.source}; tier {tier})", fontsize="medium"
    )
    plt.close(figure)
    return figure
