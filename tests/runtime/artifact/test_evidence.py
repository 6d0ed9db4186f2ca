"""Traced runs become times of stages."""

from __future__ import annotations

import pytest

from tests.runtime.artifact.test_story import GRAPH
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.artifact.evidence import TracedRuns


def event(stage: int, start: int, end: int, lane: int = 0) -> TraceEvent:
    return TraceEvent(
        operator=f"op{stage}", stage=stage, group=0, lane=lane, start_ns=start, end_ns=end
    )


def scheduled(*, home_lanes: tuple[int, ...] = ()) -> InterOpSchedule:
    return InterOpSchedule(
        graph_name="net",
        graph_fingerprint=GRAPH.fingerprint(),
        operator_names=("a", "b", "c"),
        stages=tuple(Stage(((index,),)) for index in range(3)),
        scheduler="some",
        home_lanes=home_lanes,
    )


RUN = (event(0, 0, 10), event(0, 0, 14, lane=1), event(2, 12, 30))
"""Stage 2 begins while stage 0 still runs on another lane; stage 1 is a view."""


def test_times_of_stages_add_up_to_the_run():
    assert TracedRuns.of([RUN], scheduled()).stage_ns == (14, None, 16)


def test_those_of_a_list_are_times_of_launches():
    assert TracedRuns.of([RUN], scheduled(home_lanes=(0, 1, 0))).stage_ns == (14, None, 18)


def test_a_stage_that_ended_before_the_one_above_adds_nothing():
    run = (event(0, 0, 20), event(1, 1, 5, lane=1), event(2, 20, 21))
    assert TracedRuns.of([run], scheduled()).stage_ns == (20, 0, 1)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_medians_of_runs_and_the_run_of_median_length(order):
    runs = [(event(0, 0, 10 * n), event(2, 10 * n, 25 * n)) for n in (1, 2, 7)]
    traced = TracedRuns.of([runs[place] for place in order], scheduled())
    assert traced == TracedRuns(runs=3, stage_ns=(20, None, 30), timeline=runs[1])


def test_a_device_that_tells_nothing_has_no_times():
    assert TracedRuns.of([(), ()], scheduled()) == TracedRuns()
