"""Sequential and greedy schedules; their golden stages and costs are in test_golden.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import OptionError
from tvm_ios.search.baselines import due_first_schedule, greedy_schedule, sequential_schedule


@st.composite
def graphs(draw):
    operators = tuple(
        op(
            f"o{head}",
            *(t for t in range(head) if draw(st.integers(0, 2)) == 0),
            schedulable=draw(st.integers(0, 4)) > 0,
        )
        for head in range(draw(st.integers(0, 10)))
    )
    return OperatorGraph("g", operators)


@pytest.mark.slow(1)
@given(graphs(), st.integers(1, 4))
def test_schedules_are_right(graph, streams):
    verify_schedule(sequential_schedule(graph), graph, max_group_size=1, max_num_groups=1)
    verify_schedule(
        greedy_schedule(graph, streams), graph, max_group_size=1, max_num_groups=streams
    )


@given(graphs(), st.dictionaries(st.integers(0, 9), st.integers(0, 5)))
def test_what_is_due_comes_first_with_all_that_it_needs(graph, due):
    due = {index: until for index, until in due.items() if index < len(graph)}
    schedule = due_first_schedule(graph, due)
    verify_schedule(schedule, graph, max_group_size=1, max_num_groups=1)
    order = [stage.operators[0] for stage in schedule.stages]
    if due:
        first = min(due, key=due.__getitem__)
        needed = {first}
        for index in range(first, -1, -1):
            needed |= set(graph.operators[index].predecessors) if index in needed else set()
        until = order.index(first)
        others = set(order[:until]) - needed
        # What else comes before is due as early.
        assert all(any(due.get(i, 9) <= due[first] for i in range(index, 10)) for index in others)
    assert due_first_schedule(graph, {}).stages == sequential_schedule(graph).stages


def test_what_does_not_fit_goes_first_in_the_next_stage():
    rows = [(), (), (), (0,), (1,)]
    operators = tuple(op(str(i), *row) for i, row in enumerate(rows))
    schedule = greedy_schedule(OperatorGraph("g", operators), 2)
    assert [stage.groups for stage in schedule.stages] == [
        ((0,), (1,)),
        ((2,), (3,)),
        ((4,),),
    ]


def test_no_stream():
    with pytest.raises(OptionError, match="max_num_streams is 0"):
        greedy_schedule(OperatorGraph("g", ()), 0)
