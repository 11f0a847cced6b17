"""What a claim is judged to be, and how evidence makes a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"  # as :func:`lib.report.ours` writes a cell without runs
SHOWN = 2  # decisive numbers in the ledger
Part = tuple[bool | None, str]  # whether it holds, and the evidence; None: not known


@dataclass(frozen=True)
class Verdict:
    """``status`` is "holds", "fails" or "open"; ``parts`` say on which numbers, ``decisive`` on which above all.

    ``tally``: how many parts speak for the claim, where they do not agree.  ``contrary``: numbers that decide nothing
    and say otherwise.
    """

    status: str
    parts: tuple[str, ...]
    decisive: tuple[str, ...] = ()
    contrary: tuple[str, ...] = ()
    tally: str = ""

    @property
    def evidence(self) -> str:
        return "; ".join(self.parts)

    def __str__(self) -> str:
        return f"{self.status}: {self.evidence}"

    def on_lines(self) -> str:
        """The status, and below it a line for each piece of evidence."""
        return "\n  ".join([self.status, *self.parts])

    @property
    def deciding(self) -> tuple[str, ...]:
        """What is told in short: at most two of the decisive numbers, or all there are where none decides."""
        return self.decisive[:SHOWN] or self.parts

    def in_short(self) -> str:
        """The tally, at most two of the decisive numbers, one contrary, and how many more there are of each."""
        told = []
        for numbers, shown in ((self.decisive, SHOWN), (self.contrary, 1)):
            told += numbers[:shown] + (f"and {len(numbers) - shown} more",) * (len(numbers) > shown)
        return self.tally + ("; ".join(told) or self.evidence)


def verdict(parts: Sequence[Part], *, beside: Sequence[Part] = ()) -> Verdict:
    """Of all parts: one that fails decides, else one that is open.

    Parts with a number that is not stored are counted, not told.  ``beside``: evidence that decides nothing; what of it
    says otherwise is told in short, too.
    """
    oks = [ok for ok, _ in parts]
    status = "fails" if False in oks else "open" if None in oks or not oks else "holds"
    known = [(ok, text) for ok, text in parts if ok is not None or MISSING not in text]
    evidence = [text for _, text in known]
    if len(known) < len(parts):
        missing = f"{len(parts) - len(known)} of {len(parts)}" if known else "what decides it is"
        evidence.append(f"{missing} not stored yet")
    others = [(ok, f"beside: {text}") for ok, text in beside if MISSING not in text]
    deciding = {"fails": False, "open": None, "holds": True}[status]
    decisive = [text for ok, text in known if ok is deciding] + evidence[len(known) :] * (status == "open")
    contrary = [text for ok, text in others if None not in (ok, deciding) and ok is not deciding]
    agreed = oks.count(True)
    tally = f"{agreed} of {len(parts)} hold. {status.capitalize()}: " if 0 < agreed < len(parts) else ""
    return Verdict(status, (*evidence, *(text for _, text in others)), tuple(decisive), tuple(contrary), tally)
