"""The report of a tuning: its facts as a page for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace

import pytest

import tvm_ios
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.errors import OptionError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.report.records_in_force import (
    KernelRecord,
    MissingReason,
    RecordFormat,
    RecordsInForce,
)
from tvm_ios.report.tune_report import Contestant, TuneReport
from tvm_ios.search import SearchOptions, search_ios
from tvm_ios.support.stored_value import StoredValue

TARGET = "llvm -opt-level=0"  # LLVM need not optimise what never runs


@pytest.fixture
def report() -> TuneReport:
    rounds = tuple(
        CompareRound(run_ns=(2e6 + i, 1.5e6 + i, 1e6 + i), ping_pong_ns=50.0, slow=False)
        for i in range(7)
    )
    names = ("sequential", "greedy", "ios")
    return TuneReport(
        kept=Contestant.IOS,
        reason="2.000 times as fast as sequential order (1.990 to 2.010)",
        coverage="9 of 9 operators scheduled",
        operators=9,
        stages=5,
        concurrent_stages=2,
        merged_stages=1,
        padded_merged_stages=0,
        padded_kernels=0,
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


def test_the_summary_is_the_result_on_a_few_lines(report: TuneReport) -> None:
    assert report.summary().splitlines() == [
        f"kept ios: {report.reason}",
        report.coverage,
        "9 operators in 5 stages, 2 of them concurrent, 1 merged",
        "latency 1.0000 ms (1.0000 to 1.0000)",
        "took 5 s; the full report has 2 notes",
    ]
    known = replace(report, remembered="taken from a file", notes=()).summary().splitlines()
    assert (known[1], known[-1]) == ("taken from a file", "took 5 s")
    one = replace(report, notes=("one thing",)).summary()
    assert one.endswith("the full report has 1 note")


def test_a_list_has_tasks_on_lanes(report: TuneReport) -> None:
    listed = replace(report, kept=Contestant.IOS_LIST, list_lanes=2)
    lines = listed.as_text().splitlines()
    assert lines[0].startswith("kept ios + list: ")
    assert "9 operators as a list on 2 lanes, 1 merged" in lines


def test_kernels_padded_with_zeros_are_told_in_a_line(report: TuneReport) -> None:
    assert "NaN" not in report.as_text()
    lines = replace(report, padded_merged_stages=1, padded_kernels=2).as_text().splitlines()
    (line,) = [line for line in lines if "NaN" in line]
    assert line == (
        "merged stages that pad kernels with zeros: 1, padded convolutions in them: 2; around "
        "an inf or NaN of their input they give NaN, which a ReLU may make 0 "
        "(pad_merged_kernels=False merges equal kernels only)"
    )


@pytest.mark.slow(1)
def test_padded_kernels_are_counted_in_the_schedule_that_was_kept(branching) -> None:
    """Of the first level, two 1x1 kernels and a 3x3; and two of one size."""
    mod, params = branching
    plain = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1)
    reported = {}
    for padded in (True, False):
        search = search_ios(
            plain.graph,
            MergesPay(),
            SearchOptions(strategies=frozenset({Strategy.MERGE}), pad_merged_kernels=padded),
        )
        model = tvm_ios.compile_schedule(mod, params, TARGET, schedule=search.schedule, lanes=1)
        report = TuneReport.of(
            kept=Contestant.IOS,
            reason="",
            story=model.story(),
            arena_bytes=model.plan.arena_bytes,
            records=model.records,
            coverage="",
            counters=MeasureCounters(),
            search=search,
            comparison=Comparison(names=(), rounds=(), confidence=0.95, notes=()),
            phase_s={},
            notes=(),
        )
        reported[padded] = (
            report.merged_stages,
            report.padded_merged_stages,
            report.padded_kernels,
        )
        assert ("pad kernels with zeros: 2" in report.as_text()) == padded
    assert reported == {True: (2, 2, 3), False: (1, 0, 0)}


class MergesPay:
    """A merged stage costs what one operator does."""

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        return [10 for _ in stages]


def test_a_report_of_no_model_has_no_page(report: TuneReport) -> None:
    with pytest.raises(OptionError, match=r"take the report of what tvm_ios\.tune returns"):
        report.to_html()


def test_json_holds_every_field_and_the_raw_rounds(report: TuneReport) -> None:
    data = json.loads(report.to_json())
    assert set(data) == {field.name for field in fields(TuneReport)}
    assert data["kept"] == "ios"
    assert data["phase_s"] == {"build": 1.25, "search": 3.5}
    stored = StoredValue(data["comparison"], "comparison")
    assert Comparison.from_record(stored) == report.comparison


def test_records_in_force_are_a_line_of_the_page_and_part_of_the_json(report: TuneReport) -> None:
    kernel = KernelRecord(
        operators=("conv2d_0",), shapes="1x8 * 8x8", found=MissingReason.OTHER_TARGET
    )
    records = RecordsInForce(contexts=(RecordFormat.AUTOTVM,), logs=(), kernels=(kernel,))
    told = replace(report, records=records)
    assert records.as_text() in told.as_text().splitlines()
    assert json.loads(told.to_json())["records"] == records.as_record()
    assert "records in force" not in report.as_text()
