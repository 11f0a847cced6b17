"""Sliders above a figure that answers them."""

from collections.abc import Callable, Mapping
from typing import Any

from ipywidgets import Image, ValueWidget, VBox
from matplotlib.figure import Figure

from lib.figures import png


def moved_by(sliders: Mapping[str, ValueWidget], drawn: Callable[..., Figure]) -> VBox:
    """``sliders`` by the arguments of ``drawn`` that they set, and its figure, drawn again whenever one is let go."""
    picture = Image(layout={"align_self": "flex-start"})  # as large as it is

    def draw(_: Any = None) -> None:
        picture.value = png(drawn(**{name: slider.value for name, slider in sliders.items()}))

    for slider in sliders.values():
        slider.continuous_update = False
        slider.observe(draw, "value")
    draw()
    return VBox([*sliders.values(), picture])
