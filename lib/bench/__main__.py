"""``python -m lib.bench [name …]``."""

import sys

from lib import bench

try:
    bench.run(sys.argv[1:])
except ValueError as error:
    raise SystemExit(f"error: {error}") from error
