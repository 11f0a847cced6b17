"""``python -m lib.audit``: measure what DPSGD's normalisations do to its sensitivity, and store it."""

import time
from datetime import UTC, datetime

import torch

from lib import data, environment, store
from lib.audit import normalisation

started, clock = datetime.now(UTC), time.perf_counter()
try:
    results = normalisation.measure()
except data.DataError as error:
    raise SystemExit(f"error: {error}") from error
env = environment.describe(
    torch.device("cpu"),
    started=started,
    seconds=time.perf_counter() - clock,
    data_sha256=data.load("mnist").sha256,
)
print(store.write_measured(store.AUDITS / "sensitivity.json", results, env))
