"""Where a run happens: what its process does with memory."""

import platform
import subprocess
import sys

import pytest

KEEPS = """
import pathlib, sys, torch
from lib import environment
if sys.argv[1] != "as it is":
    environment.keep_freed_memory()
for _ in range(2):
    torch.ones(2**26)  # 256 MiB, freed at once
if sys.argv[1] == "given back":
    environment.give_back_memory()
status = dict(line.split(":") for line in pathlib.Path("/proc/self/status").read_text().splitlines())
most, now = (int(status[name].split()[0]) for name in ("VmHWM", "VmRSS"))  # KiB
print(most - now < 2**17)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator alone is told")
@pytest.mark.parametrize("how", ["as it is", "kept", "given back"])
def test_a_process_that_is_told_to_keeps_the_memory_it_freed_until_it_gives_it_back(how):
    done = subprocess.run([sys.executable, "-c", KEEPS, how], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(how == "kept")
