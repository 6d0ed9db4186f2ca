"""The report of a tuning: its facts as a page for people and as JSON."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from tvm_ios.cost.comparison import CompareRound, Comparison
from tvm_ios.tune_report import Contestant, TuneReport
from tvm_ios.tuning.record_line import RecordFormat
from tvm_ios.tuning.records_in_force import KernelRecord, MissingReason, RecordsInForce


@pytest.fixture
def report() -> TuneReport:
    rounds = tuple(
        CompareRound(run_ns=(2e6 + i, 1.5e6 + i, 1e6 + i), ping_pong_ns=50.0, slow=False)
        for i in range(7)
    )
    names = tuple(contestant.value for contestant in Contestant)
    return TuneReport(
        kept=Contestant.IOS,
        reason="2.000 times as fast as sequential order (1.990 to 2.010)",
        coverage="9 of 9 operators scheduled",
        operators=9,
        stages=5,
        concurrent_stages=2,
        merged_stages=1,
        blocks=3,
        states=40,
        transitions=100,
        stages_possible=60,
        stages_priced=20,
        measured=15,
        from_database=4,
        predicted_ns=900_000,
        predicted_sequential_ns=1_900_000,
        comparison=Comparison(names=names, rounds=rounds, confidence=0.95, notes=()),
        arena_bytes=2_500_000,
        phase_s={"build": 1.25, "search": 3.5},
        notes=("one thing", "another"),
    )


def test_the_page_tells_every_fact(report: TuneReport) -> None:
    lines = report.as_text().splitlines()
    assert lines[0] == f"kept ios: {report.reason}"
    assert report.coverage in lines
    text = " ".join(lines)
    for part in (
        "9 operators in 5 stages, 2 of them concurrent, 1 merged",
        "3 blocks, 40 states, 100 transitions",
        "20 of 60 possible stages priced",
        "15 workloads measured, 4 in the profile database",
        "predicted ios 0.9000 ms, sequential 1.9000 ms",
        "sequential 2.0000 ms, greedy 1.5000 ms, ios 1.0000 ms",
        "2.50 MB",
        "build 1.2 s, search 3.5 s",
    ):
        assert part in text
    assert lines[-2:] == ["note: one thing", "note: another"]


def test_json_holds_every_field_and_the_raw_rounds(report: TuneReport) -> None:
    data = json.loads(report.to_json())
    assert set(data) == {field.name for field in fields(TuneReport)}
    assert data["kept"] == "ios"
    assert data["phase_s"] == {"build": 1.25, "search": 3.5}
    assert Comparison.from_record(data["comparison"]) == report.comparison


def test_records_in_force_are_a_line_of_the_page_and_part_of_the_json(report: TuneReport) -> None:
    kernel = KernelRecord(
        operators=("conv2d_0",), shapes="1x8 * 8x8", found=MissingReason.OTHER_TARGET
    )
    records = RecordsInForce(contexts=(RecordFormat.AUTOTVM,), logs=(), kernels=(kernel,))
    told = replace(report, records=records)
    assert records.as_text() in told.as_text().splitlines()
    assert json.loads(told.to_json())["records"] == records.as_record()
    assert "records in force" not in report.as_text()
