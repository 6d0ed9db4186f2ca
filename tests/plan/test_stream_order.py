"""Order on streams: what plans demand, by vector clocks of the test's own, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.plan import ExecutionPlan, Group, Launch, launches_before
from tvm_ios.plan.stream_order import (
    CALLER,
    Step,
    StepKind,
    order_on_streams,
    with_timing,
)


def plan_of(*groups):
    """Groups as (stage, position, launches, dependencies, lane); launches are numbered on."""
    rows, cursor = [], 0
    for stage, position, count, dependencies, lane in groups:
        rows.append(
            Group(
                stage=stage,
                position=position,
                launches=tuple(range(cursor, cursor + count)),
                dependencies=dependencies,
                lane=lane,
            )
        )
        cursor += count
    launches = tuple(
        Launch(operator=f"op{n}", operator_index=n, kernel=f"k{n}", inputs=(), outputs=())
        for n in range(cursor)
    )
    return ExecutionPlan(
        lanes=4,
        buffers=(),
        tensors=(),
        launches=launches,
        groups=tuple(rows),
        inputs=(),
        outputs=(),
        arena_bytes=0,
    )


DIAMOND = plan_of((0, 0, 1, (), 0), (1, 0, 2, (0,), 0), (1, 1, 1, (0,), 2), (2, 0, 1, (1, 2), 0))


def complete_before(steps):
    """For each launch issued, and the end on the caller's stream, the launches complete before."""
    streams, events, before = {}, {}, {}
    for step in steps:
        known = streams.setdefault(step.stream, set())
        if step.kind is StepKind.LAUNCH:
            before[step.index] = frozenset(known)
            known.add(step.index)
        elif step.kind is StepKind.RECORD:
            events[step.index] = frozenset(known) | {f"event {step.index}"}
        else:
            known |= events[step.index]
    return before, streams.get(CALLER, set())


def is_right(plan, steps):
    """Whether the steps keep every dependency, the fork and the join."""
    before, end = complete_before(steps)
    (fork,) = {s.index for s in steps if s.kind is StepKind.RECORD and s.stream == CALLER}
    return all(
        f"event {fork}" in before[launch]
        and {n for n in range(launch) if mask >> n & 1} <= before[launch]
        for launch, mask in enumerate(launches_before(plan.groups))
    ) and end >= set(range(len(plan.launches)))


def test_a_diamond_waits_where_its_edges_cross():
    program = order_on_streams(DIAMOND)
    assert program.as_text(DIAMOND).splitlines() == [
        "caller: !0 ?3",
        "stream 1: ?0 op0 !1 op1 op2 ?2 op4 !3",
        "stream 2: ?1 op3 !2",
    ]


def test_groups_that_may_overlap_are_issued_in_turns():
    program = order_on_streams(
        plan_of((0, 0, 3, (), 0), (0, 1, 2, (), 1), (0, 2, 1, (), 0), (1, 0, 1, (), 1))
    )
    issued = [step.index for step in program.steps if step.kind is StepKind.LAUNCH]
    assert issued == [0, 3, 1, 4, 2, 5, 6]


def test_a_wait_that_another_one_implies_is_left_out():
    # The last group reads both; that the first one is complete is known through the second.
    plan = plan_of((0, 0, 1, (), 0), (1, 0, 1, (0,), 1), (2, 0, 1, (0, 1), 2))
    waits = [s for s in order_on_streams(plan).steps if s.kind is StepKind.WAIT and s.stream == 3]
    assert len(waits) == 1


def test_a_single_lane_has_two_events():
    program = order_on_streams(plan_of((0, 0, 2, (), 3), (1, 0, 1, (0,), 3)))
    assert (program.num_streams, program.num_events) == (1, 2)
    assert [step.stream for step in program.steps] == [0, 1, 1, 1, 1, 1, 0]


def test_a_plan_without_launches_has_no_steps():
    assert order_on_streams(plan_of()).steps == ()


def test_timing_only_adds_events():
    program = order_on_streams(DIAMOND)
    timed = with_timing(program)
    assert timed.num_timed_events == 2 * len(DIAMOND.launches) + 1
    assert program.steps == tuple(
        step
        for step in timed.steps
        if step.kind is not StepKind.RECORD or step.index < program.num_events
    )
    base = program.num_events
    issued = [n for n, step in enumerate(timed.steps) if step.kind is StepKind.LAUNCH]
    for row, n in enumerate(issued):
        around = timed.steps[n - 1], timed.steps[n + 1]
        assert [step.index - base for step in around] == [2 * row + 1, 2 * row + 2]
        assert {step.stream for step in around} == {timed.steps[n].stream}
    assert timed.steps[0] == Step(StepKind.RECORD, CALLER, base, None)


@given(seed=st.integers(0, 2**32), lanes=st.integers(1, 5))
def test_every_wait_is_needed_and_none_is_missing(random_graph, seed, lanes):
    graph, placements = random_graph(random.Random(seed))
    plan = lower_plan(graph, placements, lanes=lanes)
    check(plan)
    # Lanes of any kind are legal.
    chooser = random.Random(seed)
    check(
        replace(
            plan,
            groups=tuple(replace(group, lane=chooser.randrange(lanes)) for group in plan.groups),
        )
    )


def check(plan):
    steps = order_on_streams(plan).steps
    if not plan.groups:
        return
    assert is_right(plan, steps)
    lanes = sorted({group.lane for group in plan.groups})
    for lane in lanes:
        assert [
            s.index
            for s in steps
            if s.kind is StepKind.LAUNCH and s.stream == lanes.index(lane) + 1
        ] == [launch for group in plan.groups if group.lane == lane for launch in group.launches]
    for number, step in enumerate(steps):
        if step.kind is StepKind.WAIT:
            assert not is_right(plan, [*steps[:number], *steps[number + 1 :]])
    awaited = {step.index for step in steps if step.kind is StepKind.WAIT}
    assert awaited == {step.index for step in steps if step.kind is StepKind.RECORD}
