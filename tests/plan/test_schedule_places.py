from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.errors import ScheduleError
from tvm_ios.plan.placement import ConcatView, Placement, SliceView
from tvm_ios.plan.schedule_places import placements_for
from tvm_ios.search.baselines import greedy_schedule, make_schedule, sequential_schedule


@dataclass(frozen=True)
class Extracted:
    """Operators of some module."""

    graph: OperatorGraph
    views: tuple[SliceView | ConcatView | None, ...]


JOINED = ConcatView((0, 64))
GRAPH = OperatorGraph("net", (op("a"), op("b", 0), op("c", 0), op("d", 1, 2)))
EXTRACTED = Extracted(GRAPH, (None, None, None, JOINED))


def test_places_are_those_of_the_schedule():
    schedule = replace(greedy_schedule(GRAPH), operator_ns=(1, 2, 3, 4), unsplit=(2,))
    assert placements_for(EXTRACTED, schedule) == (
        Placement(stage=0, group=0, cost_ns=1),
        Placement(stage=1, group=0, cost_ns=2),
        Placement(stage=1, group=1, cost_ns=3, split=False),
        Placement(stage=2, group=0, cost_ns=4, view=JOINED),
    )


def test_operators_of_a_list_have_lanes():
    schedule = replace(sequential_schedule(GRAPH), home_lanes=(0, 0, 1, 0))
    assert [each.lane for each in placements_for(EXTRACTED, schedule)] == [0, 0, 1, 0]


def test_merged_schedules_need_kernels_of_their_own():
    merged = Stage(((1,), (2,)), Strategy.MERGE)
    schedule = make_schedule(GRAPH, (Stage(((0,),)), merged, Stage(((3,),))), "test")
    with pytest.raises(ScheduleError, match="stage 1 merges 2 convolutions"):
        placements_for(EXTRACTED, schedule)


def test_incomplete_schedules_are_refused():
    schedule = make_schedule(GRAPH, (Stage(((0,),)),), "test")
    with pytest.raises(ScheduleError, match="operator 'b' is in no stage"):
        placements_for(EXTRACTED, schedule)


def test_a_schedule_for_another_graph_is_refused():
    other = OperatorGraph("other", GRAPH.operators[:3])
    with pytest.raises(ScheduleError, match="does not fit"):
        placements_for(EXTRACTED, sequential_schedule(other))
