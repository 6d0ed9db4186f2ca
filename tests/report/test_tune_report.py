"""The report of a tuning: its facts as a page for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

import tvm_ios
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.report.records_in_force import (
    KernelRecord,
    MissingReason,
    RecordFormat,
    RecordsInForce,
)
from tvm_ios.report.tune_report import TuneReport
from tvm_ios.runtime.artifact.evidence import Evidence
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.search import SearchOptions, search_ios
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.result import BlockReport, SearchResult
from tvm_ios.support.stored_value import StoredValue

TARGET = "llvm -opt-level=0"  # LLVM need not optimise what never runs


@pytest.fixture
def report(graph: OperatorGraph, schedule: InterOpSchedule) -> TuneReport:
    rounds = tuple(
        CompareRound(run_ns=(2e6 + i, 1.5e6 + i, 1e6 + i), ping_pong_ns=50.0, slow=False)
        for i in range(7)
    )
    names = ("sequential", "greedy", "ios")
    block = BlockReport(
        operators=tuple(range(len(graph))),
        latency_ns=900_000,
        states=40,
        transitions=100,
        single_merges=0,
        distinct_stages=60,
        priced=20,
        num_schedules=1,
        seconds=0.5,
    )
    return TuneReport(
        story=ModelStory(
            graph=graph,
            schedule_json=schedule.to_json(),
            report="",
            machine={},
            versions={},
            evidence=Evidence(
                kept="ios",
                reason="2.000 times as fast as sequential order (1.990 to 2.010)",
                race=Comparison(names=names, rounds=rounds, confidence=0.95, notes=()),
                lanes=2,
                phase_s={"build": 1.25, "search": 3.5},
            ),
        ),
        search=SearchResult(
            schedule=schedule,
            latency_ns=900_000,
            sequential_ns=1_900_000,
            blocks=(block,),
            seconds=0.5,
        ),
        coverage="7 of 8 operators scheduled",
        measured=15,
        from_database=4,
        arena_bytes=2_500_000,
        sequential_arena_bytes=2_500_000,
        notes=("one thing", "another"),
    )


def test_the_page_tells_every_fact(report: TuneReport) -> None:
    lines = report.as_text().splitlines()
    assert lines[0] == f"kept ios: {report.reason}"
    assert report.coverage in lines
    text = " ".join(lines)
    for part in (
        "8 operators in 5 stages, 0 of them concurrent, 1 merged",
        "1 blocks, 40 states, 100 transitions",
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
        "latency 1.0000 ms (1.0000 to 1.0000); sequential order 2 ms",
        "8 operators in 5 stages, 0 of them concurrent, 1 merged",
        report.coverage,  # one of them is a barrier
        "took 5 s; the full report has 2 notes",
    ]
    known = replace(report, remembered="taken from a file", notes=()).summary().splitlines()
    assert known[-2:] == ["taken from a file", "took 5 s"]
    one = replace(report, notes=("one thing",)).summary()
    assert one.endswith("the full report has 1 note")


def test_the_ceiling_is_a_line_of_both(report: TuneReport) -> None:
    told = replace(report, story=replace(report.story, ceiling="a chain"))
    assert "ceiling: a chain" in told.summary().splitlines()
    assert "ceiling: a chain" in told.as_text().splitlines()


def with_schedule(report: TuneReport, schedule: InterOpSchedule, kept: str) -> TuneReport:
    evidence = replace(report.evidence, kept=kept)
    story = replace(report.story, schedule_json=schedule.to_json(), evidence=evidence)
    return replace(report, story=story)


def test_a_list_has_tasks_on_lanes(report: TuneReport, schedule: InterOpSchedule) -> None:
    listed = replace(schedule, home_lanes=(0, 1, 0, 0, 1, 0, 0, 0))
    lines = with_schedule(report, listed, "ios + list").as_text().splitlines()
    assert lines[0].startswith("kept ios + list: ")
    assert "8 operators as a list on 2 lanes, 1 merged" in lines


def test_kernels_padded_with_zeros_are_told_in_a_line(
    report: TuneReport, graph: OperatorGraph
) -> None:
    in_order = with_schedule(report, sequential_schedule(graph), "sequential")
    assert "NaN" not in in_order.as_text()
    (line,) = [line for line in report.as_text().splitlines() if "NaN" in line]
    assert line == (
        "merged stages that pad kernels with zeros: 1, padded convolutions in them: 1; around "
        "an inf or NaN of their input they give NaN, which a ReLU may make 0 "
        "(pad_merged_kernels=False merges equal kernels only)"
    )


@pytest.mark.slow(1)
def test_padded_kernels_are_counted_in_the_schedule_that_was_kept(
    report: TuneReport, branching
) -> None:
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
        told = replace(report, story=replace(model.story(), evidence=report.evidence))
        counts = told.counts()
        names = ("merged_stages", "padded_merged_stages", "padded_kernels")
        reported[padded] = tuple(counts[name] for name in names)
        assert ("pad kernels with zeros: 2" in told.as_text()) == padded
    assert reported == {True: (2, 2, 3), False: (1, 0, 0)}


class MergesPay:
    """A merged stage costs what one operator does."""

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        return [10 for _ in stages]


def test_json_holds_every_count_and_the_raw_rounds(report: TuneReport) -> None:
    data = json.loads(report.to_json())
    assert data | report.counts() == data
    assert (data["reason"], data["notes"]) == (report.reason, ["one thing", "another"])
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
