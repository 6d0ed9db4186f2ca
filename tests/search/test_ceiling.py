"""Bounds that no schedule beats, and words on what to expect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.test_list_schedule import cases, op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.plan.lanes import CORES, STREAMS, HandOver
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.ceiling import ceiling_of, most_gain
from tvm_ios.search.list_decoder import make_list_decoder
from tvm_ios.search.list_schedule import OperatorTimes, list_problem


def ceiling(graph, operator_ns, lanes, *, splits=True):
    hand_over = CORES if splits else STREAMS
    return ceiling_of(graph, operator_ns, lanes, hand_over=hand_over, splits=splits)


@pytest.mark.slow(1)
@given(cases(), st.integers(1, 4), st.booleans())
def test_no_list_gains_more_than_the_bound(case, lanes, splits):
    graph, times = case
    (row,) = ceiling(graph, times.alone_ns, [lanes], splits=splits).rows
    assert 1 <= row.reached <= row.at_most + 1e-9
    assert 1 <= row.unsplit_reached <= row.unsplit_at_most + 1e-9
    assert row.unsplit_at_most <= lanes
    assert row.sequential_ns <= sum(times.alone_ns)


def test_a_chain_has_nothing_to_schedule():
    graph = OperatorGraph("g", (op("a"), op("b", 0), op("c", 1)))
    found = ceiling(graph, [5_000, 1_000_000, 10], [2, 16])
    assert [(row.at_most, row.unsplit_at_most) for row in found.rows] == [(1, 1), (1, 1)]
    assert found.line().startswith("a chain: nothing to schedule, kernels only (by rough speeds: 3")


def branches(count, ns):
    """A graph of operators that nobody reads, of so many nanoseconds each."""
    graph = OperatorGraph("g", tuple(op(f"o{number}") for number in range(count)))
    return graph, [ns] * count


def test_small_operators_gain_and_large_ones_fill_the_lanes_by_themselves():
    small, large = (ceiling(*branches(8, ns), [2]) for ns in (1_000, 10_000_000))
    (row,) = small.rows
    assert row.at_most == pytest.approx(2, abs=0.01)
    assert row.reached == pytest.approx(2, abs=0.01)
    assert (
        "scheduling on 2 lanes gains at most about 2.00 times; a list reaches 2.00" in small.line()
    )
    (row,) = large.rows
    assert row.at_most == pytest.approx(1, abs=0.01)
    assert row.unsplit_at_most == 2
    assert "operators fill 2 lanes by themselves" in large.line()


def test_a_short_way_round_is_nearly_a_chain():
    graph = OperatorGraph("g", (op("a"), op("b", 0), op("c", 0), op("d", 1, 2)))
    found = ceiling(graph, [1_000_000, 1_000_000, 200_000, 1_000_000], [2])
    assert found.line().startswith("nearly a chain: scheduling gains at most about 1.0")


def test_streams_do_not_split():
    (row,) = ceiling(*branches(8, 10_000_000), [4], splits=False).rows
    assert row.at_most == row.unsplit_at_most == 4


def test_one_lane_and_no_operators_are_told():
    assert ceiling(*branches(8, 1_000), [1]).line().startswith("one lane: nothing to schedule")
    nothing = ceiling(OperatorGraph("g", ()), [], [2])
    assert nothing.rows[0].at_most == 1
    assert nothing.line().startswith("a chain")


def test_what_needs_no_kernel_takes_no_time_and_hands_over_what_it_is_of():
    graph = OperatorGraph("g", (op("a"), op("view", 0, view=True), op("b", 1), op("c")))
    found = ceiling(graph, [1_000, 0, 1_000, 2_000], [2])
    assert (found.operators, found.work_ns, found.critical_ns) == (3, 4_000, 2_000)


@given(cases(), st.integers(1, 4))
def test_measured_times_bound_every_list(case, lanes):
    graph, times = case
    (alone_ns,) = (list(times.alone_ns),)
    helped_ns = [max(1, ns * 2 // 3) if ns else 0 for ns in alone_ns]
    measured = OperatorTimes(alone_ns=alone_ns, helped_ns=helped_ns)
    at_most = most_gain(graph, measured, lanes=lanes)
    start = sequential_schedule(graph)
    free = HandOver(signal_ns=0, fetch_ns_per_kb=0)
    _, problem = list_problem(graph, measured, lanes=lanes, hand_over=free, start=start)
    if problem.tasks:
        decoder = make_list_decoder(problem)
        list_ns = max(decoder.timeline(range(len(problem.tasks))).ends_ns)
        in_order_ns = sum(map(min, alone_ns, helped_ns))
        assert in_order_ns <= at_most * max(1, list_ns) * (1 + 1e-9)


def test_operators_that_all_lanes_share_leave_nothing_to_gain():
    graph, alone_ns = branches(4, 1000)
    for helped_ns, gain in ((500, 1), (600, 1.2), (1000, 2)):
        times = OperatorTimes(alone_ns=alone_ns, helped_ns=[helped_ns] * 4)
        assert most_gain(graph, times, lanes=2) == pytest.approx(gain)
