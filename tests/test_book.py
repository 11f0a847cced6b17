"""The HTML report: one page that opens without a network, with the claims first and everything in it."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lib import book, claims, figures, ledger, registry, tables
from lib.book._formulas import with_formulas
from lib.notebook import WIDGET
from lib.store import Store

FETCHED = re.compile(r"<script|<link|<iframe|@import|url\(|src=[\"'](?!data:)", re.IGNORECASE)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Of an empty store and one small notebook, with a formula, text, a picture and a widget."""
    folder = tmp_path_factory.mktemp("book")
    outputs = [
        new_output("stream", text="98 < 99\n"),
        new_output("display_data", {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}),
        new_output("display_data", {WIDGET: {"model_id": "x"}, "text/plain": "VBox()"}),
    ]
    cells = [
        new_markdown_cell("# 9 · A test\n\nWhere $\\mu^2 = K$, and `$HOME` is code; see [this](09_test.ipynb)."),
        new_code_cell("print('x')", outputs=outputs),
    ]
    nbformat.write(new_notebook(cells=cells), folder / "09_test.ipynb")
    return book.page(Store(folder / "results"), [folder / "09_test.ipynb"])


def test_claims_come_first_then_every_exhibit_then_the_notebooks(page):
    places = [page.index(f'<section id="{name}">') for name in ("claims", "exhibits", "09_test")]
    assert places == sorted(places)
    assert all(claim.name in page[places[0] : places[1]] for claim in claims.every())
    assert all(f">{name}: " in page[places[1] : places[2]] for name in registry.names("tables"))
    assert "<details><summary>The others; of " in page[places[0] : places[1]]
    assert "98 &lt; 99" in page[places[2] :]
    assert page.count('href="#09_test"') == 2  # the contents', and the notebook's own
    assert ".ipynb" not in page[places[2] :]


def test_every_place_on_the_page_that_is_pointed_at_is_there(page):
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert {"mnist_noise-v2-table-2--v1-table-1", "09_test"} <= targets
    places = re.findall(r' id="([^"]+)"', page)
    assert targets <= set(places)
    assert len(places) == len(set(places))


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("agnews_noise", "against_column"),
        ("cifar10_convergence", "against_epoch"),
        ("bc_alc_vs_fgc", "against_epoch"),
        ("bc_equal_epsilon", "against_column"),
    ],
)
def test_every_exhibit_with_runs_is_drawn_as_its_paper_shows_it(name, draw, fill, monkeypatch):
    table, drawn = tables.load(name), []
    original = getattr(figures, draw)
    monkeypatch.setattr(figures, draw, lambda *of: drawn.append(of[:2]) or original(*of))
    store = fill(table, lambda row, column, seed: [50.0, 90.0] if row == table.rows[0] else None)
    assert book.pictures(table, store).count("<img") == 1
    assert drawn == [(table, "cpu")]
    assert not book.pictures(tables.load("mnist_noise"), store)


def test_nothing_in_it_has_to_be_fetched(page):
    assert not FETCHED.search(page)
    assert "data:image/png;base64,iVBORw0KGgo=" in page
    assert book.WIDGET_HERE in page
    assert "VBox()" not in page


def test_formulas_are_pictures_with_their_tex_as_text(page):
    (picture,) = re.findall(r'<img[^>]*class="tex"[^>]*>', page)
    assert "\\mu^2 = K" in picture
    assert "data:image/svg+xml;base64," in picture
    assert "$HOME" in page
    assert with_formulas("`$a$` and $a$").startswith("`$a$` and <img")
    assert with_formulas("$$\nx\n$$").strip().startswith('<p class="formula"><img')
    assert with_formulas(r"$\nosuchthing{x}$") == r'<code class="tex">\nosuchthing{x}</code>'


@pytest.mark.slow
def test_every_module_has_a_page_of_its_own(tmp_path, page):
    book.documentation(tmp_path)
    (first,) = re.findall(r'href="api/([^"]+)"', page)
    assert (tmp_path / first).exists()
    lib = Path(book.__file__).parent.parent
    modules = [path.relative_to(lib.parent) for path in lib.rglob("*.py") if not path.name.startswith("_")]
    assert not [module for module in modules if not (tmp_path / module.with_suffix(".html")).exists()]
    assert "Σ_i" in (tmp_path / "lib" / "grads.html").read_text()


def test_the_report_names_the_command_that_writes_it():
    assert "`make report`" in ledger.page(Store("nowhere"))
