"""``python -m lib.sweep``."""

import argparse

from lib import data, sweep, tables
from lib.plan import BACKENDS
from lib.run.allowed import PRECISIONS
from lib.store import StoreError


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lib.sweep", description="Train and store the missing runs of a table."
    )
    parser.add_argument("table", help="one of lib/tables")
    parser.add_argument("--tier", default="smoke", help=", ".join(tables.TIERS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="time budget; the next sweep goes on where this one stops")
    parser.add_argument("--backend", default="loky", help=", ".join(BACKENDS))
    parser.add_argument("--scheduler", help="address of a cluster of dask or ray; without it one is started here")
    parser.add_argument("--n-jobs", type=int, help="workers (default: one per GPU or, without any, per core)")
    parser.add_argument("--together", type=int, help="runs that a worker trains at once (default: many on a GPU)")
    parser.add_argument("--precision", default=PRECISIONS[0], help=", ".join(PRECISIONS))
    arguments = vars(parser.parse_args())
    try:
        print(sweep.run(tables.load(arguments.pop("table")), **arguments))
    except (ValueError, data.DataError, StoreError, sweep.SweepError) as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("stopped; the same command goes on from here") from None


if __name__ == "__main__":
    main()
