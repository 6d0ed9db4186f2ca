"""The index over all logs: workloads of both tuners, by target, with the logs that hold them."""

from __future__ import annotations

import json
import math

import pytest

from tvm_ios.errors import RecordError
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.records.record_index import RecordIndex, logs_in

AUTOTVM = RecordFormat.AUTOTVM


def line(cost_s, *, error=0, target="llvm", name="dense", index=0):
    return json.dumps(
        {
            "input": [target, name, [["TENSOR", [1, 8], "float32"]], {}],
            "config": {
                "index": index,
                "code_hash": None,
                "entity": [["tile_c", "sp", [-1, 1 << index]]],
            },
            "result": [[cost_s], error, 0.1, 1.0],
            "version": 0.2,
            "tvm_version": "0.17.dev0",
        }
    )


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{each}\n" for each in lines))
    return path


def workload(name="dense"):
    return json.dumps([name, [["TENSOR", [1, 8], "float32"]]])


def test_logs_are_found_below_a_folder(tmp_path):
    first = write(tmp_path / "autotvm.log", line(1e-3))
    second = write(tmp_path / "jobs" / "7" / "net.log", line(1e-3))
    write(tmp_path / "jobs" / "7" / "net.log.rejected", "torn")
    (tmp_path / "folder.log").mkdir()
    assert logs_in(tmp_path) == (first, second)
    assert logs_in(tmp_path / "nowhere") == ()


def test_the_cache_folder_is_where_logs_are_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    log = write(tmp_path / "autotvm.log", line(1e-3))
    assert logs_in() == (log,)


def test_candidates_of_all_logs_are_one_row_a_target(tmp_path):
    first = write(tmp_path / "a.log", line(3e-3), line(2e-3, index=1), "torn")
    second = write(tmp_path / "b.log", line(1e-3, index=2), line(5e-3, target="cuda"))
    index = RecordIndex.of([first, second])
    here, there = index.find(AUTOTVM, workload())
    assert (here.target, here.best_s) == ("llvm", 1e-3)
    assert here.candidates == {first: 2, second: 1}
    assert (there.target, there.candidates) == ("cuda", {second: 1})


def test_failed_candidates_are_counted_apart(tmp_path):
    log = write(tmp_path / "a.log", line(1e9, error=4), line(1e-3, name="conv"))
    index = RecordIndex.of([log])
    (row,) = index.find(AUTOTVM, workload())
    assert (row.best_s, row.candidates, row.failed) == (math.inf, {}, {log: 1})
    assert index.find(RecordFormat.AUTO_SCHEDULER, workload("conv")) == ()
    assert len(index.find(AUTOTVM, workload("conv"))) == 1


def test_a_missing_log_is_refused(tmp_path):
    with pytest.raises(RecordError, match="cannot read the tuning records"):
        RecordIndex.of([tmp_path / "none.log"])
