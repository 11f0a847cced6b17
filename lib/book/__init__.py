"""The report as one HTML page that needs nothing else: the claims ledger, every exhibit, every notebook.

    python -m lib.book

brings README's blocks and ``results/REPORT.md`` up to date and writes ``out/report.html``, and beside it ``out/api``,
every function's documentation, by pdoc.  The page has its style, its figures and its formulas in it, and neither
scripts nor anything that a browser would have to fetch; links into the repository hold as long as it lies in a folder
of it.
"""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import mistune
import nbformat
import pdoc
from mistune.toc import add_toc_hook
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from lib import accounting, ledger, registry, tables
from lib.book._formulas import with_formulas
from lib.book._pictures import pictures
from lib.book._style import STYLE
from lib.notebook import WIDGET
from lib.store import Store

WIDGET_HERE = "(A widget stands here; open the notebook to move it.)"


def page(store: Store, notebooks: Sequence[Path]) -> str:
    """The whole page, from the records of ``store`` and the notebooks as they were executed."""
    markdown = mistune.create_markdown(escape=True, plugins=["table"])
    add_toc_hook(markdown, heading_id=lambda heading, _: ledger.anchor(heading["text"]))
    folding = mistune.create_markdown(escape=False, plugins=["table"])  # the ledger's details and line breaks are HTML
    found = ledger.ledger(store).replace(f"({ledger.REPORT}#", "(#")  # its exhibits are on this page
    # Exhibit by exhibit: the parser's time grows with the square of the length.
    head, *exhibits = re.split(r"\n(?=## )", ledger.page(store))
    every = map(tables.load, registry.names("tables"))
    shown = "".join(markdown(part) + pictures(table, store) for part, table in zip(exhibits, every, strict=True))
    parts = [
        ("claims", "What the papers claim, and what we found", folding(found)),
        ("exhibits", "Every exhibit, printed and ours", markdown(head) + shown),
        *((path.stem, *_notebook(path)) for path in notebooks),
    ]
    contents = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in parts)
    contents += '<li><a href="api/lib.html">The library, function by function</a></li>'
    sections = "".join(
        f'<section id="{name}"><h1 class="part">{escape(title)}</h1>{body}</section>' for name, title, body in parts
    )
    style = STYLE + HtmlFormatter(style="default").get_style_defs(".highlight")
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Normalisation and clipping in '
        f"differentially private training</title><style>{style}</style></head><body><nav><ul>{contents}</ul></nav>"
        f"<main>{sections}</main></body></html>\n"
    )


def documentation(folder: Path) -> None:
    """What every docstring of the library says, a page for a module; ``folder / "lib.html"`` is the first."""
    pdoc.render.configure(docformat="restructuredtext", show_source=False)
    pdoc.pdoc("lib", *(f"lib.accounting.{name}" for name in accounting.accountants()), output_directory=folder)


def _notebook(path: Path) -> tuple[str, str]:
    """Title and body of an executed notebook."""
    notebook = nbformat.read(path, as_version=4)
    title, _, rest = notebook.cells[0].source.partition("\n")
    notebook.cells[0].source = rest
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_formulas(cell.source)
        else:
            cell.outputs = [_still(output) for output in cell.outputs]
    exporter = HTMLExporter(template_name="basic", exclude_anchor_links=True)
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    body, _ = exporter.from_notebook_node(notebook)
    body = re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="#\1"', body)  # every notebook is on this page
    return title.removeprefix("# "), re.sub(r' id="cell-id=[^"]*"', "", body)  # which notebooks share


def _still(output: NotebookNode) -> NotebookNode:
    """The output as it is, but for a widget, which no page without scripts can move."""
    if WIDGET not in output.get("data", {}):
        return output
    return nbformat.v4.new_output("stream", name="stdout", text=WIDGET_HERE)
