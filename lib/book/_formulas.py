"""TeX formulas as pictures inside the page, set by matplotlib, as MathJax would have to be fetched."""

import base64
import re
from functools import cache
from html import escape
from io import BytesIO

from matplotlib.mathtext import math_to_image

CODE_OR_FORMULA = re.compile(r"(```.*?```|`[^`\n]+`)|\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
# What matplotlib has under another name or does without.
SPELT = {r"\Big": "", r"\big": "", r"\tfrac": r"\frac", r"\top": "T", r"\le ": r"\leq ", r"\ge ": r"\geq "}


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
    spelt = re.sub(r"\\text\{([^}]*)\}", lambda m: r"\mathrm{" + m[1].replace(" ", r"\ ") + "}", tex)
    for name, ours in SPELT.items():
        spelt = spelt.replace(name, ours)
    buffer = BytesIO()
    try:
        depth = math_to_image(f"${spelt}$", buffer, dpi=72, format="svg")
    except ValueError:
        return f'<code class="tex">{escape(tex)}</code>'
    data = base64.b64encode(buffer.getvalue()).decode()
    style = f"vertical-align: -{depth:.1f}pt"
    return f'<img class="tex" style="{style}" alt="{escape(tex)}" src="data:image/svg+xml;base64,{data}">'
