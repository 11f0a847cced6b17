"""What records say of their privacy, in words: claimed / proven / audited ε, and why."""

from lib.record import Record

MARK = "†"  # on what is proven for noise that is more Gaussian than the run's was
SHORT = "norms that may have come out too small"  # as :mod:`lib.audit.records` words it
UNBOUNDED = "∞"  # a claim that is stored as null: its accountant finds no bound


def of_cell(records: list[Record]) -> str:
    """``1 by pld / 1 / none (why)``: the different answers of a cell's records, claimed / proven / audited."""
    answers = {}
    for record in records:
        block = record["privacy"]
        claimed = _claimed(list(block["claimed"].items()))
        proven, audited = block["proven"], block["audited"]
        answers[
            f"{claimed} / {_epsilon(proven['epsilon'])}{MARK * of_one_draw(record)} / "
            f"{'none' if audited is None else _epsilon(audited['epsilon'])} ({proven['why']})"
        ] = None
    return "; ".join(answers)


def of_cells(cells: list[list[Record]]) -> str:
    """The answer that all cells give; or, where they differ, the range of each ε and every reason once.

    Where nothing is claimed, as without privacy, nothing is there to prove: the range of what is proven is of claims.
    """
    answers = list(dict.fromkeys(answer for cell in cells if (answer := of_cell(cell))))
    if len(answers) <= 1:
        return "".join(answers) or "nothing stored yet"
    blocks = [record["privacy"] for cell in cells for record in cell]
    claims = [(name, epsilon) for block in blocks for name, epsilon in block["claimed"].items()]
    audits = [block["audited"]["epsilon"] for block in blocks if block["audited"] is not None]
    parts = [
        _claimed(claims),
        _range([block["proven"]["epsilon"] for block in blocks if block["claimed"] or not claims])
        + MARK * any(of_one_draw(record) for cell in cells for record in cell),
        _range(audits) if audits else "none",
    ]
    reasons = dict.fromkeys(block["proven"]["why"].split("; for a linear loss")[0] for block in blocks)
    return f"{' / '.join(parts)} ({'; '.join(reasons)})"


def of_assumptions(records: list[Record]) -> str:
    """Of how many of the runs with a proven ε it is known that they did not keep to what the proof assumes of the noise
    and of the norms; "" if of none."""
    proven = [r for r in records if r["privacy"]["noise_multiplier"] and r["privacy"]["proven"]["epsilon"] is not None]
    one_draw = sum(of_one_draw(record) for record in proven)
    if not one_draw:
        return ""
    short = sum(SHORT in record["privacy"]["proven"]["assumes"] for record in proven)
    norms = f"; of {short} a norm may have come out too small" if short else ""
    return (
        f"{MARK} proven for Gaussian noise: that of {one_draw} of {len(proven)} runs was one float32 draw, which is "
        f"not quite{norms}; what that adds to δ their records say"
    )


def of_one_draw(record: Record) -> bool:
    """Whether the noise of a run with a proven ε was one float32 draw."""
    privacy = record["privacy"]
    noised = privacy["noise_multiplier"] and privacy["proven"]["epsilon"] is not None
    return bool(noised) and record["env"]["flags"].get("draws") != 2


def _claimed(claims: list[tuple[str, float | None]]) -> str:
    if not claims:
        return "none"
    return f"{_range([e for _, e in claims], UNBOUNDED)} by {', '.join(dict.fromkeys(name for name, _ in claims))}"


def _range(epsilons: list[float | None], unknown: str = "none") -> str:
    """``0.5 to 7 or none``."""
    known = [epsilon for epsilon in epsilons if epsilon is not None]
    least, most = (_epsilon(f(known)) if known else "" for f in (min, max))
    told = [least if least == most else f"{least} to {most}"] if known else []
    return " or ".join(told + [unknown] * (len(known) < len(epsilons)))


def _epsilon(epsilon: float | None) -> str:
    """What is beyond 1000 differs in nothing that matters: e^1000 times as likely is no promise."""
    if epsilon is None:
        return "none"
    return f"{epsilon:.3g}" if epsilon <= 1000 else "> 1000"
