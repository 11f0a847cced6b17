"""What records say of their privacy, in words: claimed / proven / audited ε, and why."""

from lib.store import Record


def of_cell(records: list[Record]) -> str:
    """``1 by pld / 1 / none (why)``: the different answers of a cell's records, claimed / proven / audited."""
    answers = {}
    for record in records:
        block = record["privacy"]
        claimed = ", ".join(f"{_epsilon(epsilon)} by {name}" for name, epsilon in block["claimed"].items()) or "none"
        proven, audited = block["proven"], block["audited"]
        answers[
            f"{claimed} / {_epsilon(proven['epsilon'])} / "
            f"{'none' if audited is None else _epsilon(audited['epsilon'])} ({proven['why']})"
        ] = None
    return "; ".join(answers)


def of_cells(cells: list[list[Record]]) -> str:
    """The answer that all cells give; or, where they differ, the range of each ε and every reason once."""
    answers = list(dict.fromkeys(answer for cell in cells if (answer := of_cell(cell))))
    if len(answers) <= 1:
        return "".join(answers) or "nothing stored yet"
    blocks = [record["privacy"] for cell in cells for record in cell]
    claims = [(name, epsilon) for block in blocks for name, epsilon in block["claimed"].items()]
    audits = [block["audited"]["epsilon"] for block in blocks if block["audited"] is not None]
    parts = [
        f"{_range([e for _, e in claims])} by {', '.join(dict.fromkeys(name for name, _ in claims))}",
        _range([block["proven"]["epsilon"] for block in blocks]),
        _range(audits) if audits else "none",
    ]
    reasons = dict.fromkeys(block["proven"]["why"].split("; for a linear loss")[0] for block in blocks)
    return f"{' / '.join(parts)} ({'; '.join(reasons)})"


def _range(epsilons: list[float | None]) -> str:
    """``0.5 to 7 or none``."""
    known = [epsilon for epsilon in epsilons if epsilon is not None]
    least, most = (_epsilon(f(known)) if known else "" for f in (min, max))
    told = [least if least == most else f"{least} to {most}"] if known else []
    return " or ".join(told + ["none"] * (len(known) < len(epsilons)))


def _epsilon(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:.3g}"
