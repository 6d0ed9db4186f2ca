"""Transfer of a schedule to another graph of equal structure, whatever its names and numbers.

Another importer, another target or another width of a network may number operators otherwise, or
give them other workloads. Operators are matched by what they are and where they stand: colours of
both graphs are refined together (Weisfeiler and Leman, 1968), and the edges are checked at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage

__all__ = ["transferred"]

_LIKENESS: tuple[Callable[[Operator], Hashable], ...] = (
    lambda operator: operator.workload,
    lambda operator: (operator.kind, operator.flops),
    lambda operator: operator.kind,
)
"""Functions that say what two operators have in common, the strictest first. A workload names
layouts and the order of a sum; padding changes operations; another batch leaves the kind only."""


def transferred(
    schedule: InterOpSchedule, there: OperatorGraph, here: OperatorGraph
) -> InterOpSchedule | None:
    """Schedule of one graph for another one; None where their structures differ.

    It may break rules that depend on shapes, such as that of merges: verify it. Takes some seconds
    where a thousand operators are mostly twins in another order, and milliseconds mostly.
    """
    for likeness in _LIKENESS:
        numbers = _matching(there, here, likeness)
        if numbers is not None:
            return _renumbered(schedule, numbers, here)
    return None


def _matching(
    there: OperatorGraph, here: OperatorGraph, likeness: Callable[[Operator], Hashable]
) -> Sequence[int] | None:
    """Number here of each operator there; None where no two operators fit all others."""
    graphs = (there, here)
    labels: list[list[Hashable]] = [[likeness(each) for each in g.operators] for g in graphs]
    if Counter(labels[0]) != Counter(labels[1]):
        return None
    as_they_are = range(len(there))
    if labels[0] == labels[1] and _edges_fit(there, here, as_they_are):
        return as_they_are
    while True:
        ours, theirs = colours = _refined(graphs, labels)
        if sorted(ours) != sorted(theirs):
            return None
        counts = Counter(ours)
        tied = next((colour for colour in ours if counts[colour] > 1), None)
        if tied is None:
            break
        # Operators of one colour are equal but for their place, so any two of them may be a pair.
        labels = [list[Hashable](each) for each in colours]
        for row in labels:
            row[row.index(tied)] = -1
    place = {colour: number for number, colour in enumerate(theirs)}
    numbers = [place[colour] for colour in ours]
    return numbers if _edges_fit(there, here, numbers) else None


def _refined(
    graphs: tuple[OperatorGraph, OperatorGraph], labels: Sequence[Sequence[Hashable]]
) -> tuple[list[int], list[int]]:
    """Colours of both graphs' operators: equal labels with equal neighbours, near and far."""
    classes = 0
    while True:
        ids: dict[Hashable, int] = {}
        ours, theirs = (_swept(graph, row, ids) for graph, row in zip(graphs, labels, strict=True))
        if len({*ours, *theirs}) == classes:
            return ours, theirs
        classes, labels = len({*ours, *theirs}), (ours, theirs)


def _swept(graph: OperatorGraph, labels: Sequence[Hashable], ids: dict[Hashable, int]) -> list[int]:
    """Colours after a sweep down the graph and one up, so that each knows all before and behind."""
    down: list[int] = []
    for label, operator in zip(labels, graph.operators, strict=True):
        before = tuple(sorted(down[index] for index in operator.predecessors))
        down.append(ids.setdefault((label, before), len(ids)))
    up, readers = list(down), [list[int]() for _ in down]
    for index in reversed(range(len(down))):
        behind = tuple(sorted(readers[index]))
        up[index] = ids.setdefault(("up", down[index], behind), len(ids))
        for predecessor in graph.operators[index].predecessors:
            readers[predecessor].append(up[index])
    return up


def _edges_fit(there: OperatorGraph, here: OperatorGraph, numbers: Sequence[int]) -> bool:
    return all(
        here.operators[number].predecessors
        == tuple(sorted(numbers[index] for index in operator.predecessors))
        for number, operator in zip(numbers, there.operators, strict=True)
    )


def _renumbered(
    schedule: InterOpSchedule, numbers: Sequence[int], here: OperatorGraph
) -> InterOpSchedule:
    def moved(operators: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(numbers[index] for index in operators))

    def in_place(values: Sequence[int]) -> tuple[int, ...]:
        by_number = dict(zip(numbers, values, strict=False))
        return tuple(by_number[number] for number in range(len(values)))

    rows = schedule.libraries
    return replace(
        schedule,
        graph_name=here.name,
        graph_fingerprint=here.fingerprint(),
        operator_names=tuple(operator.name for operator in here.operators),
        stages=tuple(
            Stage(tuple(tuple(numbers[i] for i in group) for group in stage.groups), stage.strategy)
            for stage in schedule.stages
        ),
        operator_ns=in_place(schedule.operator_ns),
        unsplit=moved(schedule.unsplit),
        home_lanes=in_place(schedule.home_lanes),
        libraries=rows and tuple(LibraryOperators(r.library, moved(r.operators)) for r in rows),
    )
