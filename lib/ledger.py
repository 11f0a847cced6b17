"""The claims ledger at the top of README.md, and results/REPORT.md: both are put together from the stored results.

Nothing in either is typed by hand, and neither holds a date or a machine: the same results give the same text.
"""

from pathlib import Path

from lib import claims, registry, report, tables
from lib.claims import Claim, Verdict
from lib.store import RESULTS, Store

BEGIN, END = "<!-- ledger: written by python -m lib.reproduce -->", "<!-- end of ledger -->"
TIERS = ("paper", "cpu")  # of real data, best first


def verdict(claim: Claim, store: Store) -> tuple[Verdict, str]:
    """The verdict from the best tier that decides the claim, and that tier; else cpu's."""
    for tier in TIERS:
        judged = claim.judge(tier, store)
        if judged.status != "open":
            break
    return judged, tier


def ledger(store: Store) -> str:
    """The claims as a Markdown table: what is printed, what we found, on which numbers, at which privacy."""
    lines = [
        "| the paper says | verdict | ours | privacy: claimed / proven / audited | run it |",
        "|---|---|---|---|---|",
    ]
    for claim in claims.every():
        judged, tier = verdict(claim, store)
        table = tables.load(claim.table)
        cells = [
            f"**{claim.name}** ({claim.source}): “{claim.says}”",
            f"**{judged.status}**",
            judged.evidence,
            report.privacy(table, tier, store),
            f"`{report.command(table, tier, report.seeds(table, tier, store))}`",
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def page(store: Store) -> str:
    """REPORT.md: every exhibit, printed beside ours, with the verdicts on its claims."""
    parts = [
        "# Report",
        "Written by `python -m lib.reproduce` from the records in this folder; do not edit. "
        "Ours is mean ± standard error (number of seeds).",
    ]
    for name in registry.names("tables"):
        table = tables.load(name)
        parts.append(f"## {name}: {table.source}")
        shown = [tier for tier in TIERS if not report.results(table, tier, store).empty]
        parts += [f"```\n{report.text(table, tier, store)}\n```" for tier in shown or TIERS[-1:]]
        parts += [f"- **{c.name}** (“{c.says}”, {c.source}): {verdict(c, store)[0]}" for c in claims.of(name)]
    return "\n\n".join(parts) + "\n"


def with_ledger(readme: str, store: Store) -> str:
    """``readme`` with the block between the two marks replaced; ``ValueError`` if the marks are not there."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"README.md: expected the marks {BEGIN} and {END} once each")
    head, rest = readme.split(BEGIN)
    return f"{head}{BEGIN}\n{ledger(store)}\n{END}{rest.split(END)[1]}"


def write(readme: Path, folder: Path = RESULTS) -> None:
    """Bring README.md's ledger and ``folder``/REPORT.md up to date."""
    store = Store(folder)
    (folder / "REPORT.md").write_text(page(store), encoding="utf-8")
    readme.write_text(with_ledger(readme.read_text(encoding="utf-8"), store), encoding="utf-8")
