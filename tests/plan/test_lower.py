"""Lowered plans compute the graph in every order they allow, checked on a model of memory."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import PlanError
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import Placement, SliceView
from tvm_ios.plan.plan import BufferKind, ExecutionPlan
from tvm_ios.plan.verify import verify_plan


def expected_contents(graph: KernelGraph, placements: list[Placement]) -> list[list[object]]:
    """What each tensor holds, a symbol for every four bytes, by running the graph in node order."""
    content: dict[int, list[object]] = {
        tensor: [("input", tensor, word) for word in range(graph.tensors[tensor].shape[1])]
        for _, tensor in graph.inputs
    }
    for index, (operator, placement) in enumerate(zip(graph.operators, placements, strict=True)):
        reads = [content[tensor] for tensor in operator.inputs]
        for position, tensor in enumerate(operator.outputs):
            size = graph.tensors[tensor].shape[1]
            if operator.kernel is None:
                content[tensor] = reads[0]
            elif isinstance(placement.view, SliceView):
                begin = placement.view.byte_offset // 4
                content[tensor] = reads[0][begin : begin + size]
            elif placement.view is not None:
                content[tensor] = [word for part in reads for word in part]
            else:
                content[tensor] = [(index, position, word) for word in range(size)]
    return [content[tensor] for tensor in range(len(graph.tensors))]


def run_on_model(plan: ExecutionPlan, expected: list[list[object]], chooser: random.Random) -> None:
    """Run launches in a random order the plan allows; every read must see the right symbols."""
    arena: list[object] = [None] * (plan.arena_bytes // 4)
    own = {
        number: [None] * (buffer.size_bytes // 4)
        for number, buffer in enumerate(plan.buffers)
        if buffer.kind is not BufferKind.ARENA
    }

    def place(tensor: int) -> tuple[list[object], int, int]:
        entry = plan.tensors[tensor]
        buffer = plan.buffers[entry.buffer]
        memory = arena if buffer.kind is BufferKind.ARENA else own[entry.buffer]
        begin = ((buffer.arena_offset or 0) + entry.byte_offset) // 4
        return memory, begin, begin + entry.size_bytes // 4

    def contents(tensor: int) -> list[object]:
        memory, begin, end = place(tensor)
        return memory[begin:end]

    def meaning(tensor: int) -> list[object]:
        if tensor < len(expected):
            return expected[tensor]
        flat = plan.tensors[tensor]  # a flattened argument: the tensor with the same bytes
        return next(
            expected[index]
            for index, other in enumerate(plan.tensors[: len(expected)])
            if (other.buffer, other.byte_offset) == (flat.buffer, flat.byte_offset)
            and other.size_bytes == flat.size_bytes
        )

    for entry in plan.inputs:
        memory, begin, end = place(entry.tensor)
        memory[begin:end] = expected[entry.tensor]
    waiting = {n: set(group.dependencies) for n, group in enumerate(plan.groups)}
    left = {n: list(group.launches) for n, group in enumerate(plan.groups)}
    while left:
        number = chooser.choice([n for n in left if not waiting[n]])
        launch = plan.launches[left[number].pop(0)]
        for tensor in launch.inputs:
            assert contents(tensor) == meaning(tensor), launch
        for tensor in launch.outputs:
            memory, begin, end = place(tensor)
            memory[begin:end] = meaning(tensor)
        if not left[number]:
            del left[number]
            for others in waiting.values():
                others.discard(number)
    for tensor in plan.outputs:
        assert contents(tensor) == expected[tensor]


@given(seed=st.integers(0, 10**9), reuse=st.booleans())
def test_every_allowed_order_computes_the_graph(random_graph, seed, reuse):
    chooser = random.Random(seed)
    graph, placements = random_graph(chooser)
    plan = lower_plan(graph, placements, lanes=2, reuse=reuse)
    verify_plan(plan)
    expected = expected_contents(graph, placements)
    for _ in range(5):
        run_on_model(plan, expected, chooser)


@given(seed=st.integers(0, 10**9))
def test_no_dependency_is_superfluous(random_graph, seed):
    plan = lower_plan(*random_graph(random.Random(seed)), lanes=2)
    width = Counter(stage for stage, _ in {(g.stage, g.position) for g in plan.groups})
    for number, group in enumerate(plan.groups):
        for dependency in group.dependencies:
            earlier = plan.groups[dependency]
            in_line = dependency == number - 1 and width[group.stage] == width[earlier.stage] == 1
            if in_line:  # kept even where nothing is read, see below
                continue
            fewer = tuple(d for d in group.dependencies if d != dependency)
            groups = list(plan.groups)
            groups[number] = replace(group, dependencies=fewer)
            with pytest.raises(PlanError, match="rule [45]"):
                verify_plan(replace(plan, groups=tuple(groups)))


@given(seed=st.integers(0, 10**9), lanes=st.integers(1, 4))
def test_stages_of_one_group_run_in_order_on_one_lane(random_graph, seed, lanes):
    graph, placements = random_graph(random.Random(seed))
    sequential = [
        replace(placement, stage=index, group=0) for index, placement in enumerate(placements)
    ]
    plan = lower_plan(graph, sequential, lanes=lanes)
    for number, group in enumerate(plan.groups):
        assert group.lane == 0
        assert group.dependencies == ((number - 1,) if number else ())


@given(seed=st.integers(0, 10**9), lanes=st.integers(1, 4))
def test_lanes_exist_and_costs_and_splits_arrive(random_graph, seed, lanes):
    chooser = random.Random(seed)
    graph, placements = random_graph(chooser)
    placements = [
        replace(placement, cost_ns=chooser.randrange(10**6), split=chooser.random() < 0.5)
        for placement in placements
    ]
    plan = lower_plan(graph, placements, lanes=lanes)
    verify_plan(plan)
    assert all(0 <= group.lane < lanes for group in plan.groups)
    for launch in plan.launches:
        assert launch.split == placements[launch.operator_index].split


def listed(placements: list[Placement], chooser: random.Random, lanes: int) -> list[Placement]:
    """The placements as a list: operators one after another, each with a lane."""
    order = sorted(range(len(placements)), key=lambda i: (placements[i].stage, i))
    stage_of = {index: stage for stage, index in enumerate(order)}
    return [
        replace(placement, stage=stage_of[index], group=0, lane=chooser.randrange(lanes))
        for index, placement in enumerate(placements)
    ]


@given(seed=st.integers(0, 10**9), lanes=st.integers(1, 4))
def test_a_list_keeps_its_lanes_and_waits_for_data_only(random_graph, seed, lanes):
    chooser = random.Random(seed)
    graph, placements = random_graph(chooser)
    placements = listed(placements, chooser, lanes)
    plan = lower_plan(graph, placements, lanes=lanes)
    verify_plan(plan)
    for group in plan.groups:
        for launch in group.launches:
            assert group.lane == placements[plan.launches[launch].operator_index].lane
    for number, group in enumerate(plan.groups):
        for dependency in group.dependencies:
            fewer = tuple(d for d in group.dependencies if d != dependency)
            groups = list(plan.groups)
            groups[number] = replace(group, dependencies=fewer)
            with pytest.raises(PlanError, match="rule [45]"):
                verify_plan(replace(plan, groups=tuple(groups)))
    expected = expected_contents(graph, placements)
    for _ in range(3):
        run_on_model(plan, expected, chooser)


@given(seed=st.integers(0, 10**9))
def test_a_list_for_more_lanes_than_there_are_chooses_anew(random_graph, seed):
    chooser = random.Random(seed)
    graph, placements = random_graph(chooser)
    placements = [replace(each, lane=3) for each in listed(placements, chooser, 4)]
    plan = lower_plan(graph, placements, lanes=2)
    verify_plan(plan)
    assert all(group.lane < 2 for group in plan.groups)


def test_the_dearest_group_has_a_lane_of_its_own():
    placements = [
        Placement(stage=0, group=group, cost_ns=cost) for group, cost in enumerate((10, 9, 90))
    ]
    plan = lower_plan(fan([16, 16, 16]), placements, lanes=2)
    assert [group.lane for group in plan.groups] == [1, 1, 0]


def fan(lengths: list[int]) -> KernelGraph:
    """Operators that all read the input only."""
    graph = chain(lengths)
    return replace(
        graph, operators=tuple(replace(operator, inputs=(0,)) for operator in graph.operators)
    )


def chain(lengths: list[int]) -> KernelGraph:
    """Operators one after another, each with an output of so many float32."""
    return KernelGraph(
        tensors=tuple(GraphTensor((1, length), "float32") for length in (16, *lengths)),
        operators=tuple(
            GraphOperator(
                name=f"o{number}",
                kernel=f"f{number}",
                inputs=(number,),
                outputs=(number + 1,),
                flatten=False,
            )
            for number in range(len(lengths))
        ),
        inputs=(("x", 0),),
        outputs=(len(lengths),),
    )


def test_a_chain_needs_two_buffers():
    placements = [Placement(stage=stage, group=0) for stage in range(10)]
    plan = lower_plan(chain([256] * 10), placements, lanes=1)
    assert plan.arena_bytes == 2 * 1024
    assert [group.dependencies for group in plan.groups] == [(), *((n,) for n in range(9))]


def test_a_chain_in_one_group_needs_two_buffers():
    plan = lower_plan(chain([256] * 10), [Placement(stage=0, group=0)] * 10, lanes=1)
    assert plan.arena_bytes == 2 * 1024


def test_a_reader_beside_its_writer_is_refused():
    placements = [Placement(stage=0, group=0), Placement(stage=0, group=1)]
    with pytest.raises(PlanError, match=r"'o1' \(stage 0\) reads what operator 'o0' \(stage 0\)"):
        lower_plan(chain([8, 8]), placements, lanes=2)


def test_counts_must_agree():
    with pytest.raises(PlanError, match="2 operators, but there are 1 placements"):
        lower_plan(chain([8, 8]), [Placement(stage=0, group=0)], lanes=2)


def test_lanes_must_be_positive():
    with pytest.raises(PlanError, match="0 lanes"):
        lower_plan(chain([8]), [Placement(stage=0, group=0)], lanes=0)


def test_names_for_people_are_kept():
    plan = lower_plan(chain([8]), [Placement(stage=0, group=0)], lanes=1, operator_names=["conv"])
    assert plan.launches[0].operator == "conv"
    assert plan.launches[0].kernel == "f0"
