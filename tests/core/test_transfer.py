"""A schedule goes to every graph of equal structure, and to no other one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.schedule import LibraryOperators, Stage, Strategy
from tvm_ios.core.transfer import transferred
from tvm_ios.core.verify import verify_schedule
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


def operator(name, kind="conv2d", predecessors=(), *, workload="", flops=0):
    return Operator(
        name=name,
        kind=kind,
        predecessors=predecessors,
        workload=workload or kind,
        flops=flops,
    )


def renumbered(graph, order):
    """The graph with its operators in another topological order, under other names."""
    place = {index: number for number, index in enumerate(order)}
    return OperatorGraph(
        "other",
        tuple(
            replace(
                graph.operators[index],
                name=f"other_{number}",
                predecessors=tuple(sorted(place[p] for p in graph.operators[index].predecessors)),
            )
            for number, index in enumerate(order)
        ),
    )


@st.composite
def graphs_and_orders(draw):
    count = draw(st.integers(1, 9))
    operators = []
    for index in range(count):
        before = st.sets(st.integers(0, index - 1), max_size=3) if index else st.just(set())
        kind = draw(st.sampled_from(("conv2d", "add")))
        operators.append(operator(f"{kind}_{index}", kind, tuple(sorted(draw(before)))))
    graph = OperatorGraph("net", tuple(operators))
    order: list[int] = []
    while len(order) < count:
        ready = [
            index
            for index in range(count)
            if index not in order and set(graph.operators[index].predecessors) <= set(order)
        ]
        order.append(draw(st.sampled_from(ready)))
    return graph, order


def annotated(graph):
    numbers = tuple(range(len(graph)))
    return replace(
        greedy_schedule(graph),
        operator_ns=numbers,
        unsplit=numbers[::2],
        libraries=(LibraryOperators("onednn", numbers[1::2]),),
    )


@given(graphs_and_orders())
def test_another_order_and_other_names_are_found(drawn):
    graph, order = drawn
    other = renumbered(graph, order)
    found = transferred(annotated(graph), graph, other)
    verify_schedule(found, other)
    # Which twin is which nobody can say, but all of a number lie where an operator like it lies.
    for index, number in enumerate(found.operator_ns):
        there = graph.operators[number]
        assert other.operators[index].kind == there.kind
        assert (index in found.unsplit) == (number % 2 == 0)
        assert (index in found.by_library("onednn")) == (number % 2 == 1)
    assert [len(stage.groups) for stage in found.stages] == [
        len(stage.groups) for stage in greedy_schedule(graph).stages
    ]


@given(graphs_and_orders())
def test_an_equal_graph_keeps_all_numbers(drawn):
    graph, _ = drawn
    assert transferred(annotated(graph), graph, graph) == annotated(graph)


@given(graphs_and_orders(), graphs_and_orders())
def test_what_is_found_fits_or_nothing_is_found(one, other):
    found = transferred(annotated(one[0]), one[0], other[0])
    if found is not None:
        verify_schedule(found, other[0])


@st.composite
def graphs_with_moves(draw):
    """A graph, and two others in which some results are moved before they are read."""
    graph, _ = draw(graphs_and_orders())
    computing = [replace(each, flops=1) for each in graph.operators]

    def moved():
        operators, places = [], []
        for each in computing:
            predecessors = tuple(sorted(places[p] for p in each.predecessors))
            places.append(len(operators))
            operators.append(replace(each, name=f"o{len(operators)}", predecessors=predecessors))
            for _ in range(draw(st.integers(0, 2))):
                number = len(operators)
                operators.append(operator(f"o{number}", "layout_transform", (number - 1,)))
                places[-1] = number
        return OperatorGraph("net", tuple(operators))

    return moved(), moved()


@given(graphs_with_moves(), st.booleans())
def test_moves_of_data_do_not_count(graphs, listed):
    there, here = graphs
    schedule = annotated(there)
    if listed:
        schedule = replace(
            schedule,
            stages=tuple(Stage(((n,),)) for n in range(len(there))),
            home_lanes=tuple(n % 2 for n in range(len(there))),
        )
    found = transferred(schedule, there, here)
    verify_schedule(found, here)
    assert len(found.stages) <= len(schedule.stages)


def test_a_move_runs_on_the_lane_of_what_it_moves():
    there = OperatorGraph("net", (operator("a", flops=1), operator("b", "pool", flops=1)))
    moves = tuple(operator(f"m{n}", "reshape", (n,)) for n in (0, 1, 2))
    schedule = replace(sequential_schedule(there), home_lanes=(0, 1), operator_ns=(5, 6))
    found = transferred(schedule, there, OperatorGraph("net", (*there.operators, *moves)))
    assert found.stages == (Stage(((0, 2, 4),)), Stage(((1, 3),)))
    assert found.home_lanes == (0, 1, 0, 1, 0)
    assert found.operator_ns == (5, 6, 0, 0, 0)


def test_a_move_runs_behind_a_merge_or_a_barrier():
    there = OperatorGraph(
        "net",
        (
            operator("a", flops=1),
            operator("b", flops=1),
            replace(operator("odd", "odd", (0,), flops=1), schedulable=False),
        ),
    )
    moves = (
        operator("x", "layout_transform", (0,)),
        operator("y", "layout_transform", (2,)),
        operator("z", "layout_transform", (4,)),
    )
    here = OperatorGraph("net", (*there.operators, *moves))
    merge = Stage(((0,), (1,)), Strategy.MERGE)
    schedule = replace(sequential_schedule(there), stages=(merge, Stage(((2,),))))
    found = transferred(schedule, there, here)
    assert found.stages == (merge, Stage(((3,),)), Stage(((2,),)), Stage(((4, 5),)))


def test_lists_keep_their_lanes():
    graph = OperatorGraph("net", (operator("a", "conv2d"), operator("b", "pool")))
    other = renumbered(graph, [1, 0])
    schedule = replace(sequential_schedule(graph), home_lanes=(0, 1))
    found = transferred(schedule, graph, other)
    assert found.home_lanes == (1, 0)
    assert found.stages == (Stage(((1,),)), Stage(((0,),)))


def test_shapes_tell_branches_apart_where_they_can():
    def net(widths, workloads=("", "")):
        branches = [
            operator(f"c{n}", workload=workloads[n] or f"conv-{width}", flops=width)
            for n, width in enumerate(widths)
        ]
        return OperatorGraph("net", (*branches, operator("add", "add", (0, 1))))

    graph = net((5, 3))
    schedule = replace(sequential_schedule(graph), operator_ns=(50, 30, 1))
    swapped = transferred(schedule, graph, net((3, 5)))
    assert swapped.operator_ns == (30, 50, 1)
    other_layout = transferred(schedule, graph, net((3, 5), ("nhwc-3", "nhwc-5")))
    assert other_layout.operator_ns == (30, 50, 1)
    another_size = transferred(schedule, graph, net((20, 12)))
    assert another_size.operator_ns == (50, 30, 1)


def test_other_structures_get_nothing():
    first, second = operator("a", flops=1), operator("b", predecessors=(0,), flops=1)
    chain = OperatorGraph("chain", (first, second))
    apart = OperatorGraph("apart", (first, operator("b", flops=1)))
    longer = OperatorGraph("longer", (first, second, operator("c", predecessors=(1,), flops=1)))
    pools = OperatorGraph("pools", (first, operator("b", "pool", (0,), flops=1)))
    for other in (apart, longer, pools):
        assert transferred(sequential_schedule(chain), chain, other) is None


def test_equal_branches_are_paired():
    branches = [
        operator(f"n{2 * n + part}", ("conv2d", "pool")[part], (2 * n,) if part else ())
        for n in range(40)
        for part in (0, 1)
    ]
    graph = OperatorGraph("wide", tuple(branches))
    other = renumbered(graph, [*range(0, 80, 2), *range(1, 80, 2)])
    verify_schedule(transferred(greedy_schedule(graph), graph, other), other)


def test_values_in_bfloat16_go_with_their_operators():
    there = OperatorGraph("there", (operator("a"), operator("b", "add"), operator("c", "dense")))
    here = renumbered(there, (2, 0, 1))
    low = LowPrecision(results=(0, 2), weights=(2,))
    found = transferred(replace(sequential_schedule(there), low=low), there, here)
    assert found.low == LowPrecision(results=(0, 1), weights=(0,))
