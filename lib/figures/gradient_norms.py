"""The layers' gradient norms against the epoch (bc figure 1)."""

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from lib import report
from lib.store import Store
from lib.tables import Table


def drawn(table: Table, tier: str, store: Store) -> Figure:
    """A panel for each row: one line for each parameter tensor (mean over seeds), coloured by the kind of its layer."""
    frame = report.gradient_norms(table, tier, store)
    rows = list(dict.fromkeys(frame["row"])) or [table.rows[0]]
    figure, panels = plt.subplots(1, len(rows), figsize=(5 * len(rows), 3.8), squeeze=False, layout="constrained")
    for axes, row in zip(panels.flat, rows, strict=True):
        of_row = frame[frame["row"] == row]
        if len(of_row):
            lines = {"units": "tensor", "estimator": None, "linewidth": 0.8, "marker": "."}
            means = of_row.groupby(["epoch", "layer", "tensor"], as_index=False)["norm"].mean()
            sns.lineplot(means, x="epoch", y="norm", hue="layer", palette="colorblind", ax=axes, **lines)
            axes.legend(title=None, fontsize="small")
        axes.set(title=row, xlabel="epoch", ylabel="mean gradient norm", yscale="log")
    figure.suptitle(report.title(table, tier), fontsize="medium")
    plt.close(figure)
    return figure
