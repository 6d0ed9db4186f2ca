"""The curve of kernel tuning, from records in the order of their log."""

from __future__ import annotations

from pathlib import Path

from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.runtime.artifact.evidence import CurvePoint
from tvm_ios.tuning.records.curve import tuning_curve
from tvm_ios.tuning.records.record_line import TuningRecord


def records(*measured: tuple[str, float | None]) -> list[TuningRecord]:
    """Records of workloads with their cost in microseconds, None where they failed."""
    return [
        TuningRecord(
            format=RecordFormat.AUTOTVM,
            line="",
            workload=workload,
            target="llvm",
            costs_s=() if cost is None else (cost / 1e6,),
            error=0 if cost is not None else 4,
            path=Path("log"),
            line_number=number,
        )
        for number, (workload, cost) in enumerate(measured, start=1)
    ]


def points(*pairs: tuple[int, int]) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(candidates=count, total_ns=1000 * us) for count, us in pairs)


def test_each_kernel_counts_as_often_as_it_runs_and_before_it_is_tried():
    log = records(("a", 9), ("a", None), ("a", 5), ("a", 7), ("b", 20), ("b", 10), ("b", 11))
    assert tuning_curve(log, {"a": 2, "b": 1}) == points((1, 38), (3, 30), (6, 20), (7, 20))


def test_other_workloads_and_kernels_that_never_ran_do_not_count():
    log = records(("x", 1), ("a", 9), ("c", None), ("x", 2), ("a", 4))
    assert tuning_curve(log, {"a": 1, "c": 5}) == points((1, 9), (3, 4))


def test_without_a_time_there_is_no_curve():
    assert tuning_curve(records(("a", None), ("x", 3)), {"a": 1}) == ()
    assert tuning_curve([], {"a": 1}) == ()
