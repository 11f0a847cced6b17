"""Leases: one owner at a time, and none for ever."""

import errno
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from lib.lease import Lease, _began, leases

RUN = "0123456789ab"


def take(folder, *, silent=60.0):
    return Lease.take(folder, RUN, silent=silent)


def rewrite(lease, **owner):
    """The lease as if somebody else had it."""
    lease.path.write_text(json.dumps({"host": lease.host, "pid": lease.pid, "parent": lease.parent} | owner))


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def aged(lease, seconds):
    then = lease.path.stat().st_mtime - seconds
    os.utime(lease.path, (then, then))


def test_one_of_many_gets_it_and_the_next_when_it_is_released(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        taken = [lease for lease in pool.map(lambda _: take(tmp_path), range(64)) if lease]
    assert len(taken) == 1
    assert take(tmp_path) is None
    assert Lease.take(tmp_path, RUN[::-1], silent=60.0) is not None
    taken[0].release()
    assert take(tmp_path) is not None


def test_one_that_cannot_be_written_is_nobodys(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(json, "dump", full)
        with pytest.raises(OSError, match="no space"):
            take(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert take(tmp_path) is not None


def test_a_file_server_that_stumbles_does_not_stop_who_has_it(tmp_path, monkeypatch):
    def stale(*_, **__):
        raise OSError(errno.ESTALE, "stale file handle")

    lease = take(tmp_path)
    with monkeypatch.context() as server:
        server.setattr(os, "utime", stale)
        lease.beat()
    with monkeypatch.context() as server:  # another's lease that was just given back
        read = Path.read_text
        server.setattr(Path, "read_text", lambda path, **how: (stale if path.suffix == ".lease" else read)(path, **how))
        assert take(tmp_path) is None
    assert take(tmp_path) is None


@pytest.mark.parametrize("call", ["read_text", "is_file", "glob"])
def test_one_that_cannot_be_read_is_given_back_all_the_same(tmp_path, monkeypatch, call):
    """Left behind, it would be silent, and its owner, who goes on with another run, killed for it."""
    lease = take(tmp_path)
    with monkeypatch.context() as server, suppress(OSError):
        server.setattr(Path, call, lambda *_, **__: (_ for _ in ()).throw(OSError(errno.ESTALE, "stale file handle")))
        lease.release()
    assert list(tmp_path.iterdir()) == []


def test_machines_of_one_name_are_told_apart_and_so_are_containers(tmp_path):
    lease = take(tmp_path)
    told = lease.host.split()
    assert len(told) == (3 if sys.platform == "linux" else 1)  # its name, the container's processes, its last start
    gone = dead_process()
    rewrite(lease, pid=gone)
    assert next(leases(tmp_path)).dead
    for one in told:
        rewrite(lease, pid=gone, host=lease.host.replace(one, "another"))
        assert not next(leases(tmp_path)).dead


@pytest.mark.parametrize("many", [1, 16])
def test_a_dead_owners_lease_is_followed_at_once_and_by_one_alone(tmp_path, many):
    first = take(tmp_path)
    rewrite(first, pid=dead_process())
    with ThreadPoolExecutor(many) as pool:
        taken = [lease for lease in pool.map(lambda _: take(tmp_path), range(many)) if lease]
    assert [lease.path.name for lease in taken] == [f"{RUN}.1.lease"]
    taken[0].release()
    assert list(tmp_path.iterdir()) == []


def test_of_two_who_look_at_the_same_moment_one_gets_it(tmp_path, monkeypatch):
    assert take(tmp_path)
    monkeypatch.setattr("lib.lease._named", lambda *_: [])  # what the other saw
    assert take(tmp_path) is None


def test_who_looked_before_it_was_given_back_does_not_follow_it(tmp_path, monkeypatch):
    """Its age cannot be told any more."""
    first, age = take(tmp_path), Lease.age.fget
    monkeypatch.setattr(Lease, "age", property(lambda lease: (first.release(), age(lease))[1]))
    assert take(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_of_two_who_looked_at_different_moments_one_alone_has_it(tmp_path, monkeypatch):
    """One saw a dead owner's lease, the other an empty folder, as it was followed and given back in between."""
    rewrite(take(tmp_path), pid=dead_process())
    create, other = Path.open, []

    def late(path, *how, **more):
        if "x" in how:
            monkeypatch.setattr(Path, "open", create)
            take(tmp_path).release()
            other.append(take(tmp_path))
        return create(path, *how, **more)

    monkeypatch.setattr(Path, "open", late)
    assert take(tmp_path) is None
    assert [lease.path for lease in leases(tmp_path)] == [other[0].path]
    other[0].release()
    assert take(tmp_path) is not None


def test_one_that_is_gone_before_its_owner_has_looked_again_is_nobodys(tmp_path, monkeypatch):
    """Another, with a higher number, was given back meanwhile, and took it for one of the dead before."""
    dump = json.dump
    monkeypatch.setattr(json, "dump", lambda owner, file: (dump(owner, file), os.unlink(file.name)))
    assert take(tmp_path) is None


def test_who_steps_back_takes_away_nothing_of_another_s(tmp_path, monkeypatch):
    """Its own was tidied away before it looked again, and numbers had begun again at 0."""
    dump = json.dump

    def followed(owner, file):
        monkeypatch.setattr(json, "dump", dump)
        dump(owner, file)
        os.unlink(file.name)
        rewrite(take(tmp_path), pid=os.getppid())

    monkeypatch.setattr(json, "dump", followed)
    assert take(tmp_path) is None
    assert [lease.pid for lease in leases(tmp_path)] == [os.getppid()]


def test_its_own_is_given_back_last(tmp_path, monkeypatch):
    """Until then nobody takes one of a number before."""
    rewrite(take(tmp_path), pid=dead_process())
    second, gone, unlink = take(tmp_path), [], Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path, **how: (gone.append(path.name), unlink(path, **how)))
    second.release()
    assert gone == [f"{RUN}.0.lease", f"{RUN}.1.lease"]


def test_a_lease_is_followed_however_many_owners_died(tmp_path):
    for generation in range(4):
        lease = take(tmp_path)
        assert lease.path.name == f"{RUN}.{generation}.lease"
        rewrite(lease, pid=dead_process())


def test_a_process_that_has_the_number_of_a_dead_one_is_not_the_owner(tmp_path):
    """Told by when it began."""
    lease = take(tmp_path)
    (read,) = leases(tmp_path)
    assert not read.dead
    rewrite(lease, pid=os.getpid(), began="long ago")
    (read,) = leases(tmp_path)
    assert read.dead


def test_a_silent_owners_lease_is_followed_and_one_that_beats_is_not(tmp_path):
    first = take(tmp_path)
    aged(first, 50)
    assert take(tmp_path) is None
    aged(first, 50)
    first.beat()
    assert first.age < 5
    aged(first, 100)
    second = take(tmp_path)
    assert second.path.name == f"{RUN}.1.lease"
    first.release()  # it wakes up and is done: what follows it is not its own
    assert [lease.path for lease in leases(tmp_path)] == [second.path]
    second.release()
    second.beat()


def test_an_owner_touches_it_once_a_second_however_fast_it_steps(tmp_path, monkeypatch):
    lease, now, touched = take(tmp_path), [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "utime", lambda path: touched.append((path, now[0])))
    for now[0] in (100.0, 100.4, 100.8, 101.2, 101.6):
        lease.beat()
    assert touched == [(lease.path, 100.0), (lease.path, 101.2)]


def test_an_owner_whose_last_touch_lies_in_the_future_is_silent_in_the_end(tmp_path, monkeypatch):
    """As long as no other is seen: its clock was wrong, or is."""
    first, passed = take(tmp_path), [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: passed[0])
    for _ in range(3):
        aged(first, -86400)
        assert take(tmp_path) is None
        passed[0] += 50
    assert take(tmp_path) is None
    passed[0] += 20
    assert take(tmp_path).path.name == f"{RUN}.1.lease"


def test_a_child_is_told_from_others_and_a_released_lease_has_no_age(tmp_path):
    lease = take(tmp_path)
    assert not lease.of_a_child
    here = {"parent": os.getpid(), "parent_began": _began(os.getpid())}
    for owner, of_a_child in (
        ({}, True),
        ({"host": "elsewhere"}, False),
        ({"parent": os.getppid()}, False),
        ({"parent_began": "long ago"}, False),  # an earlier process with this one's number
    ):
        rewrite(lease, **here | owner)
        assert next(leases(tmp_path)).of_a_child == of_a_child
    rewrite(lease, began=lease.began, parent_began=lease.parent_began)
    lease.release()
    assert not lease.age > 0.0


def test_an_owner_says_when_its_parent_began(tmp_path):
    lease = take(tmp_path)
    assert lease.parent_began == _began(os.getppid())
    assert list(leases(tmp_path)) == [lease]


def test_nothing_is_known_of_processes_elsewhere(tmp_path):
    first = take(tmp_path)
    rewrite(first, pid=dead_process(), host="elsewhere")
    assert take(tmp_path) is None
    aged(first, 100)
    assert take(tmp_path) is not None


def test_a_process_of_somebody_else_s_is_not_dead(tmp_path, monkeypatch):
    assert take(tmp_path)
    monkeypatch.setattr(os, "kill", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EPERM, "not permitted")))
    assert take(tmp_path) is None


def test_an_owner_that_has_not_yet_said_who_it_is_has_its_time(tmp_path):
    first = take(tmp_path)
    first.path.write_text("")
    assert take(tmp_path) is None
    aged(first, 100)
    assert take(tmp_path) is not None


def test_who_was_taken_for_dead_gives_back_nothing_of_another_s(tmp_path):
    """Numbers begin again at 0 once all leases of a run are given back."""
    slow = take(tmp_path)
    aged(slow, 100)
    take(tmp_path).release()
    another = take(tmp_path)
    rewrite(another, pid=os.getppid())
    assert another.path == slow.path
    slow.release()
    assert another.path.exists()


def test_what_is_no_lease_is_passed_over_and_left_alone(tmp_path):
    """A copy that somebody made, and a folder; and what another program wrote has its time, as an owner unheard of."""
    odd = [tmp_path / f"{RUN}.{name}.lease" for name in ("copy", "0", "1.2")]
    odd[0].write_text("{}")
    odd[1].mkdir()
    odd[2].write_text("{}")
    assert list(leases(tmp_path)) == []
    lease = take(tmp_path)
    assert lease.path.name == f"{RUN}.1.lease"
    for owner in ({"pid": "1"}, {"parent": None}, {"began": 1}, {"host": []}):
        rewrite(lease, **owner)
        (read,) = leases(tmp_path)
        assert (read.dead, read.of_a_child) == (False, False)
        assert take(tmp_path) is None
    aged(lease, 100)
    following = take(tmp_path)
    assert following.path.name == f"{RUN}.2.lease"
    following.release()
    assert sorted(tmp_path.iterdir()) == sorted(odd)


def test_an_owner_whose_parent_has_not_noticed_is_dead(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lease = Lease.take(tmp_path, "0" * 12, silent=60.0)
    owner = {"host": lease.host, "pid": process.pid, "parent": lease.parent, "began": _began(process.pid)}
    lease.path.write_text(json.dumps(owner))
    assert not next(leases(tmp_path)).dead
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie
    assert next(leases(tmp_path)).dead
    process.communicate()
