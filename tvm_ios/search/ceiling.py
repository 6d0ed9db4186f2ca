"""Bounds on what scheduling between operators can gain, known before anything is compiled.

The bounds are those of Graham (1969): no schedule is shorter than the critical path, nor than the
work shared evenly by all lanes. Sequential order is no single lane here: an operator that is long
enough is split over all lanes, and so uses them already. What is left to gain is what splitting
loses, namely signals between lanes and data that lie in the cache of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.plan.lanes import HandOver
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.list_decoder import ListProblem, ListTask, make_list_decoder
from tvm_ios.search.list_schedule import OperatorTimes, list_problem
from tvm_ios.search.list_search import ListOptions, best_list

__all__ = ["Ceiling", "LaneCeiling", "ceiling_of", "most_gain"]

_QUICK = ListOptions(draws=200, moves=0)
"""Lists that are looked at: a bound needs none, and a search comes later."""
_MOST_MOVED_KB = 64
"""Kilobytes beyond which moving costs nothing more, since prefetchers follow."""
_CHAIN = 0.97
"""Share of the work on the critical path from which on a graph is a chain."""
_NEARLY_A_CHAIN = 0.85
LITTLE = 1.05
"""Gain below which scheduling is not worth its while: races tell apart no less on most machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCeiling:
    """Gains on some number of lanes, as times as fast as one operator after another."""

    lanes: int
    sequential_ns: int
    """Nanoseconds of one operator after another, each on as many lanes as make it faster."""
    at_most: float
    """Bound over sequential order: no schedule gains more."""
    reached: float
    """Gain of the best of a few lists over sequential order."""
    unsplit_at_most: float
    """Bound over sequential order where no operator is split, so that one lane works."""
    unsplit_reached: float
    """Gain of the best of a few lists over that, with no operator split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Work of a model, its critical path, and what scheduling can gain on some numbers of lanes."""

    operators: int
    """Number of operators that need a kernel."""
    flops: int
    memory_bytes: int
    work_ns: int
    """Nanoseconds of all operators on one lane."""
    critical_ns: int
    """Nanoseconds of the longest way through the graph."""
    rows: tuple[LaneCeiling, ...]

    @property
    def is_chain(self) -> bool:
        """True if next to everything lies on one way through the graph."""
        return self.critical_ns >= _CHAIN * self.work_ns

    def verdict(self, row: LaneCeiling) -> str:
        """Sentence on what to expect of scheduling on some number of lanes."""
        if self.is_chain:
            return "a chain: nothing to schedule, kernels only"
        if row.lanes == 1:
            return "one lane: nothing to schedule, kernels only"
        if row.at_most < LITTLE:
            nearly = self.critical_ns >= _NEARLY_A_CHAIN * self.work_ns
            why = "nearly a chain" if nearly else f"operators fill {row.lanes} lanes by themselves"
            return f"{why}: scheduling gains at most about {row.at_most:.2f} times, kernels count"
        return (
            f"scheduling on {row.lanes} lanes gains at most about {row.at_most:.2f} times; "
            f"a list reaches {row.reached:.2f}"
        )

    def line(self) -> str:
        """Verdict on the first number of lanes, with the work behind it."""
        return (
            f"{self.verdict(self.rows[0])} (by rough speeds: {self.operators} operators, "
            f"{self.work_ns / 1e6:.3g} ms of work, critical path {self.critical_ns / 1e6:.3g} ms)"
        )


def ceiling_of(
    graph: OperatorGraph,
    operator_ns: Sequence[int],
    lanes: Sequence[int],
    *,
    hand_over: HandOver,
    splits: bool,
) -> Ceiling:
    """Ceiling of a graph whose operators take that long on one lane.

    Parameters
    ----------
    operator_ns
        Nanoseconds of each operator on one lane; 0 where it needs no kernel.
    lanes
        Numbers of lanes, a row for each.
    splits
        True if idle lanes help with an operator, as cores do and streams do not.
    """
    rows = tuple(_row(graph, operator_ns, number, hand_over, splits=splits) for number in lanes)
    return Ceiling(
        operators=sum(ns > 0 for ns in operator_ns),
        flops=sum(operator.flops for operator in graph.operators),
        memory_bytes=sum(
            operator.memory_bytes
            for operator, ns in zip(graph.operators, operator_ns, strict=True)
            if ns
        ),
        work_ns=sum(operator_ns),
        critical_ns=_longest_way(
            operator_ns, [operator.predecessors for operator in graph.operators]
        ),
        rows=rows,
    )


def _row(
    graph: OperatorGraph,
    operator_ns: Sequence[int],
    lanes: int,
    hand_over: HandOver,
    *,
    splits: bool,
) -> LaneCeiling:
    unsplit = _problem(graph, operator_ns, lanes, hand_over)
    split = replace(unsplit, tasks=tuple(_split(task, unsplit) for task in unsplit.tasks))
    problem = split if splits and lanes > 1 else unsplit
    work_ns = sum(task.alone_ns for task in unsplit.tasks)
    sequential_ns, at_most = _bound(problem)
    return LaneCeiling(
        lanes=lanes,
        sequential_ns=sequential_ns,
        at_most=at_most,
        reached=max(1.0, sequential_ns / _list_ns(problem)),
        unsplit_at_most=_bound(unsplit)[1],
        unsplit_reached=max(1.0, work_ns / _list_ns(unsplit)),
    )


def _problem(
    graph: OperatorGraph, operator_ns: Sequence[int], lanes: int, hand_over: HandOver
) -> ListProblem:
    """Tasks to place, of which none is split."""
    _, problem = list_problem(
        graph,
        OperatorTimes(alone_ns=operator_ns, helped_ns=operator_ns),
        lanes=lanes,
        hand_over=hand_over,
        start=sequential_schedule(graph),
    )
    most_ns = _MOST_MOVED_KB * hand_over.fetch_ns_per_kb
    tasks = [
        replace(
            task,
            sources=tuple(
                replace(source, fetch_ns=min(source.fetch_ns, most_ns)) for source in task.sources
            ),
        )
        for task in problem.tasks
    ]
    return replace(problem, tasks=tuple(tasks))


def _split(task: ListTask, problem: ListProblem) -> ListTask:
    """A task that all lanes run together: one tells the others, and waits for them."""
    together_ns = task.alone_ns // problem.lanes + 2 * problem.signal_ns
    return replace(task, helped_ns=min(task.alone_ns, together_ns))


def _bound(problem: ListProblem) -> tuple[int, float]:
    """Time of one task after another, and the bound on what a schedule gains over it.

    A task on all lanes fetches of what each source made the share that other lanes have, at least.
    """
    lanes = problem.lanes
    least_ns = [
        min(
            task.alone_ns,
            task.helped_ns + sum(source.fetch_ns for source in task.sources) * (lanes - 1) // lanes,
        )
        for task in problem.tasks
    ]
    sources = [[source.task for source in task.sources] for task in problem.tasks]
    shared_ns = sum(task.alone_ns for task in problem.tasks) / lanes
    shortest_ns = max(_longest_way(least_ns, sources), shared_ns)
    sequential_ns = sum(least_ns)
    return sequential_ns, max(1.0, sequential_ns / max(1.0, shortest_ns))


def _list_ns(problem: ListProblem) -> int:
    """Length of the best of a few lists, in nanoseconds."""
    if not problem.tasks:
        return 1
    decoder = make_list_decoder(problem)
    return max(1, *decoder.timeline(best_list(problem, decoder, _QUICK)).ends_ns)


def most_gain(graph: OperatorGraph, times: OperatorTimes, *, lanes: int) -> float:
    """Bound on what a schedule without merges gains over sequential order, as times as fast.

    Operators take their measured times, and data move at once: so no schedule gains more.
    """
    pairs = list(zip(times.alone_ns, times.helped_ns, strict=True))
    least_ns = [min(pair) for pair in pairs]
    shared_ns = sum(min(alone_ns / lanes, helped_ns) for alone_ns, helped_ns in pairs)
    critical_ns = _longest_way(least_ns, [each.predecessors for each in graph.operators])
    return max(1.0, sum(least_ns) / max(1.0, shared_ns, critical_ns))


def _longest_way(costs_ns: Sequence[int], sources: Sequence[Sequence[int]]) -> int:
    """Longest way through a graph in a topological order, in nanoseconds."""
    ends_ns: list[int] = []
    for cost_ns, read in zip(costs_ns, sources, strict=True):
        ends_ns.append(cost_ns + max((ends_ns[source] for source in read), default=0))
    return max(ends_ns, default=0)
