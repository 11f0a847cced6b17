"""The noise on the weights over time, between DPSGD and SI-DPSGD, at one guarantee."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from lib.accounting import Spectrum
from lib.figures import scale

LANDMARKS = {0.0: ("DPSGD, p = 0", "--"), 0.5: ("p = 1/2", ":"), 1.0: ("SI-DPSGD, p = 1", "-.")}


def on_sums(*, power: float, steps: int, period: int) -> np.ndarray:
    """Standard deviation (T,) of the noise on the sum of the first t gradients, in units of C/µ at guarantee µ-GDP.

    ``√(Σ_{k<t} b_k²) · ‖Σ_j S e_{j·period}‖``, b the coefficients of A S⁻¹, the running sums of those of S⁻¹; an
    example comes back after ``period`` steps.  See :class:`lib.accounting.Spectrum`.
    """
    spectrum = Spectrum(power=power, steps=steps)
    return np.sqrt(np.cumsum(np.cumsum(spectrum.noise) ** 2)) * spectrum.sensitivity(period=period)


def drawn(*, power: float, steps: int, period: int) -> Figure:
    """The noise of :func:`on_sums` against the step, at ``power`` and at the landmarks of the spectrum; the legend
    tells it after the first epoch, of ``period`` steps, and after the last step."""
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    axes.axvline(period, color="grey", linewidth=0.8)
    at, told = np.arange(1, steps + 1), "{}: {:.2f}, {:.2f}"
    for landmark, (label, style) in LANDMARKS.items():
        noise = on_sums(power=landmark, steps=steps, period=period)
        axes.plot(at, noise, style, color="grey", label=told.format(label, noise[period - 1], noise[-1]))
    noise = on_sums(power=power, steps=steps, period=period)
    axes.plot(at, noise, linewidth=2.5, label=told.format(f"p = {power:g}", noise[period - 1], noise[-1]))
    axes.set(title="noise on the weights at equal ε", xlabel="step", ylabel="in units of C/µ", yscale="log")
    scale.plain_ticks(axes.yaxis, LogLocator(subs=(1, 2, 5)))
    title = f"after step {period}, the first epoch;\nafter step {steps}, the last"
    figure.legend(fontsize="small", loc="outside right center", title=title, title_fontsize="small")
    plt.close(figure)
    return figure
