"""The command ``python -m lib.book``."""

from pathlib import Path

from lib import book, ledger
from lib.store import Store

REPOSITORY = Path(__file__).resolve().parent.parent.parent

if __name__ == "__main__":
    ledger.write(REPOSITORY / "README.md")
    out = REPOSITORY / "out" / "report.html"
    out.parent.mkdir(exist_ok=True)
    out.write_text(book.page(Store(), sorted((REPOSITORY / "notebooks").glob("*.ipynb"))), encoding="utf-8")
    print("→ README.md, results/REPORT.md, out/report.html")
