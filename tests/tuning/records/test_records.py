"""Logs survive torn lines, many writers and kill -9, and stock TVM reads and writes the same."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import OptionError, RecordError
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.records.records import (
    append_records,
    best_records,
    mend_records,
    read_records,
    rejected_path,
    write_records,
)

GARBAGE = [b"foreign", b'{"other": 1}', b"\xff\xfe\x00", b"", b"\0" * 50]


def autotvm_line(cost_s=0.001, *, index=0, size=16, error=0, target="llvm -keys=cpu", padding=""):
    return json.dumps(
        {
            "input": [target, "test.matmul", [size, "float32"], {}],
            "config": {"index": index, "code_hash": None, "entity": [["tile", "ot", index]]},
            "result": [[1e9] if error else [cost_s, cost_s], error, 0.1, 1.5],
            "version": 0.2,
            "tvm_version": f"0.17.dev0{padding}",
        }
    )


def ansor_line(cost_s=0.001, *, step=1, size=16, error=0):
    costs = f"[1e+10], {error}" if error else f"[{cost_s}], 0"
    task = rf'["[\"matmul\", {size}]", "llvm -keys=cpu", [2, 64, 64, 0, 0, 0, 0, 0], "", 1, []]'
    steps = f'[["SP", 2, 0, 16, [{step}], 1]]'
    return f'{{"i": [{task}, [[], {steps}]], "r": [{costs}, 0.1, 15], "v": "v0.6"}}'


LINES = [
    autotvm_line(0.003),
    ansor_line(0.002),
    autotvm_line(error=4, index=1),
    ansor_line(error=6, step=2),
]


def lines_of(path):
    return [record.line for record in read_records(path).records]


def test_both_formats_comments_and_several_files(tmp_path):
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text("# by hand\n" + "\n".join(LINES) + "\n")
    second.write_text(LINES[0])
    log = read_records(first, str(second))
    assert [record.line for record in log.records] == [*LINES, LINES[0]]
    assert [record.line_number for record in log.records] == [2, 3, 4, 5, 1]
    assert [record.path for record in log.records] == [first] * 4 + [second]
    assert [record.ok for record in log.records] == [True, True, False, False, True]
    assert log.rejected == ()


def test_nothing_to_read(tmp_path):
    (tmp_path / "empty").touch()
    assert read_records(tmp_path / "empty").records == ()
    with pytest.raises(RecordError, match=r"cannot read .*absent: No such file.*check the path"):
        read_records(tmp_path / "absent")
    with pytest.raises(RecordError, match="Is a directory"):
        read_records(tmp_path)


def test_lines_that_are_none_are_rejected_with_their_place(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\n".join([LINES[0].encode(), *GARBAGE, LINES[1].encode()]))
    log = read_records(path)
    assert [record.line for record in log.records] == LINES[:2]
    assert [line.line_number for line in log.rejected] == [2, 3, 4, 5, 6]
    kept = [line.line.encode(errors="surrogateescape") for line in log.rejected]
    assert kept == GARBAGE
    assert all(line.reason for line in log.rejected)


def test_append_then_read(tmp_path):
    path = tmp_path / "folder" / "log"
    append_records(path, [LINES[0], LINES[1] + "\n", ""])
    append_records(path, [])
    append_records(path, LINES[2:])
    assert path.read_text() == "".join(f"{line}\n" for line in LINES)
    with pytest.raises(RecordError, match="newline inside"):
        append_records(path, ["a\nb"])
    with pytest.raises(RecordError, match=r"cannot write .*: Is a directory; make file"):
        append_records(tmp_path, LINES)
    with pytest.raises(RecordError, match="log is no folder"):
        append_records(path / "below", LINES)
    assert len(lines_of(path)) == 4


def test_mending_moves_what_is_no_record(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\n".join([b"# note", LINES[0].encode(), *GARBAGE, LINES[1].encode()]))
    assert mend_records(path) == len(GARBAGE)
    assert path.read_text() == f"# note\n{LINES[0]}\n{LINES[1]}\n"
    assert rejected_path(path).read_bytes() == b"\n".join([*GARBAGE, b""])
    assert mend_records(path) == 0
    with path.open("ab") as file:
        file.write(b"more")
    assert mend_records(path) == 1
    assert rejected_path(path).read_bytes() == b"\n".join([*GARBAGE, b"more", b""])
    assert read_records(path).rejected == ()


def test_mending_what_needs_none(tmp_path):
    path = tmp_path / "log"
    assert mend_records(path) == 0
    assert not path.exists()
    path.write_bytes("\r\n".join(LINES).encode())
    before = path.stat().st_ino
    assert mend_records(path) == 0
    assert path.read_bytes().decode() == "\r\n".join(LINES) + "\n"
    assert path.stat().st_ino == before
    assert not rejected_path(path).exists()
    path.chmod(0o400)
    assert mend_records(path) == 0


def test_a_read_only_log_is_sound_without_its_last_newline(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "as where nobody is root")

    monkeypatch.setattr("tvm_ios.tuning.records.records.end_line", refuse)
    path = tmp_path / "log"
    path.write_text(LINES[0])
    assert mend_records(path) == 0
    assert path.read_text() == LINES[0]


def test_where_only_writers_may_lock_logs_are_mended_and_written(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        writes = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        if operation == fcntl.LOCK_EX and not writes:
            raise OSError(errno.EBADF, "as of NFS")

    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "log"
    path.write_text(f"{LINES[0]}\nno record\n")
    assert mend_records(path) == 1
    write_records(path, read_records(path).records, force=True)
    assert path.read_text() == f"{LINES[0]}\n"


def test_another_file_than_was_meant_is_left_as_it_is(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def model():\n    return {}\n")
    with pytest.raises(RecordError, match=r"model\.py has 2 lines and no tuning record; give a"):
        mend_records(path)
    assert path.read_text() == "def model():\n    return {}\n"
    assert [each.name for each in tmp_path.iterdir()] == ["model.py"]
    with pytest.raises(RecordError, match=r"cannot mend .*Is a directory"):
        mend_records(tmp_path)


@pytest.mark.parametrize("line", LINES[:2])
def test_a_first_line_torn_anywhere_is_mended(tmp_path, line):
    path = tmp_path / "log"
    for end in (1, 2, 3, *range(4, len(line), 7), len(line) - 1):
        path.write_text(line[:end])
        assert mend_records(path) == 1
        assert path.read_bytes() == b""


PIECE = st.sampled_from([*(line.encode() for line in LINES), *GARBAGE, b"# comment"])


@pytest.mark.slow(1)
@given(pieces=st.lists(PIECE, min_size=1, max_size=6), data=st.data())
def test_a_log_torn_at_any_byte_and_written_on(tmp_path_factory, pieces, data):
    path = tmp_path_factory.mktemp("torn") / "log"
    content = b"\n".join([LINES[0].encode(), *pieces, b""])
    end = data.draw(st.integers(len(LINES[0]), len(content)), label="torn at")
    path.write_bytes(content[:end])
    whole = [line.decode() for line in content[:end].split(b"\n") if line.decode("latin1") in LINES]
    assert lines_of(path) == whole

    stock = data.draw(st.booleans(), label="stock TVM goes on, without a look at the end")
    # What stands behind a comment is a comment, for TVM as well.
    if stock and not content[:end].rpartition(b"\n")[2].startswith(b"#"):
        with path.open("a") as file:
            file.write(LINES[1] + "\n")
    else:
        append_records(path, [LINES[1]])
    assert lines_of(path) == [*whole, LINES[1]]
    rejected = len(read_records(path).rejected)
    assert mend_records(path) == rejected
    log = read_records(path)
    assert [record.line for record in log.records] == [*whole, LINES[1]]
    assert log.rejected == ()
    assert path.read_bytes().endswith(b"}\n")
    append_records(path, LINES[2:])
    assert lines_of(path) == [*whole, *LINES[1:]]


@given(content=st.binary(max_size=300))
def test_no_content_is_ever_an_error_to_read(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "log"
    path.write_bytes(content)
    log = read_records(path)
    assert log.records == ()
    kept = [line.line.encode(errors="surrogateescape") for line in log.rejected]
    assert all(line in content for line in kept)


WRITER = """
import sys, time
from tvm_ios.tuning.records.records import append_records
path, first, line = sys.argv[1:]
number = int(first)
while True:
    append_records(path, [line.replace("NUMBER", str(number + i)) for i in range(8)])
    number += 8
    print(number, flush=True)
    time.sleep(0.0005)
"""
MENDER = """
import sys
from tvm_ios.tuning.records.records import append_records, mend_records
path, line = sys.argv[1:]
while True:
    with open(path, "a") as file:
        file.write(line[:200])
    mend_records(path)
    print(flush=True)
"""


def start(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)


def kill(process):
    """End it by kill -9; what it had said until then."""
    process.send_signal(signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    return said.decode().split()


def numbers(path):
    return [int(json.loads(line)["tvm_version"].split("+")[1]) for line in lines_of(path)]


@pytest.mark.slow(1)
def test_kill_9_of_a_writer_loses_nothing_that_was_complete(tmp_path):
    path = tmp_path / "log"
    # Long lines, so that some are torn: the kernel stops a write between pages.
    line = autotvm_line(padding="+NUMBER+" + "x" * 20_000)
    said = 0
    for delay_ms in (0, 1, 3, 7, 12):
        writer = start(WRITER, str(path), str(said), line)
        said = int(writer.stdout.readline())
        time.sleep(delay_ms / 1e3)
        said = int([str(said), *kill(writer)][-1])
        mend_records(path)
        there = numbers(path)
        assert there == list(range(len(there)))
        assert len(there) >= said
        said = len(there)
    assert read_records(path).rejected == ()


@pytest.mark.slow(1)
def test_many_writers_and_one_who_mends_and_is_killed(tmp_path):
    path = tmp_path / "log"
    path.touch()
    line = autotvm_line(padding="+NUMBER+")
    writers = [start(WRITER, str(path), str(first), line) for first in (0, 10**6)]
    for writer in writers:
        writer.stdout.readline()
    for delay_ms in (5, 10, 20):
        mender = start(MENDER, str(path), line)
        mender.stdout.readline()
        time.sleep(delay_ms / 1e3)
        kill(mender)
    said = [int(kill(writer)[-1]) for writer in writers]
    mend_records(path)
    there = sorted(numbers(path))
    assert len(there) == len(set(there))
    for first, last in zip((0, 10**6), said, strict=True):
        assert there.count(first) == 1
        assert set(range(first, last)) <= set(there)
    assert rejected_path(path).exists()
    assert {each.name for each in tmp_path.iterdir()} <= {"log", "log.rejected", ".log.mending"}


def test_the_best_of_each_workload_and_target(tmp_path):
    path = tmp_path / "log"
    slow, fast = autotvm_line(0.003, index=1), autotvm_line(0.001, index=2)
    other_size, other_target = autotvm_line(0.002, size=32), autotvm_line(0.004, target="cuda")
    failed, again = autotvm_line(error=4, size=64), autotvm_line(0.0015, index=2)
    ansor = ansor_line(0.0005)
    append_records(path, [slow, fast, other_size, other_target, failed, again, ansor])
    records = read_records(path).records

    def best(count):
        return [record.line for record in best_records(records, per_workload=count)]

    assert best(1) == [ansor, fast, other_size, other_target]
    # `again` is the same candidate as `fast`.
    assert best(2) == [ansor, fast, other_size, slow, other_target]
    assert best_records([]) == ()
    with pytest.raises(OptionError, match="per_workload is 0; give 1 or more"):
        best_records(records, per_workload=0)


def test_written_logs_replace_nothing_unless_told_to(tmp_path):
    path, copy = tmp_path / "log", tmp_path / "new" / "copy"
    append_records(path, LINES)
    records = read_records(path).records
    write_records(copy, records[:2])
    assert lines_of(copy) == LINES[:2]
    with pytest.raises(RecordError, match=r"copy is there already; .*--force"):
        write_records(copy, records)
    write_records(copy, records[2:], force=True)
    assert lines_of(copy) == LINES[2:]
    with pytest.raises(RecordError, match="cannot write"):
        write_records(tmp_path, records, force=True)
    with pytest.raises(RecordError, match="log is no folder"):
        write_records(path / "below", records)


# From here on with stock TVM.


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Logs as stock TVM writes them: AutoTVM's, auto_scheduler's."""
    from tvm import auto_scheduler, autotvm, target

    from tests.tuning.records.records_of_stock_tvm import TEMPLATE, product

    folder = tmp_path_factory.mktemp("stock")
    place = target.Target("llvm -mcpu=core-avx2")
    costs_s = [0.004, 0.002, 0.003, 0.002]
    log = autotvm.callback.log_to_file(str(folder / "autotvm.log"))
    for n in (16, 32):
        task = autotvm.task.create(TEMPLATE, args=(n,), target=place)
        tried = [
            autotvm.MeasureInput(place, task, task.config_space.get(index)) for index in range(5)
        ]
        results = [autotvm.MeasureResult((cost, cost), 0, 0.1, time.time()) for cost in costs_s]
        results.append(autotvm.MeasureResult((RuntimeError("no"),), 4, 0.1, time.time()))
        log(None, tried, results)

    auto_scheduler.register_workload("tvm_ios_tests_records", f=product, override=True)
    hardware = auto_scheduler.HardwareParams(2, 64, 64, 0, 0, 0, 0, 0)
    for n in (16, 32):
        task = auto_scheduler.SearchTask(
            func="tvm_ios_tests_records", args=(n,), target=place, hardware_params=hardware
        )
        tried, results = [], []
        for cost in (*costs_s, 1e10):
            state = task.compute_dag.get_init_state()
            state.split(2, state.stages[2].iters[0], [2 ** (1 + len(tried))])
            error = 6 if cost == 1e10 else 0
            tried.append(auto_scheduler.MeasureInput(task, state))
            results.append(auto_scheduler.MeasureResult([cost], error, "", 0.1, time.time()))
        auto_scheduler.save_records(str(folder / "auto_scheduler.log"), tried, results)
    return folder / "autotvm.log", folder / "auto_scheduler.log"


def stock_rows(path, kind):
    from tvm import auto_scheduler, autotvm

    if kind is RecordFormat.AUTOTVM:
        return list(autotvm.record.load_from_file(str(path)))
    return list(zip(*auto_scheduler.RecordReader(str(path)).read_lines(), strict=True))


@pytest.mark.parametrize("kind", list(RecordFormat))
def test_what_stock_tvm_writes_is_read(measured, kind):
    path = measured[list(RecordFormat).index(kind)]
    log = read_records(path)
    assert log.rejected == ()
    assert {record.format for record in log.records} == {kind}
    assert len({record.workload for record in log.records}) == 2
    assert {record.target for record in log.records} == {"llvm -keys=cpu -mcpu=core-avx2"}
    means_s = [0.004, 0.002, 0.003, 0.002, math.inf]
    assert [record.mean_s for record in log.records] == pytest.approx(means_s * 2)
    assert mend_records(path) == 0


@pytest.mark.parametrize("kind", list(RecordFormat))
def test_stock_tvm_reads_what_we_write(measured, kind, tmp_path):
    path = measured[list(RecordFormat).index(kind)]
    records = read_records(path).records
    appended, written, mended = (tmp_path / name for name in ("appended", "written", "mended"))
    append_records(appended, ["# a comment", *(record.line for record in records)])
    write_records(written, records)
    mended.write_bytes(path.read_bytes() + b"\n\xff\n" + records[0].line[:70].encode())
    assert mend_records(mended) == 3
    for log in (appended, written, mended):
        rows = stock_rows(log, kind)
        assert [int(result.error_no) for _, result in rows] == [0, 0, 0, 0, rows[4][1].error_no] * 2
        assert read_records(log).records[0].line == records[0].line


# TVM leaves the files open that it writes.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_stock_tvm_picks_the_same_records(measured, tmp_path):
    from tvm import auto_scheduler, autotvm

    for kind, path in zip(RecordFormat, measured, strict=True):
        ours, stock = tmp_path / f"{kind}.ours", tmp_path / f"{kind}.stock"
        write_records(ours, best_records(read_records(path).records))
        if kind is RecordFormat.AUTOTVM:
            autotvm.record.pick_best(str(path), str(stock))
        else:
            auto_scheduler.measure_record.distill_record_file(str(path), str(stock))
        assert sorted(lines_of(ours)) == sorted(lines_of(stock))
        assert len(stock_rows(ours, kind)) == 2


def test_stock_tvm_applies_the_same_kernels_from_the_best_as_from_all(measured, tmp_path):
    """TVM matches by the target's keys: records of several processors compete with each other."""
    from tvm import autotvm

    log, ours = tmp_path / "log", tmp_path / "best"
    lines = [record.line for record in read_records(measured[0]).records]
    others = [line.replace("core-avx2", "znver3").replace("0.002", "0.0019") for line in lines[:7]]
    append_records(log, [*lines, *others])
    write_records(ours, best_records(read_records(log).records))
    assert len(lines_of(ours)) == 4

    def applied(path):
        best = autotvm.apply_history_best(str(path)).best_by_targetkey
        return {key: str(measured.config) for key, (measured, _) in best.items()}

    assert applied(ours) == applied(log)
