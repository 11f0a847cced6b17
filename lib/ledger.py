"""The claims ledger at the top of README.md, and results/REPORT.md: both are put together from the stored results.

Nothing in either is typed by hand, and neither says when or where that was done: the same results give the same text.
"""

import math
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

from lib import claims, registry, report, tables
from lib.claims import Claim, Verdict
from lib.record import Record
from lib.report import privacy_words
from lib.report.provenance import machine
from lib.store import BENCHMARKS, RESULTS, Store, measured, write_text
from lib.tables import Table

BEGIN, END = "<!-- {}: written by make report -->", "<!-- end of {} -->"
REPORT = "results/REPORT.md"
TIERS = ("paper", "cpu")  # of real data, best first
HEAD = ("| the paper says, or we ask | verdict | decided by | ε claimed / proven / audited |", "|---|---|---|---|")
STATUSES = {"holds": "hold", "fails": "fail", "open": "open"}
WORKERS = (1, 8, 64)
# The benches that README shows.
STEPS = ("private_step", "batch_clipping_step", "public_batch_norm", "runs_together", "mixed_precision")


def verdict(claim: Claim, store: Store) -> tuple[Verdict, str]:
    """The verdict from the best tier that has results and decides the claim, and that tier; else cpu's.

    Found once, for README and the report, as long as ``store`` gets no more records.
    """
    return _verdict(claim, store, len(store))


@lru_cache(maxsize=128)
def _verdict(claim: Claim, store: Store, records: int) -> tuple[Verdict, str]:
    for tier in TIERS:
        judged = claim.judge(tier, store)
        if judged.status != "open" and not report.results(tables.load(claim.table), tier, store).empty:
            break
    return judged, tier


def ledger(store: Store) -> str:
    """The claims in Markdown: a table of the headlines, and folded away one of all others."""
    every = claims.every()
    judged = {claim.name: verdict(claim, store) for claim in every}
    lines = {claim.name: _line(claim, *judged[claim.name], store) for claim in every}

    def tally(of: list[Claim]) -> str:
        counted = Counter(judged[claim.name][0].status for claim in of)
        return ", ".join(f"{counted[status]} {word}" for status, word in STATUSES.items())

    quoted, asked = [claim for claim in every if claim.says], [claim for claim in every if not claim.says]
    told = f"of {len(quoted)} claims in the papers' words {tally(quoted)}"
    told += f", of {len(asked)} questions of ours {tally(asked)}"
    return "\n".join(
        [
            *(*HEAD, *(lines[claim.name] for claim in every if claim.headline)),
            f"\n<details><summary>The others; {told}</summary>\n",
            *(*HEAD, *(lines[claim.name] for claim in every if not claim.headline)),
            "\n</details>",
        ]
    )


def _line(claim: Claim, judged: Verdict, tier: str, store: Store) -> str:
    """What is printed, what we found, on which numbers, at which privacy; REPORT.md has the rest beside the exhibit."""
    table = tables.load(claim.table)
    cells = [
        f"**{claim.name}**: {claim.words} ([{claim.source}]({REPORT}#{anchor(_heading(table))}))",
        f"**{judged.status}**, tier {tier}",
        judged.in_short(),
        _privacy(claim, "; ".join(judged.deciding), tier, store),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _privacy(claim: Claim, text: str, tier: str, store: Store) -> str:
    """Claimed / proven / audited ε of the rows that ``text`` names, in one line for those that are alike.

    A dash where it names none: what it tells then are not accuracies.
    """
    rows = {row: table for table in map(tables.load, filter(None, (claim.table, claim.also))) for row, _ in table.cells}
    named = set()
    for row in sorted(rows, key=len, reverse=True):  # one row's name may be a part of another's
        if row in text:
            named.add(row)
            text = text.replace(row, "")
    answers: dict[str, list[str]] = {}
    for row in [row for row in rows if row in named]:
        table = rows[row]
        cells = [cell for cell in table.cells if cell[0] == row]
        found = [[record] for cell in cells for record in report.records(table, *cell, tier, store)]
        answer = privacy_words.of_cells(found).split(" (")[0]
        answers.setdefault(answer, []).append(row)
    if len(answers) < 2:
        return "".join(answers) or "–"
    return "<br>".join(f"{', '.join(alike)}: {answer}" for answer, alike in answers.items())


def page(store: Store) -> str:
    """REPORT.md: every exhibit, printed beside ours, with the verdicts on its claims."""
    parts = [
        "# Report",
        "Written by `make report` from the records in this folder; do not edit. "
        "Ours is mean ± standard error (number of seeds). Differences are in points and, in brackets, in standard "
        "errors of the difference, which a single run does not have. Commits are those that trained the runs, with "
        "how many; one with a + had changes. What is proven is proven under the assumptions that each record states; "
        "† marks runs that added their noise in float32: of them it is proven of real numbers.",
    ]
    for name in registry.names("tables"):
        table = tables.load(name)
        parts.append(f"## {_heading(table)}")
        shown = [tier for tier in TIERS if not report.results(table, tier, store).empty]
        parts += [f"```\n{_exhibit(table, tier, store)}\n```" for tier in shown or TIERS[-1:]]
        parts += [f"- **{c.name}** ({c.words}, {c.source}): {verdict(c, store)[0]}" for c in claims.of(name)]
    return "\n\n".join(parts) + "\n"


def anchor(heading: str) -> str:
    """What GitHub calls the place of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _heading(table: Table) -> str:
    return f"{table.name}: {table.source}"


def _exhibit(table: Table, tier: str, store: Store) -> str:
    """The table as text, how far it is from the printed one, and where its numbers come from."""
    parts, differences = [report.text(table, tier, store)], report.from_printed(table, tier, store)
    if len(differences):
        differences.columns = report.heads(table)
        parts.append(f"\nours − printed, in points (in standard errors)\n{differences.to_string()}")
    return "\n".join([*parts, report.provenance(table, tier, store)])


def speed(folder: Path) -> str:
    """What a private step costs, as a Markdown table: time × the first variant's, and peak memory likewise."""
    lines = ["| network, batch | step | time | peak memory |", "|---|---|---|---|"]
    for path in sorted(path for name in STEPS for path in folder.glob(f"{name}-*.json")):
        name = path.stem.rpartition("-")[0]
        stored = measured(path, f"python -m lib.bench {name}")
        lines.append(f"| **{name.replace('_', ' ').capitalize()}**; {machine(stored['env'])} | | | |")
        for network, variants in stored["results"].items():
            for name, n in variants.items():
                time = f"× {n['ratio']:.2f} [{n['low']:.2f}, {n['high']:.2f}]"
                memory = f"× {n['memory']:.2f}" if "memory" in n else ""
                lines.append(f"| {network}, {n['batch_size']} | {name} | {time} | {memory} |")
    return "\n".join(lines)


def cost(store: Store) -> str:
    """What the stored runs of every table took, as a Markdown table, and how long :data:`WORKERS` would take at least.

    All runs of a stage are independent of each other, and the searches come before the runs that they decide on: no
    number of workers is faster than the longest search run and the longest final run together.
    """
    lines = [
        f"| table | stored runs | core hours | {' | '.join(f'{n} at work' for n in WORKERS)} | of use at most |",
        f"|---|---|---|{'---|' * len(WORKERS)}---|",
    ]
    folders: dict[str, list[Record]] = {}
    for folder, record in store.filed():
        folders.setdefault(folder, []).append(record)
    for folder, records in sorted(folders.items()):
        longest = [0.0, 0.0]
        for record in records:
            stage = record["run"]["validation_examples"] == 0
            longest[stage] = max(longest[stage], record["env"]["seconds"])
        total = sum(record["env"]["seconds"] * record["env"]["flags"]["threads"] for record in records)
        least, seconds = sum(longest), sum(record["env"]["seconds"] for record in records)
        by = " | ".join(f"{max(least, seconds / n) / 60:.0f} min" for n in WORKERS)
        most = math.ceil(seconds / least)
        lines.append(f"| `{folder}` | {len(records)} | {total / 3600:.1f} | {by} | {most} workers |")
    return "\n".join(lines)


def blocks(store: Store) -> dict[str, str]:
    """README's, by the name of their marks."""
    return {"ledger": ledger(store), "speed": speed(store.root / BENCHMARKS.name), "cost": cost(store)}


def with_blocks(readme: str, found: dict[str, str]) -> str:
    """``readme`` with the blocks between their marks replaced; ``ValueError`` if the marks are not there."""
    for name, block in found.items():
        begin, end = BEGIN.format(name), END.format(name)
        if readme.count(begin) != 1 or readme.count(end) != 1:
            raise ValueError(f"README.md: expected the marks {begin} and {end} once each")
        head, rest = readme.split(begin)
        readme = f"{head}{begin}\n{block}\n{end}{rest.split(end)[1]}"
    return readme


def write(readme: Path, folder: Path = RESULTS) -> None:
    """Bring README.md's blocks, ledger, speed and cost, and ``folder``/REPORT.md, up to date."""
    store = Store(folder)
    report_page, found = page(store), blocks(store)  # which take a while, in which README may be edited
    write_text(folder / "REPORT.md", report_page)
    write_text(readme, with_blocks(readme.read_text(encoding="utf-8"), found))
