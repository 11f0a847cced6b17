"""TeX formulas as pictures inside the page, set by matplotlib, as MathJax would have to be fetched."""

import base64
import re
from functools import cache
from html import escape
from io import BytesIO

from matplotlib.mathtext import math_to_image

CODE_OR_FORMULA = re.compile(r"(```.*?```|`[^`\n]+`)|\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
# What matplotlib has under another name, does without, or wants in braces, in this order.
SPELT = {
    r"\\[Bb]ig(?![A-Za-z])": "",
    r"\\tfrac": r"\\frac",
    r"\\top(?![A-Za-z])": "T",
    r"\\([lg]e)(?![A-Za-z])": r"\\\1q",
    r"\\[lr]Vert": r"\\Vert",
    r"\\(mathcal|sqrt) ?(\w|\\[A-Za-z]+)": r"\\\1{\2}",
    r"\\frac(\w)(\w)": r"\\frac{\1}{\2}",
}


def with_formulas(markdown: str) -> str:
    """``markdown`` with every $…$ and $$…$$ outside code as a picture; one that cannot be set stays as TeX."""
    return CODE_OR_FORMULA.sub(_replaced, markdown)


def _replaced(found: re.Match) -> str:
    code, display, inline = found.groups()
    if code:
        return code
    picture = _picture(" ".join((display or inline).split()))
    return f'\n\n<p class="formula">{picture}</p>\n\n' if display else picture


@cache
def _picture(tex: str) -> str:
    spelt = re.sub(r"\\text\{([^}]*)\}", _upright, tex)
    for pattern, ours in SPELT.items():
        spelt = re.sub(pattern, ours, spelt)
    buffer = BytesIO()
    try:
        depth = math_to_image(f"${spelt}$", buffer, dpi=72, format="svg")
    except ValueError:
        return f'<code class="tex">{escape(tex)}</code>'
    data = base64.b64encode(buffer.getvalue()).decode()
    style = f"vertical-align: -{depth:.1f}pt"
    return f'<img class="tex" style="{style}" alt="{escape(tex)}" src="data:image/svg+xml;base64,{data}">'


def _upright(text: re.Match) -> str:
    """Words with their spaces; what stands between $ in them is a formula again."""
    parts = text[1].split("$")
    return "".join(part if i % 2 else r"\mathrm{" + part.replace(" ", r"\ ") + "}" for i, part in enumerate(parts))
