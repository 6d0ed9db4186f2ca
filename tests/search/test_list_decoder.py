"""Simulated lists: both decoders agree, what they give is legal, and brute force knows the best."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.list_bounds import lower_bound_ns
from tvm_ios.search.list_decoder import (
    LATE,
    NEVER_DUE,
    ListProblem,
    ListTask,
    NativeListDecoder,
    PythonListDecoder,
    Source,
    make_list_decoder,
)

DECODERS = [PythonListDecoder, NativeListDecoder]


@st.composite
def problems(draw, most=12, lanes=4):
    tasks = []
    for number in range(draw(st.integers(0, most))):
        alone_ns = draw(st.integers(1, 50))
        sources = [task for task in range(number) if draw(st.integers(0, 2)) == 0]
        tasks.append(
            ListTask(
                alone_ns=alone_ns,
                helped_ns=draw(st.integers(1, alone_ns)),
                sources=tuple(Source(task, draw(st.integers(0, 20))) for task in sources),
            )
        )
    return ListProblem(
        tasks=tuple(tasks),
        lanes=draw(st.integers(1, lanes)),
        signal_ns=draw(st.integers(0, 20)),
    )


def without_costs(problem):
    """The problem with free hand-over, and no help."""
    tasks = tuple(
        replace(
            task,
            helped_ns=task.alone_ns,
            sources=tuple(Source(source.task, 0) for source in task.sources),
        )
        for task in problem.tasks
    )
    return replace(problem, tasks=tasks, signal_ns=0)


def every_order(problem):
    """Lists of all orders of the tasks, with whatever help."""
    count = len(problem.tasks)
    rows = product(permutations(range(count)), product((-1, 1), repeat=count))
    return np.array(list(rows), np.float64)


def shortest_ns(problem):
    """The least time of any schedule: every order that the sources allow, every choice of lanes.

    A task runs on one lane or on all together; a lane runs what it has in that order.
    """
    best_ns = None
    count = len(problem.tasks)
    for order in permutations(range(count)):
        place = {task: number for number, task in enumerate(order)}
        if any(place[s.task] > place[t] for t in order for s in problem.tasks[t].sources):
            continue
        for choice in product(range(2 * problem.lanes), repeat=count):
            free, ends = [0] * problem.lanes, {}
            for number in order:
                task, lane = problem.tasks[number], choice[number] % problem.lanes
                everywhere = choice[number] >= problem.lanes
                used = range(problem.lanes) if everywhere else [lane]
                begin, fetch = max(free[other] for other in used), dict.fromkeys(used, 0)
                for source, other in product(task.sources, used):
                    home, spread = (
                        choice[source.task] % problem.lanes,
                        choice[source.task] >= problem.lanes,
                    )
                    signal = 0 if home == other else problem.signal_ns
                    begin = max(begin, ends[source.task] + signal)
                    if spread:
                        fetch[other] += source.fetch_ns * (problem.lanes - 1) // problem.lanes
                    elif home != other:
                        fetch[other] += source.fetch_ns
                own = task.helped_ns if everywhere else task.alone_ns
                ends[number] = begin + max(fetch.values()) + own
                for other in used:
                    free[other] = ends[number]
            length = max(ends.values(), default=0)
            best_ns = length if best_ns is None else min(best_ns, length)
    return best_ns


@given(problem=problems(), due=st.lists(st.integers(0, 200)), seed=st.integers(0, 2**32))
def test_both_decoders_agree(problem, due, seed):
    tasks = [replace(task, due_ns=until) for task, until in zip(problem.tasks, due, strict=False)]
    problem = replace(problem, tasks=(*tasks, *problem.tasks[len(tasks) :]))
    keys = np.random.default_rng(seed).integers(-4, 4, (5, 2, len(problem.tasks))).astype(float)
    python, native = (decoder(problem) for decoder in DECODERS)
    assert python.lengths_ns(keys).tolist() == native.lengths_ns(keys).tolist()
    for row in keys:
        assert python.timeline(row) == native.timeline(row)


@given(problem=problems(), seed=st.integers(0, 2**32))
def test_timelines_are_legal(problem, seed):
    keys = np.random.default_rng(seed).normal(size=(2, len(problem.tasks)))
    decoder = make_list_decoder(problem)
    timeline = decoder.timeline(keys)
    assert decoder.lengths_ns(keys[np.newaxis]).tolist() == [max(timeline.ends_ns, default=0)]
    assert max(timeline.ends_ns, default=0) >= lower_bound_ns(problem)
    assert sorted(timeline.order) == list(range(len(problem.tasks)))
    busy = [[] for _ in range(problem.lanes)]
    for number, task in enumerate(problem.tasks):
        start_ns, end_ns = timeline.starts_ns[number], timeline.ends_ns[number]
        home = timeline.homes[number]
        together = timeline.helped[number]
        lanes = range(problem.lanes) if together else [home]
        fetches_ns = []
        for lane in lanes:
            busy[lane].append((start_ns, end_ns))
            fetch_ns = 0
            for source in task.sources:
                here = timeline.homes[source.task] == lane
                known_ns = timeline.ends_ns[source.task] + (0 if here else problem.signal_ns)
                assert start_ns >= known_ns
                if timeline.helped[source.task]:
                    fetch_ns += source.fetch_ns * (problem.lanes - 1) // problem.lanes
                elif not here:
                    fetch_ns += source.fetch_ns
            fetches_ns.append(fetch_ns)
        assert not together or keys[1, number] > 0
        own_ns = task.helped_ns if together else task.alone_ns
        assert end_ns - start_ns == max(fetches_ns) + own_ns
    for spans in busy:
        spans.sort()
        assert all(after[0] >= before[1] for before, after in pairwise(spans))


@given(problem=problems(most=4, lanes=2))
def test_no_list_beats_brute_force(problem):
    if not problem.tasks:
        return
    lists_ns = make_list_decoder(problem).lengths_ns(every_order(problem))
    assert lower_bound_ns(problem) <= shortest_ns(problem) <= lists_ns.min()


@given(problem=problems(most=4, lanes=2).map(without_costs))
def test_some_list_is_the_best_where_handing_over_is_free(problem):
    """Tasks in the order of their starts in any schedule end no later as a list."""
    if not problem.tasks:
        return
    lists_ns = make_list_decoder(problem).lengths_ns(every_order(problem))
    assert lists_ns.min() == shortest_ns(problem)


@pytest.mark.parametrize("make", DECODERS)
def test_a_fork_of_two_by_hand(make):
    """Task 1 stays where its source is; task 2 fetches, on the other lane, and that is sooner."""
    fork = ListProblem(
        tasks=(
            ListTask(alone_ns=10, helped_ns=10, sources=()),
            ListTask(alone_ns=30, helped_ns=30, sources=(Source(0, 5),)),
            ListTask(alone_ns=20, helped_ns=20, sources=(Source(0, 5),)),
        ),
        lanes=2,
        signal_ns=2,
    )
    timeline = make(fork).timeline(np.array([[0, 2, 1], [1, 1, 1]], float))
    assert timeline.order == (0, 1, 2)
    assert timeline.homes == (0, 0, 1)
    assert timeline.starts_ns == (0, 10, 12)
    assert timeline.ends_ns == (10, 40, 37)
    assert lower_bound_ns(fork) == 40
    assert fork.upward_ranks().tolist() == [47, 30, 20]


@pytest.mark.parametrize("make", DECODERS)
def test_a_list_counts_as_longer_where_its_latest_task_is_late(make):
    tasks = tuple(
        ListTask(alone_ns=10, helped_ns=10, sources=(), due_ns=until) for until in (100, 5, 8)
    )
    decoder = make(ListProblem(tasks=tasks, lanes=1, signal_ns=0))
    rows = np.array([[[2, 1, 0], [0, 0, 0]], [[0, 1, 2], [0, 0, 0]]], float)
    assert decoder.lengths_ns(rows).tolist() == [30 + LATE * (30 - 8), 30 + LATE * (20 - 5)]
    alone = make(ListProblem(tasks=tasks[:1], lanes=1, signal_ns=0))
    assert alone.lengths_ns(rows[:1, :, :1]).tolist() == [10]


def test_what_is_behind_a_task_is_due_with_it():
    chain = ListProblem(
        tasks=(
            ListTask(alone_ns=1, helped_ns=1, sources=()),
            ListTask(alone_ns=1, helped_ns=1, sources=(Source(0, 0),), due_ns=7),
            ListTask(alone_ns=1, helped_ns=1, sources=(Source(0, 0),)),
        ),
        lanes=1,
        signal_ns=0,
    )
    assert chain.is_due
    assert chain.latest_ns().tolist() == [7, 7, NEVER_DUE]


@pytest.mark.parametrize("make", DECODERS)
def test_idle_lanes_help_where_that_is_sooner(make):
    """What the first wrote lies on both lanes, half of it on each."""
    tasks = (
        ListTask(alone_ns=100, helped_ns=55, sources=()),
        ListTask(alone_ns=100, helped_ns=55, sources=(Source(0, 8),)),
    )
    decoder = make(ListProblem(tasks=tasks, lanes=2, signal_ns=1))
    together, apart, late = (
        decoder.timeline(np.array([[0, 0], row], float)) for row in ([1, 1], [-1, -1], [-1, 1])
    )
    assert (together.ends_ns, together.helped) == ((55, 55 + 1 + 4 + 55), (True, True))
    assert (apart.ends_ns, apart.helped) == ((100, 200), (False, False))
    assert (late.ends_ns, late.helped) == ((100, 100 + 1 + 8 + 55), (False, True))
