"""The command ``python -m lib.reproduce``: its arguments, and errors in one line."""

import argparse

from joblib import cpu_count

from lib import registry, reproduce, tables, tuning
from lib.plan import BACKENDS
from lib.reproduce import SEEDS, NotebookError
from lib.reproduce._estimate import Estimate
from lib.run.allowed import PRECISIONS
from lib.store import Store, StoreError, folder


def listing(names: list[str] | None, seeds: int | None) -> str:
    """The tables, their notebooks and sources, and for each tier how many runs are stored + how many missing."""
    every = [tables.load(name) for name in names or registry.names("tables")]
    stores = {tier: Store(folder(tier)) for tier in tables.TIERS}
    seeds = SEEDS if seeds is None else dict.fromkeys(SEEDS, seeds)
    lines = [("table", "notebook", "source", *(f"{tier}, seeds: {seeds[tier]}" for tier in tables.TIERS))]
    for table in every:
        counts = (tuning.stored_and_missing(table, tier, seeds[tier], stores[tier]) for tier in tables.TIERS)
        lines.append((table.name, table.notebook, table.source, *(f"{a} + {b}" for a, b in counts)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    told = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*told, "stored + missing runs, those of the search included"])


def dry_run(**plan: object) -> str:
    """What :func:`lib.reproduce.reproduce` would train, row by row, and how long its like took."""
    notebooks = reproduce.asked(**plan)
    estimate = Estimate.of(notebooks, Store(folder(plan["tier"])))
    lines = [str(estimate)] if estimate.runs else []
    return "\n".join([*lines, f"all: {estimate.words(notebooks[0]['n_jobs'] or cpu_count())}"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.reproduce", description=reproduce.__doc__.split("\n")[0])
    parser.add_argument("--tier", default="smoke", help=f"{', '.join(tables.TIERS)} (default: smoke)")
    parser.add_argument("--table", action="append", help="one of lib/tables; may be given again (default: all)")
    seeds = ", ".join(f"{number} in tier {tier}" for tier, number in SEEDS.items())
    parser.add_argument("--seeds", type=int, help=f"seeds per cell (default: {seeds})")
    parser.add_argument("--minutes", type=float, help="time budget for training; the next call goes on from there")
    parser.add_argument("--backend", help=f"{', '.join(BACKENDS)} (default: loky; in tier smoke sequential)")
    parser.add_argument(
        "--jobs", "--n-jobs", dest="n_jobs", type=int, help="worker processes (default: one per GPU or else per core)"
    )
    parser.add_argument(
        "--precision", default=PRECISIONS[0], help=f"{', '.join(PRECISIONS)} (default: {PRECISIONS[0]})"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--list", action="store_true", help="say which tables there are, and what is stored in every tier"
    )
    only.add_argument("--dry-run", action="store_true", help="say what would be trained, and how long its like took")
    arguments = vars(parser.parse_args())
    listed, dry = arguments.pop("list"), arguments.pop("dry_run")
    try:
        if listed:
            reproduce.asked(**arguments)
            told = ("table", "seeds")
            if unused := [n for n, value in arguments.items() if n not in told and value != parser.get_default(n)]:
                raise ValueError(f"--list: expected --table and --seeds beside it alone; got {', '.join(unused)}")
            print(listing(arguments["table"], arguments["seeds"]))
        elif dry:
            print(dry_run(**arguments))
        else:
            reproduce.reproduce(**arguments)
    except (ValueError, StoreError, NotebookError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("stopped; the same command goes on from here") from None


if __name__ == "__main__":
    main()
