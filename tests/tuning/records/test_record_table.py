"""The table is short, and nothing in a log can steer a terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.records.record_table import printable, record_table
from tvm_ios.tuning.records.records import TuningRecord

CONVOLUTION = (
    '["conv2d_NCHWc.x86", [["TENSOR", [1, 64, 28, 28], "float32"], ["TENSOR", [96, 64, 3, 3], '
    '"float32"], [2, 2], [1, 1, 1, 1], "NCHW", null, "float32"]]'
)
RECORD = TuningRecord(
    format=RecordFormat.AUTOTVM,
    line="",
    workload=CONVOLUTION,
    target="llvm -keys=cpu -mcpu=skylake-avx512 -link-params=0",
    costs_s=(0.001, 0.002),
    error=0,
    path=Path("a.log"),
    line_number=7,
)


def row(**changes):
    (cells,) = record_table([replace(RECORD, **changes)]).rows
    return cells


def test_a_record_that_ran():
    assert row() == (
        "conv2d_NCHWc 1x64x28x28 96x64x3x3 2x2 1x1x1x1",
        "llvm -mcpu=skylake-avx512",
        "1.0000",
        "1.5000",
        "-",
        "a.log:7",
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [(0, "no cost"), (4, "runtime"), (7, "run timeout"), (42, "error 42")],
)
def test_a_record_that_failed(error, words):
    assert row(costs_s=(), error=error)[2:5] == ("-", "-", words)


@pytest.mark.parametrize(
    ("workload", "short"),
    [
        ('["4b3a5d0bd2e23e1a4f3b8c8d9e0f1a2b", [1, 28, 28], 4, null, "x"]', "4b3a5d0b 1x28x28 4"),
        ('["matmul", 128, 128]', "matmul 128 128"),
        ("no json", "no json"),
        ("5", "5"),
        ("[]", "[]"),
        ("[" * 100_000, "[" * 55 + "…"),
        ('["a\\u001b[2Jb"]', "a?[2Jb"),
    ],
)
def test_workloads_of_auto_scheduler(workload, short):
    assert row(format=RecordFormat.AUTO_SCHEDULER, workload=workload)[0] == short


def test_a_long_target_is_cut():
    assert row(target="llvm -mattr=" + "+x," * 40)[1] == "llvm -mattr=+x,+x,+x,+x,+x,+x,+…"


def test_no_records():
    assert record_table([]).as_text().startswith("workload")


def test_printable():
    assert printable("é \x1b[31m\udc80\n") == "é ?[31m??"
