"""An axis of accuracies on which 99 and 98 % are as far apart as 90 and 80 %: errors on a logarithmic scale."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, Locator, MaxNLocator, NullLocator

LEAST = 0.05  # % of error; less is drawn there, as a logarithm has no 0
TICKS = (0, 50, 75, 90, 95, 98, 99, 99.5, 99.8)  # the error about halved from one to the next
LABEL = "accuracy (%),\nerrors on a log scale"


def of_errors(axes: Axes, axis: str = "y") -> None:
    """Make the y-axis, or the x-axis, one of accuracies (%), each at −log₁₀(100 − accuracy)."""
    getattr(axes, f"set_{axis}scale")("function", functions=(_forward, _back))
    axes.autoscale(axis=axis)  # with margins on this scale
    least, most = getattr(axes, f"get_{axis}lim")()
    few = sum(least <= tick <= most for tick in TICKS) < 3
    plain_ticks(getattr(axes, f"{axis}axis"), MaxNLocator(5) if few else FixedLocator(TICKS))


def plain_ticks(axis: Axis, locator: Locator) -> None:
    """Ticks where ``locator`` says and nowhere else, as plain numbers on any scale."""
    axis.set_major_locator(locator)
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def _forward(accuracy: np.ndarray) -> np.ndarray:
    return -np.log10(np.maximum(100 - np.asarray(accuracy), LEAST))


def _back(height: np.ndarray) -> np.ndarray:
    return 100 - 10 ** -np.asarray(height)
