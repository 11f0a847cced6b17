"""``python -m lib.bench [name …]``."""

import argparse

from lib import bench, registry

parser = argparse.ArgumentParser(prog="python -m lib.bench", description="Measure and store what steps cost.")
parser.add_argument("name", nargs="*", help=f"some of {', '.join(registry.names('bench'))}; all by default")
try:
    bench.run(parser.parse_args().name)
except ValueError as error:
    raise SystemExit(f"error: {error}") from error
