"""A stranger's mistakes, at the commands that README names: each ends in one clear sentence, never in a traceback.

A full disk is among :mod:`test_faults`, wrong parameters of a notebook are in :mod:`test_reproduce`.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lib import registry

ROOT = Path(__file__).resolve().parent.parent
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")  # where nothing listens


def outside_make(**more):
    """The environment without what a ``make`` that runs these tests tells one that is started by them."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))} | more


def command(*arguments, cwd=ROOT, env=None, **how):
    """Exit status, and the lines that were said."""
    how |= {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(arguments, cwd=cwd, env=outside_make(**env or {}), **how)
    assert "Traceback" not in done.stdout, done.stdout
    return done.returncode, done.stdout.strip().splitlines()


def module(name, *arguments, **how):
    return command(sys.executable, "-m", name, *arguments, **how)


@pytest.mark.parametrize("name", ["lib.sweep", "lib.reproduce"])
def test_an_unknown_table(name):
    status, said = module(name, *(["--table"] if name == "lib.reproduce" else []), "mnist_nose")
    assert status == 1
    assert said == [f"error: unknown table 'mnist_nose'; expected one of {', '.join(registry.names('tables'))}"]


def test_no_data_and_no_network(tmp_path):
    empty = {"DP_COMPANION_DATA": str(tmp_path / "nothing"), **NO_NETWORK}
    status, said = module("lib.sweep", "mnist_noise", "--tier", "paper", "--minutes", "0", env=empty)
    assert status == 1
    assert len(said) == 1
    assert said[0].startswith(
        f"error: {tmp_path / 'nothing' / 'mnist.npz'}: no such file, and the download of mnist failed"
    )
    assert said[0].endswith("put mnist.npz there, or set $DP_COMPANION_DATA to the folder that holds it")


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_a_python_that_does_not_fit(version, tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    other = tmp_path / "python"
    major, minor = version.split(".")
    other.write_text(
        f"#!{sys.executable}\nimport sys\nfrom collections import namedtuple\n"
        f"sys.version_info = namedtuple('V', 'major minor')({major}, {minor})\nexec(sys.argv[2])\n"
    )
    other.chmod(0o755)
    status, said = command("make", "test", f"PYTHON={other}", cwd=tmp_path)
    assert status == 2
    assert f"expected Python 3.11 to 3.13; got {version}; try make PYTHON=python3.12" in said
    assert not (tmp_path / ".venv").exists()


@pytest.mark.slow
def test_a_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = f"--no-browser --allow-root --ip=127.0.0.1 --port={port} --ServerApp.port_retries=0"
        status, said = command("make", "lab", f"ARGS={options}")
    assert status == 2
    assert any(line.endswith(f"could not be started because port {port} is not available.") for line in said)
