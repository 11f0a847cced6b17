"""``python -m lib.audit [sensitivity | v1 | mislabelled | records]``: measure, attack, and store what is found."""

import argparse
import time
from datetime import UTC, datetime

import torch
from tqdm import tqdm

from lib import data, environment, store
from lib.audit import mislabelled, normalisation, records, v1

MEASURED = {"sensitivity": normalisation.measure, "v1": v1.measure, "mislabelled": mislabelled.measure}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.audit", description=__doc__)
    parser.add_argument("what", choices=[*MEASURED, "records"])
    what = parser.parse_args().what
    if what == "records":
        stored = store.Store(read_only=False)
        for _, record in tqdm(list(stored.filed()), unit="record"):
            block = records.block(record)
            if block != record["privacy"]:
                stored.amend(record, block)
        return
    started, clock = datetime.now(UTC), time.perf_counter()
    results = MEASURED[what]()
    env = environment.describe(
        torch.device("cpu"),
        started=started,
        seconds=time.perf_counter() - clock,
        data_sha256=data.load("mnist").sha256,
    )
    print(store.write_measured(store.AUDITS / f"{what}.json", results, env))


if __name__ == "__main__":
    try:
        main()
    except (data.DataError, store.StoreError) as error:
        raise SystemExit(f"error: {error}") from error
