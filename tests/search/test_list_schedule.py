"""Lists made from schedules: legal, never longer than the order they start from, repeatable."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import operator_graphs
from tests.operator_graphs import CONV
from tests.search.list_bounds import lower_bound_ns
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.partition import connected
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage, Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import OptionError, ScheduleError
from tvm_ios.plan.lanes import CORES, STREAMS, HandOver
from tvm_ios.search.baselines import greedy_schedule, make_schedule, sequential_schedule
from tvm_ios.search.list_decoder import make_list_decoder
from tvm_ios.search.list_schedule import OperatorTimes, list_problem, list_schedule, mixed_list
from tvm_ios.search.list_search import ListOptions

FEW = ListOptions(draws=40, moves=160)
op = partial(operator_graphs.op, output_elements=250)


@st.composite
def cases(draw, most=10):
    """A graph and the times of its operators; some need no kernel, some gain by help."""
    count = draw(st.integers(1, most))
    graph = OperatorGraph(
        "g",
        tuple(
            op(f"o{head}", *(t for t in range(head) if draw(st.integers(0, 2)) == 0))
            for head in range(count)
        ),
    )
    alone_ns = tuple(draw(st.sampled_from([0, 400, 1000, 3000])) for _ in range(count))
    helped_ns = tuple(draw(st.sampled_from([time, (time + 1) // 2])) for time in alone_ns)
    return graph, OperatorTimes(alone_ns=alone_ns, helped_ns=helped_ns)


def order_ns(graph, times, start, lanes):
    """Simulated time of the order of a schedule."""
    _, problem = list_problem(graph, times, lanes=lanes, hand_over=CORES, start=start)
    keys = -np.arange(len(problem.tasks), dtype=np.float64)
    lists = np.stack([np.stack([keys, np.full_like(keys, sign)]) for sign in (-1, 1)])
    return make_list_decoder(problem).lengths_ns(lists).min()


@pytest.mark.slow
@given(case=cases(), lanes=st.integers(1, 4), start=st.sampled_from(["sequential", "greedy"]))
def test_a_list_is_a_schedule_and_no_longer_than_its_start(case, lanes, start):
    graph, times = case
    begun = {"sequential": sequential_schedule, "greedy": greedy_schedule}[start](graph)
    listed = list_schedule(graph, times, lanes=lanes, start=begun, options=FEW)
    verify_schedule(listed, graph)
    assert listed.num_home_lanes <= lanes
    assert listed.latency_ns <= order_ns(graph, times, begun, lanes)
    _, problem = list_problem(graph, times, lanes=lanes, hand_over=CORES, start=begun)
    assert listed.latency_ns >= lower_bound_ns(problem)
    again = list_schedule(graph, times, lanes=lanes, start=begun, options=FEW)
    assert again == listed
    assert InterOpSchedule.from_json(listed.to_json()) == listed


@pytest.mark.slow(1)
@given(case=cases(most=5))
def test_few_tasks_get_the_best_of_all_lists(case):
    graph, times = case
    start = sequential_schedule(graph)
    _, problem = list_problem(graph, times, lanes=2, hand_over=STREAMS, start=start)
    count = len(problem.tasks)
    rows = product(permutations(range(count)), product((-1, 1), repeat=count))
    every = np.array(list(rows), np.float64)
    best_ns = make_list_decoder(problem).lengths_ns(every).min()
    effort = ListOptions(draws=400, moves=800)
    listed = list_schedule(graph, times, lanes=2, hand_over=STREAMS, start=start, options=effort)
    assert listed.latency_ns == best_ns


def test_seeds_count():
    chooser = np.random.default_rng(3)
    graph = OperatorGraph(
        "g",
        tuple(
            op(f"o{n}", *sorted(chooser.choice(n, min(n, 2), replace=False).tolist()))
            for n in range(40)
        ),
    )
    alone_ns = tuple(chooser.integers(1000, 9000, 40).tolist())
    times = OperatorTimes(alone_ns=alone_ns, helped_ns=alone_ns)
    start = sequential_schedule(graph)
    found = [
        list_schedule(graph, times, lanes=2, start=start, options=replace(FEW, seed=seed))
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]


def test_a_merge_stays_one_task():
    graph = OperatorGraph(
        "g",
        (
            op("stem", convolution=replace(CONV, operand="image")),
            op("left", 0, convolution=CONV),
            op("right", 0, convolution=CONV),
            op("other", 0),
            op("join", 1, 2, 3),
        ),
    )
    merge = Stage(((1,), (2,)), Strategy.MERGE)
    start = make_schedule(
        graph, (Stage(((0,),)), merge, Stage(((3,),)), Stage(((4,),))), "ios", 9000, "model of X"
    )
    times = OperatorTimes(
        alone_ns=(1000, 4000, 4000, 6000, 1000),
        helped_ns=(1000, 4000, 4000, 6000, 1000),
        merged_ns={merge: 5000},
        priced_by="model of X",
    )
    listed = list_schedule(graph, times, lanes=2, start=start)
    assert merge in listed.stages
    assert listed.home_lanes[1] == listed.home_lanes[2] != listed.home_lanes[3]
    assert (listed.scheduler, listed.priced_by) == ("list", "model of X")
    # The stem, the other on its lane, and the join there: it fetches what the merge wrote.
    assert HandOver(signal_ns=300, fetch_ns_per_kb=200) == CORES
    assert listed.latency_ns == 1000 + 6000 + 2 * 200 + 1000


def test_what_needs_no_kernel_hides_nobody():
    """The reader of a view waits for, and fetches, what lies behind it."""
    graph = OperatorGraph("g", (op("a"), op("view", 0), op("b", 1), op("c", 1)))
    alone_ns = (1000, 0, 5000, 5000)
    members, problem = list_problem(
        graph,
        OperatorTimes(alone_ns=alone_ns, helped_ns=alone_ns),
        lanes=2,
        hand_over=CORES,
        start=sequential_schedule(graph),
    )
    assert members == ((0,), (2,), (3,))
    assert [[s.task for s in task.sources] for task in problem.tasks] == [[], [0], [0]]
    listed = list_schedule(
        graph,
        OperatorTimes(alone_ns=alone_ns, helped_ns=alone_ns),
        lanes=2,
        start=sequential_schedule(graph),
    )
    assert [stage.operators for stage in listed.stages[:2]] == [(0,), (1,)]
    assert listed.home_lanes[0] == listed.home_lanes[1]
    assert listed.home_lanes[2] != listed.home_lanes[3]
    assert listed.latency_ns == 1000 + CORES.signal_ns + CORES.fetch_ns_per_kb + 5000


def test_operators_with_no_way_round_are_one_group():
    """A chain ends where others read, where more is read, and at a barrier."""
    graph = OperatorGraph(
        "g",
        (
            op("a"),
            op("b", 0),
            op("c", 1),
            op("d", 2),
            op("other", 2),
            op("join", 3, 4),
            op("wall", 5, schedulable=False),
            op("tail", 6),
        ),
    )
    times = OperatorTimes(alone_ns=(1000,) * 8, helped_ns=(1000,) * 8)
    listed = list_schedule(graph, times, lanes=1, start=sequential_schedule(graph), options=FEW)
    groups = [stage.groups for stage in listed.stages]
    assert groups[0] == ((0, 1, 2),)
    assert groups[3:] == [((5,),), ((6,),), ((7,),)]
    assert sorted(groups[1:3]) == [((3,),), ((4,),)]


def test_another_graph_and_bad_options_are_refused():
    graph = OperatorGraph("g", (op("a"), op("b", 0)))
    times = OperatorTimes(alone_ns=(1, 1), helped_ns=(1, 1))
    with pytest.raises(ScheduleError, match="does not fit graph 'g'"):
        list_schedule(
            graph, times, lanes=2, start=sequential_schedule(OperatorGraph("h", (op("z"),)))
        )
    with pytest.raises(OptionError, match="draws is -1; give a whole number of 0 or more"):
        ListOptions(draws=-1)


@pytest.mark.slow(1)
@given(case=cases(), lanes=st.integers(1, 3))
def test_what_is_due_comes_in_time_where_any_list_has_it_so(case, lanes):
    """A deadline that the tasks it needs meet alone, in order, on one lane, is always met."""
    graph, times = case
    last = len(graph) - 1
    needed = {last}
    for index in range(last, -1, -1):
        if index in needed:
            needed |= set(graph.operators[index].predecessors)
    until_ns = sum(times.alone_ns[index] for index in needed)
    urgent = replace(times, helped_ns=times.alone_ns, due_ns={last: until_ns})
    start = sequential_schedule(graph)
    listed = list_schedule(graph, urgent, lanes=lanes, start=start, options=FEW)
    verify_schedule(listed, graph)
    _, problem = list_problem(graph, urgent, lanes=lanes, hand_over=CORES, start=start)
    if not problem.is_due:
        assert not until_ns
        return
    if lanes == 1:
        done_ns = 0
        for stage in listed.stages:
            for index in stage.operators:
                done_ns += times.alone_ns[index]
                if index in needed and times.alone_ns[index]:
                    assert done_ns <= until_ns


@pytest.mark.slow(1)
@given(case=cases(), data=st.data())
def test_a_mixed_list_is_a_schedule_that_has_each_operator_as_it_came(case, data):
    graph, times = case
    behind = replace(
        sequential_schedule(graph),
        unsplit=(0,),
        libraries=(LibraryOperators("onednn", tuple(range(len(graph)))),),
    )
    listed = list_schedule(graph, times, lanes=2, start=behind, options=FEW)
    components = connected(range(len(graph)), graph.predecessor_masks())
    assert sorted(index for row in components for index in row) == list(range(len(graph)))
    taken = data.draw(st.sets(st.sampled_from(components)))
    chosen = {index for row in taken for index in row}
    mixed = mixed_list(replace(listed, libraries=()), behind, chosen)
    verify_schedule(mixed, graph)
    assert mixed.libraries[0].operators == tuple(
        index for index in range(len(graph)) if index not in chosen
    )
    for index in range(len(graph)):
        source, lane = (listed, listed.home_lanes[index]) if index in chosen else (behind, 0)
        assert mixed.home_lanes[index] == lane
        assert (index in mixed.unsplit) == (index in source.unsplit)
    order = [index for stage in mixed.stages for index in stage.operators]
    assert set(order[: len(chosen)]) == chosen


def test_a_merge_across_both_is_no_mixed_list():
    pair = tuple(op(name, convolution=CONV) for name in "ab")
    graph = OperatorGraph("g", pair)
    merged = replace(
        make_schedule(graph, (Stage(((0,), (1,)), Strategy.MERGE),), "list"), home_lanes=(1, 1)
    )
    assert mixed_list(merged, sequential_schedule(graph), {0}) is None
    assert mixed_list(merged, sequential_schedule(graph), {0, 1}).stages == merged.stages
