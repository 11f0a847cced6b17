"""``python -m lib.bench [name …]``."""

import argparse

from lib import bench, registry
from lib.store import StoreError

parser = argparse.ArgumentParser(prog="python -m lib.bench", description="Measure and store what steps cost.")
parser.add_argument("name", nargs="*", help=f"some of {', '.join(registry.names('bench'))}; all by default")
try:
    bench.run(parser.parse_args().name)
except (ValueError, StoreError, OSError) as error:
    raise SystemExit(f"error: {error}") from error
except KeyboardInterrupt:
    raise SystemExit("stopped") from None
