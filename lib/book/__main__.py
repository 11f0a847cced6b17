"""The command ``python -m lib.book``."""

import argparse
from pathlib import Path

from lib import book, ledger
from lib.store import Store

REPOSITORY = Path(__file__).resolve().parent.parent.parent

if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m lib.book", description="Write what make report writes.").parse_args()
    ledger.write(REPOSITORY / "README.md")
    out = REPOSITORY / "out"
    out.mkdir(exist_ok=True)
    page = book.page(Store(), sorted((REPOSITORY / "notebooks").glob("*.ipynb")))
    (out / "report.html").write_text(page, encoding="utf-8")
    book.documentation(out / "api")
    print("→ README.md, results/REPORT.md, out/report.html, out/api")
