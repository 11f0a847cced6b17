"""``python -m lib.audit sensitivity`` (or ``batch_clipping``, ``float32_noise``, ``last_digits``, ``mislabelled``,
``records``, ``v1``): attack, and store what is found."""

import argparse
import time
from datetime import UTC, datetime

import torch
from tqdm import tqdm

from lib import data, environment, store, tables
from lib.audit import batch_clipping, float32_noise, last_digits, mislabelled, normalisation, records, v1
from lib.train.pretrained import PretrainedError

ON_MNIST = ("batch_clipping", "mislabelled", "sensitivity")  # the others take no data
MEASURED = {
    "batch_clipping": batch_clipping.measure,
    "float32_noise": float32_noise.measure,
    "last_digits": last_digits.measure,
    "mislabelled": mislabelled.measure,
    "sensitivity": normalisation.measure,
    "v1": v1.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.audit", description=__doc__)
    parser.add_argument("what", choices=[*MEASURED, "records"])
    parser.add_argument("table", nargs="*", help="of records: those of these tables (default: all)")
    parser.add_argument("--again", action="store_true", help="of records: attack what has been attacked before, too")
    arguments = parser.parse_args()
    if arguments.what == "records":
        _amend(arguments.table, arguments.again)
    elif arguments.table or arguments.again:
        got = " ".join([*arguments.table, *["--again"] * arguments.again])
        parser.error(f"{arguments.what}: expected neither tables nor --again, which are for records; got {got}")
    else:
        _measure(arguments.what)


def _amend(names: list[str], again: bool) -> None:
    for name in names:
        tables.load(name)  # refused by name, if there is none
    stored = store.Store(read_only=False)
    filed = list(stored.filed())
    torch.set_num_threads(1)  # an attack's steps are small: a second thread that waits for a busy core costs tenfold
    known = {} if again else records.stored(record for _, record in filed)
    for record in tqdm([record for table, record in filed if not names or table in names], unit="record"):
        block = records.block(record, known)
        if block != record["privacy"]:
            stored.amend(record, block)


def _measure(what: str) -> None:
    store.check_writable(store.AUDITS)  # refused here, before anything is measured, as missing data are
    data_sha256 = data.load("mnist").sha256 if what in ON_MNIST else ""
    started, clock = datetime.now(UTC), time.perf_counter()
    results = MEASURED[what]()
    seconds = time.perf_counter() - clock
    env = environment.describe(torch.device("cpu"), started=started, seconds=seconds, data_sha256=data_sha256)
    print(store.write_measured(store.AUDITS / f"{what}.json", results, env))


if __name__ == "__main__":
    try:
        main()
    except (data.DataError, PretrainedError, store.StoreError, ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("stopped; what was amended is stored") from None
