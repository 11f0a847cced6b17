"""The command ``python -m lib.book``."""

import argparse
from pathlib import Path

from lib import book, ledger, notebook
from lib.store import Store, StoreError

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    argparse.ArgumentParser(prog="python -m lib.book", description="Write what make report writes.").parse_args()
    out = REPOSITORY / "out"
    try:
        ledger.write(REPOSITORY / "README.md")
        print("→ README.md, results/REPORT.md", flush=True)  # the page takes as long again
        out.mkdir(exist_ok=True)
        page = book.page(Store(), notebook.numbered())
        (out / "report.html").write_text(page, encoding="utf-8")
        print("→ out/report.html", flush=True)
        book.documentation(out / "api")
    except (StoreError, ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("stopped") from None
    print("→ out/api")


if __name__ == "__main__":
    main()
