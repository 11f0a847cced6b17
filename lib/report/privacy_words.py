"""What records say of their privacy, in words: claimed / proven / audited ε, and why."""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from lib.record import Record

MARK = "†"  # on what is proven for noise that hides more than the run's, in float32, did
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
            f"{claimed} / {_range([proven['epsilon']], at_most)}{MARK * in_float32(record)} / "
            f"{_range([audited and audited['epsilon']], at_least)} ({proven['why']})"
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
        _range([block["proven"]["epsilon"] for block in blocks if block["claimed"] or not claims], at_most)
        + MARK * any(in_float32(record) for cell in cells for record in cell),
        _range(audits or [None], at_least),
    ]
    reasons = dict.fromkeys(block["proven"]["why"].split("; for a linear loss")[0] for block in blocks)
    return f"{' / '.join(parts)} ({'; '.join(reasons)})"


def of_assumptions(records: list[Record]) -> str:
    """Of how many of the runs with a proven ε it is known that they did not keep to what the proof assumes of the noise
    and of the norms; "" if of none."""
    proven = [r for r in records if r["privacy"]["noise_multiplier"] and r["privacy"]["proven"]["epsilon"] is not None]
    rounded = [record for record in proven if in_float32(record)]
    if not rounded:
        return ""
    one_draw = sum(record["env"]["flags"].get("draws") != 2 for record in rounded)
    short = sum(SHORT in record["privacy"]["proven"]["assumes"] for record in rounded)
    more = {"the noise was a single draw, not quite Gaussian": one_draw, "a norm may have come out too small": short}
    known = [f"of {runs} {what}" for what, runs in more.items() if runs]
    if known:
        known.append("what that adds to δ their records say")
    added = f"in {len(rounded)} of {len(proven)} runs noise was added in float32, whose last digits can tell an example"
    return "; ".join([f"{MARK} proven for real numbers: {added}", *known])


def in_float32(record: Record) -> bool:
    """Whether the noise of a run with a proven ε was added in float32, which may show an example by its last digits."""
    privacy = record["privacy"]
    noised = privacy["noise_multiplier"] and privacy["proven"]["epsilon"] is not None
    return bool(noised) and record["env"]["flags"].get("noise") != "float64"


def at_least(epsilon: float) -> str:
    """A lower bound on ε, to three digits, rounded down: what is said is true, too."""
    return _rounded(epsilon, ROUND_FLOOR)


def at_most(epsilon: float) -> str:
    """An upper bound, or a claim of one, rounded up."""
    return _rounded(epsilon, ROUND_CEILING)


def _rounded(epsilon: float, rounding: str) -> str:
    """What is beyond 1000 differs in nothing that matters: e^1000 times as likely is no promise."""
    decimal = Context(prec=3, rounding=rounding).create_decimal(repr(float(epsilon)))  # of 0.05, not of its bits
    return "> 1000" if epsilon > 1000 else f"{float(decimal):g}"


def _claimed(claims: list[tuple[str, float | None]]) -> str:
    if not claims:
        return "none"
    return f"{_range([e for _, e in claims], at_most, UNBOUNDED)} by {', '.join(dict.fromkeys(n for n, _ in claims))}"


def _range(epsilons: list[float | None], told: Callable[[float], str], unknown: str = "none") -> str:
    """``0.5 to 7 or none``."""
    known = [epsilon for epsilon in epsilons if epsilon is not None]
    ends = list(dict.fromkeys(told(f(known)) for f in (min, max))) if known else []
    return " or ".join([" to ".join(ends)] * bool(ends) + [unknown] * (len(known) < len(epsilons)))
