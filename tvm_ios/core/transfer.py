"""Transfer of a schedule to another graph of equal structure, whatever its names and numbers.

Another importer, target or width of a network may number operators otherwise, give them other
workloads, and move data between them otherwise: TVM lays out anew where it likes another layout.
So operators that only move the data of one other are left out of the comparison where need be.
Others are matched by what they are and where they stand: colours of both graphs are refined
together (Weisfeiler and Leman, 1968), and the edges are checked at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage, Strategy

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

    Moves that are only here run right behind what they move. The schedule may break rules that
    depend on shapes, such as that of merges: verify it.
    """
    found = _matching(there, here)
    if found is not None:
        return _renumbered(schedule, dict(enumerate(found)), here)
    (ours, places_there), (others, places_here) = _without_moves(there), _without_moves(here)
    found = _matching(ours, others)
    if found is None:
        return None
    numbers = {places_there[index]: places_here[number] for index, number in enumerate(found)}
    return _renumbered(schedule, numbers, here)


def _is_move(operator: Operator) -> bool:
    return operator.schedulable and not operator.flops and len(operator.predecessors) == 1


def _without_moves(graph: OperatorGraph) -> tuple[OperatorGraph, Sequence[int]]:
    """Graph without operators that only move what one other makes, and the numbers of the rest."""
    places: list[int] = []
    maker: list[int] = []
    operators: list[Operator] = []
    for index, operator in enumerate(graph.operators):
        if _is_move(operator):
            maker.append(maker[operator.predecessors[0]])
            continue
        maker.append(len(places))
        places.append(index)
        read = tuple(sorted({maker[each] for each in operator.predecessors}))
        operators.append(replace(operator, predecessors=read))
    return OperatorGraph(graph.name, tuple(operators)), places


def _renumbered(
    schedule: InterOpSchedule, numbers: Mapping[int, int], here: OperatorGraph
) -> InterOpSchedule:
    """Schedule for a graph, by the numbers there of operators here; the others are moves."""
    places = {number: index for index, number in numbers.items()}
    origins: list[int] = []
    for number, operator in enumerate(here.operators):
        is_placed = number in places
        origins.append(number if is_placed else origins[operator.predecessors[0]])
    moves: dict[int, list[int]] = {}
    for number, origin in enumerate(origins):
        if number != origin:
            moves.setdefault(origin, []).append(number)

    def moved(operators: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(numbers[index] for index in operators if index in numbers))

    times, homes, rows = schedule.operator_ns, schedule.home_lanes, schedule.libraries
    return replace(
        schedule,
        graph_name=here.name,
        graph_fingerprint=here.fingerprint(),
        operator_names=tuple(operator.name for operator in here.operators),
        stages=tuple(_stages(schedule.stages, numbers, moves, here)),
        operator_ns=tuple(times[places[n]] if n in places else 0 for n in range(len(here)))
        if times
        else (),
        unsplit=moved(schedule.unsplit),
        home_lanes=tuple(homes[places[origin]] for origin in origins) if homes else (),
        low=schedule.low
        and LowPrecision(results=moved(schedule.low.results), weights=moved(schedule.low.weights)),
        libraries=rows and tuple(LibraryOperators(r.library, moved(r.operators)) for r in rows),
    )


def _stages(
    stages: Sequence[Stage],
    numbers: Mapping[int, int],
    moves: Mapping[int, Sequence[int]],
    here: OperatorGraph,
) -> Iterator[Stage]:
    """Stages with the numbers of here, each move behind its maker, or behind its maker's stage."""
    for stage in stages:
        all_groups = (tuple(numbers[i] for i in group if i in numbers) for group in stage.groups)
        groups = tuple(group for group in all_groups if group)
        members = [number for group in groups for number in group]
        if stage.strategy is Strategy.MERGE or not all(
            here.operators[n].schedulable for n in members
        ):
            # Neither a merge nor a barrier shares its stage.
            yield Stage(groups, stage.strategy)
            yield from (Stage((tuple(moves[n]),)) for n in members if n in moves)
        elif groups:
            with_moves = (
                tuple(each for number in group for each in (number, *moves.get(number, ())))
                for group in groups
            )
            yield Stage(tuple(with_moves), stage.strategy)


def _matching(there: OperatorGraph, here: OperatorGraph) -> Sequence[int] | None:
    """Number here of each operator there; None where the structures differ.

    Takes some seconds where a thousand operators are mostly twins in another order, and
    milliseconds mostly.
    """
    found = (_alike(there, here, likeness) for likeness in _LIKENESS)
    return next((numbers for numbers in found if numbers is not None), None)


def _alike(
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
