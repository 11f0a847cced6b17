"""The store: records go in once, whole, and come out as they were."""

import errno
import json
import math
import os
import re
import stat
import time
from pathlib import Path

import pytest
from conftest import make_record, make_run

from lib import store
from lib.record import validate
from lib.store import AlreadyStored, Store, StoreError


@pytest.fixture
def filled(tmp_path: Path) -> tuple[Store, Path]:
    results = Store(tmp_path, read_only=False)
    return results, results.write("a_table", make_record(make_run(), 50.0, 70.0))


def test_a_record_comes_back_as_it_was(filled, tmp_path):
    again = Store(tmp_path)
    assert make_run() in again
    assert again.get(make_run()) == make_record(make_run(), 50.0, 70.0)
    assert make_run(seed=1) not in again
    assert again.get(make_run(seed=1)) is None


def test_a_run_is_found_whatever_table_stored_it(filled):
    results, path = filled
    with pytest.raises(StoreError, match=f"{path.name}: already stored"):
        results.write("another_table", make_record(make_run(), 1.0))
    assert results.get(make_run())["metrics"] == {"test_accuracy": 70.0}


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without"])
def test_a_file_that_another_process_stored_is_not_overwritten(filled, tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("not supported")))
    late = Store(tmp_path / "nothing", read_only=False)
    late.root = tmp_path  # a store whose index was made before the file appeared
    before = filled[1].read_bytes()
    with pytest.raises(StoreError, match="already stored"):
        late.write("a_table", make_record(make_run(), 1.0))
    assert filled[1].read_bytes() == before


def changed(text: str, *block: str, **values: object) -> str:
    """A record's text with other values in itself, or in one of its blocks."""
    record = json.loads(text)
    (record[block[0]] if block else record).update(values)
    return json.dumps(record)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "not a valid record"),
        (lambda text: "", "not a valid record"),
        (lambda text: "[" * 100_000, "not a valid record: maximum recursion depth exceeded"),
        (lambda text: "[]", "expected the blocks schema, id, run"),
        (lambda text: text.replace('"schema": 1', '"schema": 2'), "expected schema 1; got 2"),
        (lambda text: text.replace('"lr": 0.01', '"lr": 0.02'), "which its run block hashes to"),
        (lambda text: text.replace('"lr": 0.01', '"lr": -1'), "lr: expected more than 0.0"),
        (lambda text: text.replace('"test_accuracy": 70.0\n', '"test_accuracy": 700.0\n'), "0 to 100"),
        (lambda text: text.replace('"claimed"', '"promised"'), "expected privacy to say 'claimed'"),
        *(
            (lambda text, block=block: json.dumps(json.loads(text) | {block: None}), f"expected {block} to be a block")
            for block in ("run", "metrics", "privacy", "history", "env")
        ),
        (lambda text: changed(text, schema=True), "expected schema 1; got True"),
        (lambda text: changed(text, "env", seconds=None), "expected env to say 'seconds'; got None"),
        *(
            (lambda text, wrong=wrong: changed(text, "history", test_accuracy=wrong), "expected history to have accur")
            for wrong in ([], None, 70.0, "70", [50.0, 60.0], [math.nan, 70.0], [None, 70.0], [700.0, 70.0])
        ),
        (lambda text: text.replace('"test_accuracy"', '"validation_accuracy"'), "0 to 100, test_accuracy; got"),
        (lambda text: changed(text, "privacy", proven=None), "privacy's proven to be a block of names and values"),
        (lambda text: changed(text, "privacy", claimed={"pld": -1.0}), "claimed pld to be None or a finite number"),
        (
            lambda text: changed(text, "privacy", audited={"epsilon": math.nan}),
            "audited epsilon to be None or a finite",
        ),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(filled, damage, message):
    _, path = filled
    path.write_text(damage(path.read_text()))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as refused:
        Store(path.parent.parent).get(make_run())
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before


def test_what_a_killed_writer_left_beside_its_record_is_taken_away(filled):
    _, path = filled
    published, unfinished = (
        path.with_name(f".{name}-abc_12.part") for name in (path.name, "another-0123456789ab.json")
    )
    for part in (published, unfinished):
        part.write_text("")
        os.utime(part, (0, 0))
    Store(path.parent.parent)
    assert published.exists()
    Store(path.parent.parent, read_only=False)
    assert (published.exists(), unfinished.exists(), path.exists()) == (False, True, True)


@pytest.mark.parametrize("folder", [".running", "benchmarks"])
def test_what_a_live_writer_has_in_hand_is_left_to_it(folder, tmp_path, monkeypatch):
    path, fsync = tmp_path / folder / "a_file", os.fsync
    store.write_text(path, "first")
    monkeypatch.setattr(store.os, "fsync", lambda file: (fsync(file), Store(tmp_path, read_only=False)))
    store.write_text(path, "second")
    assert path.read_text() == "second"


def test_an_unfinished_file_is_a_writers_for_ten_minutes(tmp_path):
    """Two commands that end together both write README."""
    old, new = (tmp_path / f".README.md-{name}.part" for name in ("abc_12", "def_34"))
    for part, minutes in ((old, 11), (new, 9)):
        part.write_text("")
        os.utime(part, (time.time() - 60 * minutes,) * 2)
    store.write_text(tmp_path / "README.md", "x")
    assert (old.exists(), new.exists()) == (False, True)


def test_an_unfinished_record_is_taken_away_by_who_writes_it(tmp_path):
    """A killed writer's; one that lives is told that another has stored it."""
    results = Store(tmp_path, read_only=False)
    path = tmp_path / "a_table" / f"{make_run().words}-{make_run().id}.json"
    path.parent.mkdir()
    path.with_name(f".{path.name}-abc_12.part").write_text("")
    results.write("a_table", make_record(make_run(), 1.0))
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_is_cut_off_leaves_no_record(tmp_path, monkeypatch):
    results = Store(tmp_path, read_only=False)
    for publish in ("link", "replace"):
        monkeypatch.setattr(os, publish, lambda *_: (_ for _ in ()).throw(OSError("no space left on device")))
    with pytest.raises(OSError, match="no space"):
        results.write("a_table", make_record(make_run(), 1.0))
    assert make_run() not in Store(tmp_path)


def test_without_links_a_record_is_stored_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("not supported")))
    path = Store(tmp_path, read_only=False).write("a_table", make_record(make_run(), 1.0))
    assert make_run() in Store(tmp_path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("swept", [True, False], ids=["and clears our part away", "and leaves it"])
def test_of_two_writers_at_once_one_stores_and_the_other_is_told(tmp_path, monkeypatch, swept):
    first, second, sync = Store(tmp_path), Store(tmp_path), os.fsync

    def while_the_other_stores(file):
        monkeypatch.setattr(os, "fsync", sync)
        with monkeypatch.context() as unseen:
            if not swept:
                unseen.setattr(Path, "glob", lambda *_: [])
            second.write("a_table", make_record(make_run(), 2.0))

    monkeypatch.setattr(os, "fsync", while_the_other_stores)
    with pytest.raises(AlreadyStored, match="already stored"):
        first.write("a_table", make_record(make_run(), 1.0))
    assert Store(tmp_path).get(make_run()) == make_record(make_run(), 2.0)
    assert [path.suffix for path in (tmp_path / "a_table").iterdir()] == [".json"]


def test_a_writer_is_not_told_that_another_stored_it_who_could_not(tmp_path, monkeypatch):
    first, second, sync = Store(tmp_path), Store(tmp_path), os.fsync

    def full(file):
        raise OSError("no space left on device")

    def while_the_other_fails(file):
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            second.write("a_table", make_record(make_run(), 2.0))
        monkeypatch.setattr(os, "fsync", sync)

    monkeypatch.setattr(os, "fsync", while_the_other_fails)
    path = first.write("a_table", make_record(make_run(), 1.0))
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("no space left on device"), KeyboardInterrupt("no time left")])
def test_what_was_measured_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, error):
    path = store.write_measured(tmp_path / "audits" / "v1.json", {"attack": 1.0}, {})
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(error))
    with pytest.raises(type(error), match=r"no \w+ left"):
        store.write_measured(path, {"attack": 2.0}, {})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("text", ["", '{"results": {"atta', "[]", "{}", '{"results": {}, "env": {"torch": 2}}', None])
def test_an_audit_that_is_damaged_or_missing_is_named_with_the_command_that_writes_it(tmp_path, monkeypatch, text):
    monkeypatch.setattr(store, "AUDITS", tmp_path)
    path = tmp_path / "v1.json"
    if text is not None:
        path.write_text(text)
    expected = "no such file" if text is None else "expected results and env; got"
    with pytest.raises(StoreError, match=f"{re.escape(str(path))}: {expected}.*; python -m lib.audit v1 writes it"):
        store.audit("v1")


def test_an_invalid_record_is_not_written(tmp_path):
    results = Store(tmp_path, read_only=False)
    with pytest.raises(ValueError, match="expected the blocks"):
        results.write("a_table", {"schema": 1})
    assert not list(tmp_path.rglob("*.json"))


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="expected a folder that results can be written to"):
        Store(tmp_path / "results", read_only=False)


@pytest.mark.parametrize("closed", [".", "a_table"])
def test_a_folder_that_cannot_be_listed_is_not_taken_for_empty(filled, tmp_path, monkeypatch, closed):
    """Its runs would be trained again, and stored twice."""

    def denying(call):
        def denied(path, *how):
            if Path(path) == tmp_path / closed:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return call(path, *how)

        return denied

    for call in ("listdir", "scandir"):
        monkeypatch.setattr(os, call, denying(getattr(os, call)))
    told = re.escape(f"{tmp_path / closed}: expected a folder that can be listed; got ")
    with pytest.raises(StoreError, match=f"{told}.*Permission denied"):
        Store(tmp_path)


def test_two_files_of_one_run_are_both_named(filled, tmp_path):
    """Of which one would be hidden; one file that is seen twice, through a link, is one."""
    _, path = filled
    (tmp_path / "by_another_name").symlink_to(path.parent)
    assert len(list(Store(tmp_path).filed())) == 1
    copy = tmp_path / "copied" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    with pytest.raises(StoreError, match="expected one file of a run") as refused:
        Store(tmp_path)
    assert str(path) in str(refused.value)
    assert str(copy) in str(refused.value)


@pytest.mark.parametrize("kind", ["a link that leads nowhere", "a file", "gone meanwhile"])
def test_a_record_whose_folder_is_none_is_not_taken_for_stored(tmp_path, monkeypatch, kind):
    results, folder = Store(tmp_path / "results", read_only=False), tmp_path / "results" / "a_table"
    if kind == "a file":
        folder.write_text("in the way")
    elif kind == "a link that leads nowhere":
        folder.symlink_to(tmp_path / "a disk that is not there")
    else:
        monkeypatch.setattr(store.tempfile, "NamedTemporaryFile", lambda **_: (_ for _ in ()).throw(_moved(folder)))
    with pytest.raises(StoreError, match="a_table: expected a folder to write results to; got") as refused:
        results.write("a_table", make_record(make_run(), 1.0))
    assert not isinstance(refused.value, AlreadyStored)


def _moved(folder: Path) -> FileNotFoundError:
    folder.rmdir()
    return FileNotFoundError(f"no such folder: {folder}")


def test_smoke_results_never_lie_beside_the_real_ones():
    assert store.folder("cpu") == store.folder("paper") == store.RESULTS
    assert store.RESULTS not in (store.folder("smoke"), *store.folder("smoke").parents)


def test_records_come_in_the_order_of_their_names(tmp_path, monkeypatch):
    """Whatever order the file system lists them in: the same results give the same report."""
    results = Store(tmp_path, read_only=False)
    for seed in range(5):
        results.write(f"table_{seed % 2}", make_record(make_run(seed=seed), 1.0))
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: sorted(listed(folder), reverse=True))
    files = sorted(tmp_path.glob("*/*.json"))
    assert [record["id"] for _, record in Store(tmp_path).filed()] == [path.stem[-12:] for path in files]


def test_every_committed_record_is_valid():
    results = Store(store.RESULTS)
    ids = [record["id"] for _, record in results.filed()]
    files = [path for path in store.RESULTS.glob("*/*.json") if path.parent.name not in store.NO_RECORDS]
    assert len(ids) == len(set(ids)) == len(files)
    assert all(json.dumps(record, allow_nan=False) for _, record in results.filed())


def test_a_record_under_the_name_of_another_run_is_refused(filled):
    _, path = filled
    path.rename(path.with_name("another-0123456789ab.json"))
    with pytest.raises(StoreError, match=r"another-0123456789ab\.json: not a valid record: expected the id that its"):
        list(Store(path.parent.parent).filed())


@pytest.mark.parametrize("epsilon", [math.inf, math.nan, -1.0, "1"])
def test_a_proven_epsilon_is_none_or_finite(epsilon):
    record = make_record(make_run(), 1.0)
    record["privacy"]["proven"]["epsilon"] = epsilon
    with pytest.raises(ValueError, match="privacy's proven epsilon to be None or a finite number, at least 0; got"):
        validate(record)


def test_a_record_can_be_read_by_others(tmp_path):
    path = Store(tmp_path, read_only=False).write("a_table", make_record(make_run(), 1.0))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_record_with_nan_is_not_written(tmp_path):
    record = make_record(make_run(), 1.0)
    record["history"]["train_loss"] = [float("nan")]
    with pytest.raises(ValueError, match="not JSON compliant"):
        Store(tmp_path, read_only=False).write("a_table", record)
    assert not list(tmp_path.rglob("*.json"))


def test_every_accuracy_is_in_percent(tmp_path):
    record = make_record(make_run(), 50.0)
    record["metrics"]["validation_accuracy"] = 700.0
    with pytest.raises(ValueError, match="expected metrics with an accuracy in percent, 0 to 100"):
        Store(tmp_path, read_only=False).write("a_table", record)


def test_none_right_and_all_right_are_accuracies_too():
    assert validate(make_record(make_run(), 0.0, 100.0, 0.0))


def test_who_amends_a_record_reads_what_it_says_now(tmp_path):
    results, run = Store(tmp_path, read_only=False), make_run()
    results.write("a_table", make_record(run, 1.0))
    before = results.get(run)
    results.amend(before, before["privacy"] | {"audited": {"epsilon": 1.0}})
    assert results.get(run)["privacy"]["audited"] == {"epsilon": 1.0}


def test_who_amends_a_record_changes_its_privacy_alone(filled, tmp_path):
    """Whatever else is different in the record that the caller holds."""
    results, _ = filled
    held = results.get(make_run()) | {"env": {"seconds": 0.0, "device": "another", "flags": {}}}
    results.amend(held, held["privacy"] | {"audited": {"epsilon": 1.0}})
    found, before = Store(tmp_path).get(make_run()), make_record(make_run(), 50.0, 70.0)
    assert found == before | {"privacy": before["privacy"] | {"audited": {"epsilon": 1.0}}}
