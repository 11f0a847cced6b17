"""Where a run happens: what its process does with memory."""

import platform
import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from lib import environment

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


def test_threads_and_small_numbers_are_afterwards_what_they_were():
    small, threads = torch.tensor([1e-40]), torch.get_num_threads()
    for flushed in (False, True):
        torch.set_flush_denormal(flushed)
        with environment.set_up(threads + 1):
            assert (torch.get_num_threads(), (small * 1.0).item()) == (threads + 1, 0.0)
        assert torch.get_num_threads() == threads
        assert ((small * 1.0).item() == 0.0) == flushed
    torch.set_flush_denormal(False)


def test_threads_and_small_numbers_are_what_they_were_after_an_error_too():
    threads = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), environment.set_up(threads + 1):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == threads
    assert not environment._flushes_denormal()


@pytest.mark.parametrize(("changed", "dirty"), [(b"", False), (b" M lib/run/__init__.py\n", True)])
def test_the_code_is_told_by_its_commit_and_whether_files_of_lib_differ(changed, dirty, monkeypatch):
    asked = []

    def git(command, *, text=False, **how):
        asked.append(command)
        return SimpleNamespace(stdout="0123abc\n" if text else changed)

    monkeypatch.setattr(environment.subprocess, "run", git)
    assert environment._version() == ("0123abc", dirty)
    assert all("--no-optional-locks" in command for command in asked)  # another git may be at work
    assert asked[1][-2:] == ["--", "lib"]


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")])
def test_outside_a_checkout_or_without_git_the_code_is_not_told(error, monkeypatch):
    monkeypatch.setattr(environment.subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(error))
    assert environment._version() == (None, None)


def test_memory_is_counted_in_the_systems_unit(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(environment.resource, "getrusage", lambda who: resource.struct_rusage([0, 0, 2048, *[0] * 13]))
    for system, size in (("linux", 2**21), ("darwin", 2**11)):
        monkeypatch.setattr(environment.sys, "platform", system)
        assert environment._peak_memory(cpu) == size


@pytest.mark.parametrize(("machine", "found"), [("x86_64", False), ("aarch64", True)])
def test_a_processor_with_avx512_alone_emulates_bfloat16(machine, found, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(environment.torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(environment.platform, "machine", lambda: machine)
    assert environment.computes_in_bfloat16() is found


def test_a_gpu_that_emulates_bfloat16_does_not_compute_in_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not environment.computes_in_bfloat16()


def test_a_processor_that_mkldnn_has_no_bfloat16_for_does_not_compute_in_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(environment.torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    monkeypatch.setattr(environment.platform, "machine", lambda: "aarch64")
    assert not environment.computes_in_bfloat16()


def test_a_torch_without_mkldnn_does_not_compute_in_bfloat16(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not environment.computes_in_bfloat16()
