"""v2 section 2 (= v1 section 3): networks with noisy weights; Table 2 and Figure 1, MNIST; Table 4, AG News."""

import math
from functools import partial
from itertools import product

from lib import report, tables
from lib.claims import MISSING, Claim, Verdict, verdict
from lib.store import Store

# The papers give no criterion for "No-convergence"; ours is an accuracy of less than twice chance.
NO_CONVERGENCE = 20.0
DROP = 7.0  # points; the paper's range ends there
FLAT = 0.5  # points between the best and the worst cell of a row that still counts as "does not change"
REACHED = (90.0, 95.0)  # validation accuracies (%) to which the epochs are counted


def _flat(rows: tuple[str, ...], tier: str, store: Store) -> Verdict:
    parts = []
    cells = report.summary(tables.load("mnist_noise"), tier, store)
    for row in rows:
        of_row = cells[cells["row"] == row]
        if (of_row["n"] == 0).any():
            parts.append((None, f"{row}: {MISSING}"))
            continue
        best, worst = of_row.loc[of_row["mean"].idxmax()], of_row.loc[of_row["mean"].idxmin()]
        spread = best["mean"] - worst["mean"]
        numbers = f"{best['mean']:.2f} at σ = {best['column']:g} to {worst['mean']:.2f} at σ = {worst['column']:g}"
        parts.append((spread <= FLAT, f"{row} {numbers}, a spread of {spread:.2f} points (n = {of_row['n'].min()})"))
    return verdict(parts)


def _collapse(columns: tuple[float, ...], tier: str, store: Store) -> Verdict:
    parts = []
    cells = report.summary(tables.load("mnist_noise"), tier, store)
    for row in ("LeNet-300-100", "LeNet-5"):
        for cell in cells[(cells["row"] == row) & cells["column"].isin(columns)].itertuples():
            ok = None if cell.n == 0 else cell.mean < NO_CONVERGENCE
            parts.append((ok, f"{row} at σ = {cell.column:g}: {report.ours(cell.mean, cell.stderr, cell.n)}"))
    return verdict(parts)


def _noise_free(tier: str, store: Store) -> Verdict:
    parts = []
    cells = report.summary(tables.load("mnist_noise"), tier, store)
    for cell in cells[cells["column"] == 0.0].itertuples():
        ok = None if cell.n == 0 else cell.mean >= cell.printed.mean - 0.3
        parts.append((ok, f"{cell.row} {report.ours(cell.mean, cell.stderr, cell.n)}, printed {cell.printed.text}"))
    return verdict(parts)


def same_accuracy(name: str, tier: str, store: Store) -> Verdict:
    """Whether in the figure ``name`` all σ end at the same accuracy, with one step size."""
    table = tables.load(name)
    cells = report.summary(table, tier, store)
    parts = []
    for row in table.rows:
        of_row = cells[cells["row"] == row]
        missing = (of_row["n"] == 0).any()
        spread = of_row["mean"].max() - of_row["mean"].min()
        listed = (
            ", ".join(f"{cell.mean:.2f} at σ = {cell.column:g}" for cell in of_row.itertuples() if cell.n) or MISSING
        )
        # The searched step sizes are constant and large, so their last epoch jumps about: evidence, not the judge.
        parts.append((None if missing else row != table.rows[0] or bool(spread <= FLAT), f"{row}: {listed}"))
    return verdict(parts)


def epochs_to_reach(
    row: str, column: float, accuracy: float, tier: str, store: Store, *, figure: str = "mnist_convergence"
) -> float | None:
    """Mean over seeds of the first epoch whose validation accuracy is at least ``accuracy``.

    None if nothing is stored; infinite if a seed never gets there.
    """
    frame = report.curves(tables.load(figure), tier, store)
    frame = frame[(frame["row"] == row) & (frame["column"] == column)]
    if frame.empty:
        return None
    seeds = frame["seed"].nunique()
    first = frame[frame["accuracy"] >= accuracy].groupby("seed")["epoch"].min()
    return float(first.mean()) if len(first) == seeds else float("inf")


def factor_seven(
    name: str, tier: str, store: Store, *, reached: tuple[float, ...] = REACHED, too_short: bool | None = False
) -> Verdict:
    """Whether in the figure ``name`` σ = 10 takes seven times as long as σ = 1 to reach each accuracy.

    ``too_short``: what a curve that ends below it decides.
    """
    parts = []
    table = tables.load(name)
    for row, accuracy in product(table.rows, reached):
        at_1, at_10 = (epochs_to_reach(row, sigma, accuracy, tier, store, figure=name) for sigma in (1.0, 10.0))
        if at_1 is None or at_10 is None:
            parts.append((None, f"{row}: {MISSING}"))
            continue
        # "A factor of order 7": within a factor of 2 of it.  The claim is about one step size; the searched one is
        # evidence of what it rests on, and does not decide.
        ok = row != table.rows[0] or (3.5 <= at_10 / at_1 <= 14 if math.isfinite(at_10) else too_short)
        times = f"{at_1:.1f} epochs to {accuracy:g} % at σ = 1, {at_10:.1f} at σ = 10, × {at_10 / at_1:.1f}"
        parts.append((ok, f"{row}: {times}"))
    return verdict(parts)


def _drops(row: str, tier: str, store: Store) -> Verdict:
    """Whether noise of every σ costs ``row`` at most ``DROP`` points."""
    cells = report.summary(tables.load("agnews_noise"), tier, store)
    clean, *noisy = cells[cells["row"] == row].itertuples()
    parts = []
    for cell in noisy:
        ok = None if not clean.n or not cell.n else clean.mean - cell.mean <= DROP
        told = report.ours(cell.mean, cell.stderr, cell.n)
        drop = "" if ok is None else f", {clean.mean - cell.mean:.2f} less than without noise"
        parts.append((ok, f"{row} at σ = {cell.column:g}: {told}{drop}"))
    return verdict(parts)


def _without_layer_norm(tier: str, store: Store) -> Verdict:
    """Whether noise of some σ costs the plain network more than ``DROP`` points."""
    judged = _drops("BiLSTM-DL", tier, store)
    return Verdict({"holds": "fails", "fails": "holds"}.get(judged.status, "open"), judged.evidence, judged.decisive)


CLAIMS = (
    Claim(
        name="Noise-free accuracy",
        says="the column σ = 0; ours at most 0.3 points below it",
        source="v2 Table 2",
        table="mnist_noise",
        judge=_noise_free,
    ),
    Claim(
        name="BN networks tolerate weight noise",
        says="their accuracy does not change at all for a large range of noise levels",
        source="v2 section 2",
        table="mnist_noise",
        judge=lambda tier, store: _flat(("BN-LeNet-300-100", "BN-LeNet-5"), tier, store),
    ),
    Claim(
        name="LN networks tolerate weight noise",
        says="their accuracy does not change at all for a large range of noise levels",
        source="v2 section 2",
        table="mnist_noise",
        judge=lambda tier, store: _flat(("LN-LeNet-300-100", "LN-LeNet-5"), tier, store),
    ),
    Claim(
        name="Plain networks do not converge at σ ≥ 1",
        says="No-convergence",
        source="v2 Table 2",
        table="mnist_noise",
        judge=lambda tier, store: _collapse((1.0, 2.0), tier, store),
    ),
    Claim(
        name="Plain networks do not converge at σ = 0.3",
        says="a small noise of order σ = 0.3 results in non-converging training",
        source="v2 section 2",
        table="mnist_noise",
        judge=lambda tier, store: _collapse((0.3,), tier, store),
    ),
    Claim(
        name="Large noise: the same accuracy in the end",
        says="models with different values of noise converge to the same accuracy, albeit with different rates",
        source="v2 section 2, Figure 1",
        table="mnist_convergence",
        judge=partial(same_accuracy, "mnist_convergence"),
    ),
    Claim(
        name="Large noise: slower by a factor of order 7",
        says="increasing the noise level from 1 to 10 slows down training by a factor of order 7",
        source="v2 section 2, Figure 1",
        table="mnist_convergence",
        judge=partial(factor_seven, "mnist_convergence"),
    ),
    Claim(
        name="LN-BiLSTM tolerates weight noise",
        says="layer normalization makes the BiLSTM model robust to noise with minimal drops in accuracy (1−7%)",
        source="v2 section 2, Table 4",
        table="agnews_noise",
        judge=lambda tier, store: _drops("LN-BiLSTM-DL", tier, store),
    ),
    Claim(
        name="Without layer norm BiLSTM does not",
        says="66.32 at σ = 1, 24.76 at σ = 2",
        source="v2 Table 4",
        table="agnews_noise",
        judge=_without_layer_norm,
    ),
)
