"""Verifiers accept what is right and name what a mutation broke."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import CONV, op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage, Strategy
from tvm_ios.core.verify import verify_graph, verify_schedule
from tvm_ios.errors import GraphError, ScheduleError

GRAPH = OperatorGraph(
    "net",
    (
        op("stem", convolution=replace(CONV, operand="image")),
        op("left", 0, convolution=CONV),
        op("right", 0, convolution=CONV),
        op("tail", 1),
        op("wall", 2, schedulable=False),
        op("join", 3, 4),
    ),
)
GOOD = (
    Stage(((0,),)),
    Stage(((1,), (2,)), Strategy.MERGE),
    Stage(((3,),)),
    Stage(((4,),)),
    Stage(((5,),)),
)


def schedule_of(*stages, graph=GRAPH):
    return InterOpSchedule(
        graph_name=graph.name,
        graph_fingerprint=graph.fingerprint(),
        operator_names=tuple(operator.name for operator in graph.operators),
        stages=stages,
        scheduler="test",
    )


def test_good_schedules():
    verify_schedule(schedule_of(*GOOD), GRAPH, max_group_size=1, max_num_groups=1)
    verify_schedule(schedule_of(Stage(((0, 1, 3, 2),)), Stage(((4,),)), Stage(((5,),))), GRAPH)
    verify_schedule(
        schedule_of(Stage(((0,),)), Stage(((1, 3), (2,))), Stage(((4,),)), Stage(((5,),))),
        GRAPH,
        max_group_size=2,
        max_num_groups=2,
    )


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (GOOD[:-1], r"rule 2 .*1 operators are in no stage, the first is 5 \('join'\)"),
        ((*GOOD, Stage(((0,),))), r"stage 5, group 0 .*rule 2.*0 \('stem'\).*stage 0, group 0"),
        ((*GOOD, Stage(())), "stage 5 .*rule 2.*no groups"),
        ((*GOOD[:-1], Stage(((5,), ()))), "stage 4, group 1 .*rule 2.*empty"),
        ((*GOOD[:-1], Stage(((6,),))), "stage 4, group 0 .*rule 2.*operator 6 does not exist"),
        ((GOOD[1], GOOD[0], *GOOD[2:]), r"stage 0, group 0 .*rule 3.*1 \('left'\).*0 \('stem'\)"),
        (
            (GOOD[0], Stage(((3, 1), (2,))), *GOOD[3:]),
            r"stage 1, group 0 .*rule 3.*3 \('tail'\).*predecessor 1 \('left'\)",
        ),
        (
            (GOOD[0], Stage(((1,), (3,))), Stage(((2,),)), *GOOD[3:]),
            r"stage 1, group 0 .*rule 4.*1 \('left'\) feeds operator 3 \('tail'\) in group 1",
        ),
        (
            (Stage(((0,),)), Stage(((1, 3),)), Stage(((2,),), Strategy.MERGE), *GOOD[3:]),
            "stage 2 .*rule 6.*two operators",
        ),
        (
            (GOOD[0], Stage(((1, 3), (2,)), Strategy.MERGE), *GOOD[3:]),
            r"stage 1, group 0 .*rule 6.*this one has 2 from 1 \('left'\)",
        ),
        (
            (*GOOD[:2], Stage(((3,), (4,))), GOOD[4]),
            r"stage 2, group 1 .*rule 7.*4 \('wall'\)",
        ),
        (
            (GOOD[0], Stage(((1,),)), Stage(((3,), (2,)), Strategy.MERGE), *GOOD[3:]),
            r"stage 2 .*rule 6.*member 0 is not a convolution.*3 \('tail'\)",
        ),
    ],
)
def test_each_rule_is_named(stages, message):
    with pytest.raises(ScheduleError, match=message):
        verify_schedule(schedule_of(*stages), GRAPH)


def by(library, *operators):
    return (LibraryOperators(library, operators),)


def test_limits():
    wide = schedule_of(GOOD[0], Stage(((1, 3), (2,))), *GOOD[3:])
    with pytest.raises(ScheduleError, match="stage 1, group 0 .*rule 5.*max_group_size is 1"):
        verify_schedule(wide, GRAPH, max_group_size=1)
    with pytest.raises(ScheduleError, match="stage 1 .*rule 5.*max_num_groups is 1"):
        verify_schedule(wide, GRAPH, max_num_groups=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operator_ns": (1,) * 5}, "rule 8 .*operator_ns has 5 entries for 6 operators"),
        ({"libraries": by("cudnn", 6)}, r"rule 8 .*cudnn is \(6,\); list operators 0 to 5"),
        ({"libraries": by("cudnn", 1, 1)}, "rule 8 .*cudnn"),
        (
            {"libraries": by("cudnn", 0, 1) + by("other", 1)},
            r"rule 8 .*cudnn and other are both to compute operator 1 \(",
        ),
        ({"unsplit": (6,)}, r"rule 8 .*unsplit is \(6,\); list operators 0 to 5"),
        ({"unsplit": (-1,)}, "rule 8 .*unsplit"),
        ({"unsplit": (2, 1)}, "rule 8 .*ascending"),
        ({"unsplit": (1, 1)}, "rule 8 .*unsplit"),
    ],
)
def test_what_was_measured_of_operators(change, message):
    good = schedule_of(*GOOD)
    verify_schedule(replace(good, operator_ns=(0, 1, 2, 3, 4, 5), unsplit=(0, 5)), GRAPH)
    with pytest.raises(ScheduleError, match=message):
        verify_schedule(replace(good, **change), GRAPH)


@pytest.mark.parametrize(
    ("stages", "homes", "message"),
    [
        (GOOD, (0, 1, 1, 0, 0), "rule 9 .*has 5 entries from 0 on for 6 operators"),
        (GOOD, (0, 1, 1, 0, 0, -1), "rule 9 .*has 6 entries from -1 on"),
        (GOOD, (0, 1, 0, 0, 0, 0), r"stage 1 .*rule 9 .*2 groups on lanes \[0, 1\]"),
        (
            (GOOD[0], Stage(((1,), (2,))), *GOOD[2:]),
            (0, 1, 1, 0, 0, 0),
            r"stage 1 .*rule 9 .*2 groups on lanes \[1\]",
        ),
    ],
)
def test_home_lanes(stages, homes, message):
    verify_schedule(replace(schedule_of(*GOOD), home_lanes=(0, 1, 1, 0, 0, 7)), GRAPH)
    with pytest.raises(ScheduleError, match=message):
        verify_schedule(replace(schedule_of(*stages), home_lanes=homes), GRAPH)


def test_kernels_of_different_sizes_merge_only_where_they_may_be_padded():
    wide = replace(CONV, kernel=(3, 3), padding=(1, 1, 1, 1))
    operators = list(GRAPH.operators)
    operators[2] = replace(operators[2], convolution=wide)
    graph = OperatorGraph("net", tuple(operators))
    schedule = schedule_of(*GOOD, graph=graph)
    verify_schedule(schedule, graph)
    with pytest.raises(ScheduleError, match=r"stage 1 .*rule 6.*member 0 has a kernel of 1x1"):
        verify_schedule(schedule, graph, pad_merged_kernels=False)
    verify_schedule(schedule_of(*GOOD), GRAPH, pad_merged_kernels=False)


def test_another_graph():
    other = OperatorGraph("other", GRAPH.operators[:-1])
    with pytest.raises(ScheduleError, match="does not fit graph 'other'"):
        verify_schedule(schedule_of(*GOOD), other)
    renamed = OperatorGraph("net", (replace(GRAPH.operators[0], name="x"), *GRAPH.operators[1:]))
    with pytest.raises(ScheduleError, match="rule 1"):
        verify_schedule(schedule_of(*GOOD), renamed)


@st.composite
def graphs_with_schedules(draw):
    """A random graph without convolutions and a random right schedule of it."""
    count = draw(st.integers(2, 8))
    operators = tuple(
        op(f"o{head}", *[tail for tail in range(head) if draw(st.integers(0, 2)) == 0])
        for head in range(count)
    )
    graph = OperatorGraph("g", operators)
    stages, pending = [], list(range(count))
    while pending:
        chosen = pending[: draw(st.integers(1, len(pending)))]
        groups = []
        for index in chosen:
            touching = [g for g in groups if set(operators[index].predecessors) & set(g)]
            groups = [g for g in groups if g not in touching]
            groups.append(tuple(sorted([index, *(i for g in touching for i in g)])))
        stages.append(Stage(tuple(groups)))
        pending = pending[len(chosen) :]
    return graph, stages


def _is_right(graph, stages):
    """The rules of concurrent stages once more, by replaying the schedule."""
    placed = {}
    for number, stage in enumerate(stages):
        for position, group in enumerate(stage.groups):
            for slot, index in enumerate(group):
                if index in placed:
                    return False
                placed[index] = (number, position, slot)
    if set(placed) != set(range(len(graph))):
        return False
    for head, operator in enumerate(graph.operators):
        for tail in operator.predecessors:
            before, after = placed[tail], placed[head]
            if before[0] > after[0] or (
                before[0] == after[0] and (before[1] != after[1] or before[2] > after[2])
            ):
                return False
    return True


@given(graphs_with_schedules(), st.data())
def test_mutations_are_refused_exactly_when_they_break_something(case, data):
    graph, stages = case
    verify_schedule(schedule_of(*stages, graph=graph), graph)
    number = data.draw(st.integers(0, len(stages) - 1))
    groups = [list(group) for group in stages[number].groups]
    position = data.draw(st.integers(0, len(groups) - 1))
    kind = data.draw(st.sampled_from(["drop", "repeat", "reverse", "swap", "split", "join"]))
    mutated = list(stages)
    if kind == "drop":
        groups[position] = groups[position][1:]
    elif kind == "repeat":
        groups[position].append(groups[position][0])
    elif kind == "reverse":
        groups[position].reverse()
    elif kind == "split":
        groups.append([groups[position].pop()])
    elif kind == "join":
        groups = [[index for group in groups for index in group]]
    mutated[number] = Stage(tuple(tuple(group) for group in groups if group))
    mutated = [stage for stage in mutated if stage.groups]
    if kind == "swap":
        mutated.reverse()
    schedule = schedule_of(*mutated, graph=graph)
    if _is_right(graph, mutated):
        verify_schedule(schedule, graph)
    else:
        with pytest.raises(ScheduleError, match="rule [234]"):
            verify_schedule(schedule, graph)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flops": -1}, "flops -1"),
        ({"memory_bytes": -5}, "memory_bytes -5"),
        ({"name": ""}, "has no name"),
        ({"convolution": replace(CONV, kernel=(0, 1))}, "kernel is"),
        ({"convolution": replace(CONV, strides=(1, 0))}, "strides is"),
        ({"convolution": replace(CONV, padding=(0, -1, 0, 0))}, "padding is"),
        ({"convolution": replace(CONV, kernel=(9, 1))}, "does not fit"),
        ({"convolution": replace(CONV, groups=3)}, "groups is 3; it must divide 4"),
        ({"convolution": replace(CONV, groups=4, out_channels=6)}, "must divide 6"),
        ({"convolution": replace(CONV, out_channels=0)}, "out_channels is 0"),
    ],
)
def test_graphs(change, message):
    verify_graph(GRAPH)
    broken = OperatorGraph("net", (replace(GRAPH.operators[0], **change), *GRAPH.operators[1:]))
    with pytest.raises(GraphError, match=f"operator 0 .*{message}"):
        verify_graph(broken)
