from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tvm_ios.cost.database import PriceRecord, ProfileDatabase, default_database_path
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import CostError, DatabaseError

CONTEXT = ProfileContext(device="test", lanes=2, tvm_version="0.17.0", kernels="llvm")
OTHER = ProfileContext(device="test", lanes=1, tvm_version="0.17.0", kernels="llvm")

WRITER = """
import os, sys
from pathlib import Path
from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.profile_key import ProfileContext
path, name, batches, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
context = ProfileContext(device="test", lanes=2, tvm_version="0.17.0", kernels="llvm")
database = ProfileDatabase(path)
for batch in range(batches):
    records = {
        f"{name}-{batch}-{row}": PriceRecord(
            median_ns=row + 1, samples=5, spread_ns=0, slow_mode=False, measured_at_s=0.0
        )
        for row in range(size)
    }
    database.put_many(context, records)
    sys.stdout.write(f"{batch}\\n")
    sys.stdout.flush()
"""


def record(
    median_ns: int = 100, *, samples: int = 5, slow_mode: bool = False, spread_ns: int = 3
) -> PriceRecord:
    return PriceRecord(
        median_ns=median_ns,
        samples=samples,
        spread_ns=spread_ns,
        slow_mode=slow_mode,
        measured_at_s=1.5,
    )


def start_writer(path: Path, name: str, batches: int, size: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(batches), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profiles.sqlite"


def test_round_trip_in_bulk(path: Path) -> None:
    records = {f"stage{i}": record(i + 1, slow_mode=i % 2 == 0) for i in range(1234)}
    ProfileDatabase(path).put_many(CONTEXT, records)
    again = ProfileDatabase(path)
    assert again.get_many(CONTEXT, [*records, "unknown"]) == records
    assert again.get_many(OTHER, records) == {}
    assert (again.count(), again.count(CONTEXT), again.count(OTHER)) == (1234, 1234, 0)


def test_the_better_record_stays(path: Path) -> None:
    database = ProfileDatabase(path)

    def after(new: PriceRecord) -> PriceRecord:
        database.put_many(CONTEXT, {"stage": new})
        return database.get_many(CONTEXT, ["stage"])["stage"]

    slow, fast, better = record(200, slow_mode=True), record(90), record(95, samples=9)
    assert after(slow) == slow
    assert after(fast) == fast
    assert after(slow) == fast
    assert after(better) == better
    assert after(fast) == better


def test_the_default_path_follows_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "not" / "yet"))
    assert ProfileDatabase().path == default_database_path()
    assert default_database_path().is_file()


@pytest.mark.slow
def test_four_processes_write_at_once(path: Path) -> None:
    writers = [start_writer(path, f"w{i}", batches=40, size=100) for i in range(4)]
    for writer in writers:
        writer.communicate(timeout=120)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert ProfileDatabase(path).count(CONTEXT) == 4 * 40 * 100


@pytest.mark.slow
def test_kill_in_the_middle_of_writing_loses_nothing_committed(path: Path) -> None:
    for life in range(8):
        writer = start_writer(path, f"life{life}", batches=100_000, size=50)
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(3)]
        time.sleep(0.003 * life)
        os.kill(writer.pid, signal.SIGKILL)
        rest, _ = writer.communicate(timeout=60)
        committed = len(told) + rest.count("\n")
        assert writer.returncode == -signal.SIGKILL
        database = ProfileDatabase(path)
        keys = [f"life{life}-{batch}-{row}" for batch in range(committed) for row in range(50)]
        assert len(database.get_many(CONTEXT, keys)) == len(keys)
        # A batch is there in whole or not at all.
        assert database.count(CONTEXT) % 50 == 0
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_an_interrupted_transaction_leaves_no_trace(path: Path) -> None:
    database = ProfileDatabase(path)
    broken = record(samples=None)  # type: ignore[arg-type]
    with pytest.raises(DatabaseError, match="NOT NULL"):
        database.put_many(CONTEXT, {"good": record(), "broken": broken})
    assert database.count() == 0


@pytest.mark.parametrize(
    "content",
    [b"garbage " * 1000, b"SQLite format 3\x00torn", *(b"x" * size for size in (2, 99, 600, 4000))],
)
def test_garbage_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"profiles\.sqlite is damaged.*move it away"):
        ProfileDatabase(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_refused_and_kept(path: Path, share: float) -> None:
    ProfileDatabase(path).put_many(CONTEXT, {f"stage{i}": record(i + 1) for i in range(2000)})
    whole = path.read_bytes()
    content = whole[: int(len(whole) * share)]
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"profiles\.sqlite is damaged.*move it away"):
        ProfileDatabase(path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    assert ProfileDatabase(path).count() == 0


def test_a_newer_version_is_refused(path: Path) -> None:
    ProfileDatabase(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(DatabaseError, match="has version 7, this tvm-ios reads version 1; upgrade"):
        ProfileDatabase(path)


@pytest.mark.parametrize("application_id", [0, 1234])
def test_a_file_of_another_program_is_refused_and_kept(path: Path, application_id: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.execute(f"PRAGMA application_id = {application_id}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="of another program"):
        ProfileDatabase(path)
    assert path.read_bytes() == before


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"there is no folder .*absent; make it"):
        ProfileDatabase(tmp_path / "absent" / "profiles.sqlite")


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(DatabaseError, match="cannot use folder .*TVM_IOS_CACHE_DIR"):
        ProfileDatabase()


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="check that it is a file"):
        ProfileDatabase(tmp_path)


def test_read_only_prices_are_still_served() -> None:
    """A child does it, since root may write to anything: it gives up being root first."""
    script = """
import os, sys
from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import DatabaseError
context = ProfileContext(device="test", lanes=2, tvm_version="0.17.0", kernels="llvm")
row = PriceRecord(median_ns=1, samples=5, spread_ns=0, slow_mode=False, measured_at_s=0.0)
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
folder = sys.argv[1]
path = folder + "/profiles.sqlite"

def told(work):
    try:
        work()
    except DatabaseError as error:
        return str(error)
    return "nothing"

ProfileDatabase(path).put_many(context, {"stage": row})
for mode, what in ((0o400, path), (0o500, folder)):
    os.chmod(what, mode)
    assert ProfileDatabase(path).get_many(context, ["stage"]) == {"stage": row}
    error = told(lambda: ProfileDatabase(path).put_many(context, {"other": row}))
    assert "make the file and its folder writable" in error, error
    os.chmod(what, 0o700)
os.chmod(folder, 0o500)
error = told(lambda: ProfileDatabase(folder + "/new.sqlite"))
assert "in a folder you can write" in error, error
os.chmod(folder, 0o700)
os.chmod(path, 0)
error = told(lambda: ProfileDatabase(path))
assert "check that it is a file you can read" in error, error
"""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        inner = Path(folder) / "inner"
        inner.mkdir(mode=0o777)
        inner.chmod(0o777)
        if os.geteuid() == 0:
            os.chown(inner, 65534, 65534)
        command = [sys.executable, "-c", script, str(inner)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr


def test_a_full_disk_is_reported_and_what_was_stored_stays(path: Path) -> None:
    """The limit on file size stands in for the disk: the kernel refuses the write."""
    script = """
import resource, sys
from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import DatabaseError
context = ProfileContext(device="test", lanes=2, tvm_version="0.17.0", kernels="llvm")
row = PriceRecord(median_ns=1, samples=5, spread_ns=0, slow_mode=False, measured_at_s=0.0)
database = ProfileDatabase(sys.argv[1])
database.put_many(context, {f"first{i}": row for i in range(10)})
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    database.put_many(context, {f"second{i}": row for i in range(20_000)})
except DatabaseError as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert f"profile database {path}" in done.stdout
    assert "another" in done.stdout
    assert ProfileDatabase(path).count() == 10


def test_a_busy_database_is_named_after_the_timeout(path: Path) -> None:
    database = ProfileDatabase(path, timeout_s=0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseError, match="another process holds it"):
        database.put_many(CONTEXT, {"stage": record()})
    holder.execute("ROLLBACK")
    holder.close()
    database.put_many(CONTEXT, {"stage": record()})


def test_a_database_survives_a_fork(path: Path) -> None:
    database = ProfileDatabase(path)
    database.put_many(CONTEXT, {"parent": record()})
    child = os.fork()
    if child == 0:
        database.put_many(CONTEXT, {"child": record()})
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert set(database.get_many(CONTEXT, ["parent", "child"])) == {"parent", "child"}


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("median_ns", "fast", "expected a whole number of 0 or more"),
        ("median_ns", 0.5, "expected a whole number of 0 or more"),
        ("median_ns", -1, "expected a whole number of 0 or more"),
        ("samples", b"5", "expected a whole number"),
        ("spread_ns", "wide", "expected a whole number"),
        ("slow_mode", 2, "expected a whole number from 0 to 1"),
        ("measured_at_s", "noon", "expected a finite number"),
        ("measured_at_s", float("inf"), "expected a finite number"),
    ],
)
def test_a_price_that_somebody_changed_is_named(
    path: Path, column: str, value: object, expected: str
) -> None:
    database = ProfileDatabase(path)
    database.put_many(CONTEXT, {"stage": record(), "other": record()})
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE prices SET {column} = ? WHERE stage = 'stage'", (value,))
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError, match=f"{column} of stage 'stage' is .*{expected}") as caught:
        database.get_many(CONTEXT, ["stage", "other"])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert database.get_many(CONTEXT, ["other"]) == {"other": record()}


def test_a_damaged_page_is_reported_on_one_line(path: Path) -> None:
    database = ProfileDatabase(path)
    database.put_many(CONTEXT, {f"stage {number}": record() for number in range(2000)})
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    messages = []
    for page in range(1, len(content) // size):
        damaged = content.copy()
        damaged[page * size : page * size + 200] = b"\xa5" * 200
        path.write_bytes(damaged)
        try:
            ProfileDatabase(path)
        except DatabaseError as error:
            messages.append(str(error))
    assert messages
    assert all("damaged" in message and "\n" not in message for message in messages)


def test_a_fact_that_is_no_text_is_named(path: Path) -> None:
    database = ProfileDatabase(path)
    database.put_facts("a library", {"one": "1"})
    connection = sqlite3.connect(path)
    connection.execute("UPDATE facts SET value = x'00ff'")
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError, match="fact 'one' of 'a library' is .*; expected text"):
        database.get_facts("a library", ["one"])


def test_database_errors_are_cost_errors() -> None:
    assert issubclass(DatabaseError, CostError)


def test_facts_are_kept_by_subject_and_the_first_one_stays(path: Path) -> None:
    database = ProfileDatabase(path)
    assert database.get_facts("a library", ["one"]) == {}
    database.put_facts("a library", {"one": "1", "two": "2"})
    database.put_facts("a library", {"one": "other", "three": "3"})
    database.put_facts("another", {"one": "elsewhere"})
    again = ProfileDatabase(path)
    assert again.get_facts("a library", ["one", "three", "four"]) == {"one": "1", "three": "3"}
    assert again.get_facts("another", ["one"]) == {"one": "elsewhere"}
    assert again.count() == 0
    database.put_facts("a library", {"one": "newer"}, replace=True)
    assert again.get_facts("a library", ["one", "two"]) == {"one": "newer", "two": "2"}
