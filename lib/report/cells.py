"""Every cell of the papers' tables that claims an ε: printed, ours, and the ε that is claimed, proven, audited."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lib import accounting, registry, tables
from lib.record import Record
from lib.report import privacy_words
from lib.report.frames import records, summary
from lib.store import Store
from lib.tables import Row, Table

OF_CELL = ("row", "column", "printed", "mean", "stderr", "n")
HEADS = ("table", *OF_CELL, "claimed", "recomputed", "proven", "audited", "mark")


def private_cells(tier: str, store: Store) -> pd.DataFrame:
    """One line for each cell of a paper's table whose records claim an ε, or would if there were any.

    ``claimed`` by the run's own accountant.  ``recomputed``: the same claim counted well, by today's RDP where SI-DPSGD
    is taken for DPSGD, and elsewhere as ``proven``: the largest of the cell's records, NaN where there is none.
    ``audited``: the largest, NaN where nothing was attacked.  ``mark``: † where the noise of one of them was added
    in float32, which may tell more than its proof says.
    """
    lines = []
    for name in registry.names("tables"):
        table = tables.load(name)
        if table.source.startswith("ours"):
            continue
        cells = summary(table, tier, store)
        found = {cell: list(records(table, *cell, tier, store)) for cell in table.cells}
        if not any(record["privacy"]["claimed"] for of_cell in found.values() for record in of_cell):
            continue
        for cell, line in zip(table.cells, cells.to_dict("records"), strict=True):
            of_cell = found[cell]
            if table.column == "epsilon" and cell[1] is None:
                continue
            if of_cell and not of_cell[0]["privacy"]["claimed"]:
                continue
            told = {"table": name, **{head: line[head] for head in OF_CELL}}
            lines.append(told | _epsilons(of_cell))
    return pd.DataFrame(lines, columns=HEADS)


def differences(table: Table, bases: Mapping[Row, Row], tier: str, store: Store) -> pd.DataFrame:
    """One line for each row of ``bases``, in the first column: its accuracy, n, less that of its base, and its ε."""
    column, means, counts = table.columns[0], {}, {}
    for cell in summary(table, tier, store).to_dict("records"):
        if cell["column"] == column:
            means[cell["row"]], counts[cell["row"]] = cell["mean"], cell["n"]
    lines = {}
    for row, base in bases.items():
        epsilons = _epsilons(list(records(table, row, column, tier, store)))
        of_row = {"accuracy": means[row], "change": means[row] - means[base]}
        of_row |= {head: epsilons.get(head) for head in ("claimed", "proven")}
        lines[row] = {"n": counts[row], "beside": base, **of_row}
    return pd.DataFrame.from_dict(lines, orient="index").astype({"claimed": float, "proven": float})


def _epsilons(of_cell: list[Record]) -> dict[str, float | str | None]:
    if not of_cell:
        return {}
    blocks = [record["privacy"] for record in of_cell]
    bounds = [block["proven"]["epsilon"] for block in blocks]
    proven = None if None in bounds else max(bounds)
    audited = [block["audited"]["epsilon"] for block in blocks if block["audited"] is not None]
    return {
        "claimed": next(iter(blocks[0]["claimed"].values())),
        "recomputed": _as_dpsgd(blocks[0]) if of_cell[0]["run"]["method"] == "si_dpsgd" else proven,
        "proven": proven,
        "audited": max(audited, default=None),
        "mark": privacy_words.MARK * any(map(privacy_words.in_float32, of_cell)),
    }


def _as_dpsgd(block: dict[str, Any]) -> float:
    """ε of DPSGD with the run's noise, sampling and steps; by the run's own accountant where RDP does not cover it."""
    how = {"sampler": block["sampler"], "neighbouring_relation": block["neighbouring_relation"]}
    (own,) = block["claimed"]
    return accounting.epsilon(
        noise_multiplier=block["noise_multiplier"],
        sampling_prob=block["sampling_prob"],
        steps=block["steps"],
        delta=block["delta"],
        accountant="rdp" if "rdp" in accounting.accountants(**how) else own,
        **how,
    )
