"""A story with everything in it: a race, prices, a traced run, a tuning curve."""

from __future__ import annotations

import pytest

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.artifact.evidence import CurvePoint, Evidence, TracedRuns
from tvm_ios.runtime.artifact.story import ModelStory


def event(operator: str, stage: int, group: int, lane: int, start: int, end: int) -> TraceEvent:
    return TraceEvent(
        operator=operator, stage=stage, group=group, lane=lane, start_ns=start, end_ns=end
    )


@pytest.fixture
def run() -> tuple[TraceEvent, ...]:
    """One run of the schedule: the concatenation is a view and launches nothing."""
    return (
        event("pool", 0, 0, 0, 0, 1_000),
        event("wide and narrow", 1, 0, 0, 1_200, 9_000),
        event("relu", 2, 0, 1, 9_500, 10_000),
        event("depthwise", 2, 0, 1, 10_000, 12_000),
        event("sum", 2, 0, 0, 12_100, 13_000),
        event("print", 4, 0, 0, 13_500, 14_000),
    )


@pytest.fixture
def evidence(schedule: InterOpSchedule, run: tuple[TraceEvent, ...]) -> Evidence:
    rounds = tuple(
        CompareRound(
            run_ns=(2e6 + 9e3 * number, 1.5e6, 1e6 if number < 8 else None),
            ping_pong_ns=50.0,
            slow=False,
        )
        for number in range(10)
    )
    return Evidence(
        kept="greedy",
        reason="1.361 times as fast as sequential order",
        race=Comparison(
            names=("sequential", "greedy", "ios"),
            rounds=rounds,
            confidence=0.95,
            notes=("a note on the race",),
        ),
        lanes=3,
        prices_ns=(900, 8_000, None, 1, 600),
        traced=TracedRuns.of([run, run, run], schedule),
        curve=(
            CurvePoint(candidates=1, total_ns=4_000_000),
            CurvePoint(candidates=7, total_ns=2_500_000),
            CurvePoint(candidates=64, total_ns=2_500_000),
        ),
        phase_s={"build": 1.5, "search": 20.25},
    )


@pytest.fixture
def story(graph: OperatorGraph, schedule: InterOpSchedule, evidence: Evidence) -> ModelStory:
    return ModelStory(
        graph=graph,
        schedule_json=schedule.to_json(),
        report="kept greedy: in words",
        machine={"processor": "a processor"},
        versions={"tvm-ios": "1.2.3", "tvm": "0.17"},
        evidence=evidence,
    )
