"""The HTML report: one page that opens without a network, with the claims first and everything in it."""

import re
from base64 import b64decode
from html import escape
from pathlib import Path

import nbformat
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lib import book, claims, figures, ledger, registry, report, reproduce, tables
from lib.book._formulas import with_formulas
from lib.figures import gradient_norms
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
    with pytest.MonkeyPatch.context() as patch:  # nothing is stored that could be drawn
        patch.setattr(book, "pictures", lambda table, store: f"<p>the picture of {table.name}</p>")
        return book.page(Store(folder / "results"), [folder / "09_test.ipynb"])


def _width(formula: str) -> float:
    """Of its picture, in points."""
    svg = b64decode(re.search(r"base64,([^\"]+)", formula)[1]).decode()
    return float(re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)[1])


def test_claims_come_first_then_every_exhibit_then_the_notebooks(page):
    places = [page.index(f'<section id="{name}">') for name in ("claims", "exhibits", "09_test")]
    assert places == sorted(places)
    assert all(claim.name in page[places[0] : places[1]] for claim in claims.every())
    assert all(f">{name}: " in page[places[1] : places[2]] for name in registry.names("tables"))
    assert "<details><summary>The others; of " in page[places[0] : places[1]]
    assert "98 &lt; 99" in page[places[2] :]
    assert page.count('href="#09_test"') == 2  # the contents', and the notebook's own
    assert ".ipynb" not in page[places[2] :]


def test_exhibits_follow_what_the_report_says_of_them_each_with_a_picture_of_its_own(page):
    found = re.findall(r"<h2 id=[^>]*>(\w+): |the picture of (\w+)", page)
    names = registry.names("tables")
    assert [heading or picture for heading, picture in found] == [name for name in names for _ in range(2)]
    assert [bool(heading) for heading, _ in found] == [True, False] * len(names)
    assert "Ours is mean ± standard error" in page[page.index('<section id="exhibits">') : page.index("<h2 id=")]


def test_a_notebook_has_its_title_once_and_no_number_of_an_execution(page):
    assert page.count("9 · A test") == 2  # in the contents, and above it
    assert "># 9" not in page
    assert not re.search(r"(In|Out)\s*(&nbsp;)?\[", page[page.index('<section id="09_test">') :])


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


def test_an_exhibits_picture_is_of_its_tier_and_says_so(fill, monkeypatch):
    table, drawn = tables.load("agnews_noise"), []
    monkeypatch.setattr(figures, "against_column", lambda _, tier, __: drawn.append(tier) or Figure())
    for tier in ledger.TIERS:
        store = fill(table, lambda *_: [90.0], tier=tier)
    alts = re.findall(r'alt="([^"]*)"', book.pictures(table, store))
    assert drawn == list(ledger.TIERS)
    assert alts == [escape(report.title(table, tier)) for tier in ledger.TIERS]


def test_the_exhibit_of_gradient_norms_is_drawn_against_the_epoch_as_norms(fill, monkeypatch):
    table, drawn = tables.load("bc_gradient_norms"), []
    monkeypatch.setattr(gradient_norms, "drawn", lambda *of: drawn.append(of[:2]) or Figure())
    book.pictures(table, fill(table, lambda *_: [90.0]))
    assert drawn == [(table, "cpu")]


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


@pytest.mark.parametrize(("tex", "set_as"), [(r"a \le b", r"a \leq b"), (r"a \ge b", r"a \geq b")])
def test_an_inequality_keeps_its_direction(tex, set_as):
    """A picture says, in a comment, what matplotlib has set."""
    (picture,) = re.findall(r"base64,([^\"]+)", with_formulas(f"${tex}$"))
    assert f"<!-- ${set_as}$ -->" in b64decode(picture).decode()


@pytest.mark.parametrize("tex", [r"\tfrac{1}{2}", r"A^\top", r"\big[ a \big]", r"\Big( a \Big)"])
def test_what_matplotlib_has_under_another_name_is_set(tex):
    assert with_formulas(f"${tex}$").startswith("<img")


def test_what_is_code_in_a_notebook_is_no_formula_and_words_in_one_keep_their_spaces():
    fenced = "```sh\necho $A $B\n```"
    assert with_formulas(fenced) == fenced
    spaced, joined = (with_formulas(rf"$\text{{{words}}}$") for words in ("if so", "ifso"))
    assert _width(spaced) > _width(joined)
    assert 'alt="a &lt; b"' in with_formulas("$a < b$")
    assert "vertical-align: -" in with_formulas("$y_t$")  # it hangs below the line


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


def test_every_formula_of_the_notebooks_is_set():
    r"""Those of \mathcal N, \frac1L and their like, whose arguments have no braces, too."""
    notebooks = [nbformat.read(path, as_version=4) for path in reproduce.FOLDER.glob("*.ipynb")]
    cells = (cell for notebook in notebooks for cell in notebook.cells)
    page = with_formulas("\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))
    assert page.count('<img class="tex"') > 300
    assert re.findall(r'<code class="tex">.*?</code>', page) == []
