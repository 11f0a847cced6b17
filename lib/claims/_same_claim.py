"""Whether SI-DPSGD is at least as accurate as DPSGD at the ε that it claims, with noise by one accountant for both."""

from collections.abc import Sequence

from lib import accounting, report, tables
from lib.claims._comparison import above, both, cells, compared, cut_differently, head, told
from lib.claims._verdict import Part, Verdict, verdict
from lib.store import Store
from lib.tables import Row
from lib.tables.mnist_dp_accountants import AS_MUCH_NOISE

AS_MUCH = 0.9  # of the claimed ε: what PLD makes of the noise, where both methods have about the same


def at_the_same_claim(
    name: str,
    pairs: Sequence[tuple[Row, Row]],
    tier: str,
    store: Store,
    *,
    at_v1s_noise: str = "",
    alike: bool = True,
    briefly: Sequence[tuple[Row, Row]] = (),
) -> Verdict:
    """Whether SI-DPSGD, the first of each pair, is at least as accurate as DPSGD.

    v1 has one accountant for both; DPSGD has the noise that it asks for in the table ``at_v1s_noise``, at some ε.
    Elsewhere it has that which PLD asks for, so where SI-DPSGD is behind with clearly more noise, that says nothing.
    ``alike``: as in :func:`lib.claims.no_worse`.  ``briefly``: pairs of which the first has so few epochs that it
    decides nothing.
    """
    judged, beside = _same_claim(name, pairs, tier, store, at_v1s_noise)
    if not alike:
        judged = [cut_differently(part, tier) for part in judged]
    for row, rival in briefly:
        epochs = tables.load(name).cell(row, tables.load(name).columns[-1], seed=0, tier=tier).epochs
        others, _ = _same_claim(name, [(row, rival)], tier, store, at_v1s_noise)
        beside += [(ok, f"{text} ({row} has {epochs} epochs)") for ok, text in others]
    return verdict(judged, beside=beside)


def _same_claim(
    name: str, pairs: Sequence[tuple[Row, Row]], tier: str, store: Store, at_v1s_noise: str
) -> tuple[list[Part], list[Part]]:
    """What decides, the fairest first, and what is told beside it."""
    fairest, parts, beside, own = [], [], [], cells(name, tier, store)
    fair = cells(at_v1s_noise, tier, store) if at_v1s_noise else {}
    found = compared(name, pairs, tier, store)
    for ok, text, row, column in found:
        rival = dict(pairs)[row]
        as_much = AS_MUCH_NOISE.format(rival)
        if (as_much, column) in fair:
            beside.append((ok, text))
            one, other = own[row, column], fair[as_much, column]
            ok, why = above(one, other, of=len(found))
            text = both(head(name, column), row, one, as_much, other) + why
            text += f" (with the noise that PLD asks for at the same ε, {rival} has {told(own[rival, column])})"
            fairest.append((ok, text))
            continue
        elif ok is False:
            block = next(report.records(tables.load(name), row, column, tier, store))["privacy"]
            counted = ("noise_multiplier", "sampling_prob", "steps", "delta", "sampler", "neighbouring_relation")
            noise = accounting.epsilon(**{field: block[field] for field in counted}, accountant="pld")
            if noise < AS_MUCH * column:
                ok, text = None, f"{text} (with the noise of DPSGD at ε = {noise:.2g}: open)"
        parts.append((ok, text))
    return fairest + parts, beside
