"""Matching of two operator graphs by structure, whatever their names and numbers.

Operators are matched by what they are and where they stand: colours of both graphs are refined
together (Weisfeiler and Leman, 1968), and the edges are checked at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from tvm_ios.core.graph import Operator, OperatorGraph

__all__ = ["matching"]

_LIKENESS: tuple[Callable[[Operator], Hashable], ...] = (
    lambda operator: operator.workload,
    lambda operator: (operator.kind, operator.flops),
    lambda operator: operator.kind,
)
"""Functions that say what two operators have in common, the strictest first. A workload names
layouts and the order of a sum; padding changes operations; another batch leaves the kind only."""


def matching(there: OperatorGraph, here: OperatorGraph) -> Sequence[int] | None:
    """Number here of each operator there; None where the structures differ.

    Takes some seconds where a thousand operators are mostly twins in another order, and
    milliseconds mostly.
    """
    found = (_matching(there, here, likeness) for likeness in _LIKENESS)
    return next((numbers for numbers in found if numbers is not None), None)


def _matching(
    there: OperatorGraph, here: OperatorGraph, likeness: Callable[[Operator], Hashable]
) -> Sequence[int] | None:
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
