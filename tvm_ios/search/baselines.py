"""Schedules that need no prices: one operator after another, and the published greedy one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.errors import OptionError

__all__ = [
    "due_behind",
    "due_first_schedule",
    "greedy_schedule",
    "make_schedule",
    "sequential_schedule",
]


def sequential_schedule(graph: OperatorGraph) -> InterOpSchedule:
    """The schedule of one operator a stage, in graph order."""
    stages = tuple(Stage(((index,),)) for index in range(len(graph)))
    return make_schedule(graph, stages, "sequential")


def due_first_schedule(graph: OperatorGraph, due_ns: Mapping[int, int]) -> InterOpSchedule:
    """The schedule of one operator a stage, those that are due first with all that they need."""
    reads = [operator.predecessors for operator in graph.operators]
    latest_ns = due_behind([due_ns.get(index, math.inf) for index in range(len(graph))], reads)
    # What an operator reads is due no later, and stays before it where both are.
    order = sorted(range(len(graph)), key=latest_ns.__getitem__)
    return make_schedule(graph, tuple(Stage(((index,),)) for index in order), "due first")


def due_behind(due_ns: Sequence[float], reads: Sequence[Iterable[int]]) -> list[float]:
    """Least time until which each task, or one that reads from it, is due; sources come first."""
    latest_ns = list(due_ns)
    for number in range(len(latest_ns) - 1, -1, -1):
        for source in reads[number]:
            latest_ns[source] = min(latest_ns[source], latest_ns[number])
    return latest_ns


def greedy_schedule(graph: OperatorGraph, max_num_streams: int = 10) -> InterOpSchedule:
    """The published greedy schedule: every stage runs all ready operators, one operator a group.

    Ready operators beyond the number of streams wait at the front of the queue; newly ready ones
    join its end. Barriers run alone. The published code has 10 streams.

    Raises
    ------
    OptionError
        If ``max_num_streams`` is below 1.
    """
    if max_num_streams < 1:
        raise OptionError(f"max_num_streams is {max_num_streams}; give at least 1")
    readers: list[list[int]] = [[] for _ in graph.operators]
    for index, operator in enumerate(graph.operators):
        for predecessor in operator.predecessors:
            readers[predecessor].append(index)
    waiting = [len(operator.predecessors) for operator in graph.operators]
    stages = []
    queue = [index for index, count in enumerate(waiting) if count == 0]
    while queue:
        ordinary = [index for index in queue if graph.operators[index].schedulable]
        running = ordinary[:max_num_streams] or queue[:1]
        stages.append(Stage(tuple((index,) for index in running)))
        queue = [index for index in queue if index not in running]
        for index in running:
            for reader in readers[index]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    queue.append(reader)
    return make_schedule(graph, tuple(stages), "greedy")


def make_schedule(
    graph: OperatorGraph,
    stages: tuple[Stage, ...],
    scheduler: str,
    latency_ns: int | None = None,
    priced_by: str = "",
) -> InterOpSchedule:
    """A schedule of stages, with the operator names and fingerprint of their graph."""
    return InterOpSchedule(
        graph_name=graph.name,
        graph_fingerprint=graph.fingerprint(),
        operator_names=tuple(operator.name for operator in graph.operators),
        stages=stages,
        scheduler=scheduler,
        latency_ns=latency_ns,
        priced_by=priced_by,
    )
