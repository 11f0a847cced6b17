"""The notebooks as a reader sees them: JupyterLab from ``make lab``, in a real browser, on a copy of the notebooks.

Needs Chromium (``$CHROMIUM``, or ``chromium`` on the path) and ``pip install '.[browser]'``; skipped, with the reason,
where either is missing.  Screenshots are left in ``out/screenshots``.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
import pytest
from test_mistakes import ROOT, outside_make
from test_notebooks import code

from lib import book, registry
from lib.store import Store

SCREENSHOTS = ROOT / "out" / "screenshots"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
TOKEN = "only-on-this-machine"
SETTINGS = {  # every cell is rendered, so that a test finds it; nothing pops up over it
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
IDLE = "text=/ipykernel.* Idle/"
QUIET = ("background-networking", "component-update", "sync", "gpu", "quic")

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that ``make lab`` started, and its folder: the notebooks without their outputs."""
    home = tmp_path_factory.mktemp("lab")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy2(ROOT / name, home)
    (home / ".venv").symlink_to(Path(sys.prefix))
    folder = home / "notebooks"
    folder.mkdir()
    for name in NOTEBOOKS:
        notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, folder / f"{name}.ipynb")
    for plugin, settings in SETTINGS.items():
        path = home / "settings" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--no-browser --allow-root --port={port} --IdentityProvider.token={TOKEN}"
    server = subprocess.Popen(
        ["make", "lab", f"ARGS={options}"],
        cwd=home,
        env=outside_make(JUPYTERLAB_SETTINGS_DIR=str(home / "settings")),
        stdout=(home / "log").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: server.poll() is not None or answers(f"{address}/api?token={TOKEN}"), seconds=120)
        assert server.poll() is None, (home / "log").read_text()
        yield address, folder
    finally:
        os.killpg(server.pid, 15)
        server.wait()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in QUIET)]
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(lab, browser):
    """``opened(name)`` → the page of a notebook that was run to its end from the menu, and its copy's path."""
    address, folder = lab
    context = browser.new_context(viewport={"width": 1400, "height": 1000})

    def opened(name):
        page, path = context.new_page(), folder / f"{name}.ipynb"
        page.goto(f"{address}/lab/workspaces/{name}/tree/{name}.ipynb?token={TOKEN}")
        page.wait_for_selector(IDLE, timeout=120_000)  # the kernel has started
        page.click(".lm-MenuBar-item:has-text('Run')")
        page.click("li[data-command='runmenu:run-all']")
        until(lambda: finished(saved(page, path)), seconds=300)
        return page, path

    yield opened
    context.close()


def until(condition, *, seconds):
    """Wait until ``condition()``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(1)


def answers(address):
    try:
        return urlopen(address).status == 200
    except (URLError, ConnectionError):
        return False


def saved(page, path):
    """The notebook as JupyterLab saves it now."""
    page.keyboard.press("Control+s")
    page.wait_for_timeout(500)
    return nbformat.read(path, as_version=4)


def errors(notebook):
    return [output for cell in code(notebook) for output in cell.outputs if output.output_type == "error"]


def finished(notebook):
    return bool(errors(notebook)) or all(cell.execution_count for cell in code(notebook))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs_to_its_end_and_its_sliders_answer(opened, name):
    page, path = opened(name)
    notebook = nbformat.read(path, as_version=4)
    assert errors(notebook) == []
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    handles = page.locator(".noUi-handle").all()
    assert bool(handles) == any("Slider(" in cell.source for cell in code(notebook))
    for handle in handles[:1]:
        handle.scroll_into_view_if_needed()
        before = answers_of_widgets(page)
        handle.press("Home")
        handle.press("ArrowRight")
        until(lambda: answers_of_widgets(page) != before, seconds=60)  # noqa: B023
        page.wait_for_selector(IDLE, timeout=60_000)  # the slider's last answer is there
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def answers_of_widgets(page):
    """The pictures beside the sliders."""
    answers = page.locator("img.widget-image")
    assert answers.count()
    return answers.evaluate_all("all => all.map(one => one.outerHTML)")


def test_the_report_opens_without_a_network_and_holds_every_exhibit(browser, tmp_path):
    report = tmp_path / "report.html"
    report.write_text(book.page(Store(), [ROOT / "notebooks" / f"{name}.ipynb" for name in NOTEBOOKS]))
    context = browser.new_context(offline=True)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert set(page.locator("section").evaluate_all("all => all.map(one => one.id)")) == {
        "claims",
        "exhibits",
        *NOTEBOOKS,
    }
    headings = page.locator("#exhibits h2").all_inner_texts()
    assert {heading.partition(":")[0] for heading in headings} >= set(registry.names("tables"))
    assert page.locator("img").evaluate_all("all => all.every(one => one.complete && one.naturalWidth > 0)")
    page.screenshot(path=SCREENSHOTS / "report.png")
    context.close()
