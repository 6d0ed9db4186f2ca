"""Partition of an operator graph into schedule blocks, which the search solves one by one.

A block ends where a single operator separates all that comes before it from all that comes after
it; no stage can usefully cross such an operator. Segments that are still too long or too wide for
the dynamic programme are split further, with a note, which may cost some of the optimum: first into
what has no data in common, such as several models that were joined, which then run in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tvm_ios.core.graph import OperatorGraph, bits_of
from tvm_ios.errors import OptionError

__all__ = [
    "Partition",
    "ScheduleBlock",
    "connected",
    "order_ideals",
    "partition_graph",
    "split_operators",
]

_SPLIT_DIVISOR = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBlock:
    """Operators that are scheduled together; blocks run one after another."""

    operators: tuple[int, ...]
    """Graph indices, ascending."""
    barrier: bool = False
    """True for one operator that has to run in a stage of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Blocks in an order that keeps every dependency, and notes on how they were cut."""

    blocks: tuple[ScheduleBlock, ...]
    notes: tuple[str, ...] = ()


def partition_graph(
    graph: OperatorGraph, *, max_block_size: int = 64, max_block_states: int = 10_000
) -> Partition:
    """The schedule blocks of a graph; barriers become blocks of their own.

    The limits are those of :class:`~tvm_ios.search.options.SearchOptions`. Takes time and memory in
    O(operators x max_block_states), whatever the graph.
    """
    predecessors = graph.predecessor_masks()
    blocks: list[ScheduleBlock] = []
    notes: list[str] = []
    for segment, barrier in _segments(graph):
        if barrier:
            blocks.append(ScheduleBlock(operators=segment, barrier=True))
            continue
        for block in _cut(segment, predecessors):
            pieces = split_operators(
                block,
                predecessors,
                max_block_size=max_block_size,
                max_block_states=max_block_states,
            )
            if len(pieces) > 1:
                pieces = [
                    piece
                    for part in connected(block, predecessors)
                    for narrow in _cut(part, predecessors, allow_loose_ends=True)
                    for piece in split_operators(
                        narrow,
                        predecessors,
                        max_block_size=max_block_size,
                        max_block_states=max_block_states,
                    )
                ]
                notes.append(
                    f"block {graph.operators[block[0]].name} .. {graph.operators[block[-1]].name} "
                    f"with {len(block)} operators was split into {len(pieces)} (limits: "
                    f"{max_block_size} operators, {max_block_states} states); "
                    "stages across the splits were not tried"
                )
            blocks.extend(ScheduleBlock(operators=piece) for piece in pieces)
    return Partition(blocks=tuple(blocks), notes=tuple(notes))


def split_operators(
    operators: Sequence[int],
    predecessors: Sequence[int],
    *,
    max_block_size: int,
    max_block_states: int,
) -> list[tuple[int, ...]]:
    """Consecutive pieces of ascending operators that keep both limits.

    One piece if that keeps them; else every piece is as long as an eighth of the states allows.
    ``predecessors`` has the direct ones of every operator of the graph, as bit masks.
    """
    if max_block_size < 1 or max_block_states < 2:
        raise OptionError(
            f"max_block_size is {max_block_size} and max_block_states is {max_block_states}; "
            "give at least 1 and 2"
        )
    whole = _chunks(operators, predecessors, max_block_size, max_block_states)
    if len(whole) <= 1:
        return whole
    # The optimum is lost by any split, so pieces need not be as dear to solve as a whole block.
    states = max(2, max_block_states // _SPLIT_DIVISOR)
    return _chunks(operators, predecessors, max_block_size, states)


def _chunks(
    operators: Sequence[int], predecessors: Sequence[int], max_block_size: int, max_states: int
) -> list[tuple[int, ...]]:
    pieces: list[tuple[int, ...]] = []
    piece: list[int] = []
    ideals = [0]
    inside = 0
    for operator in operators:
        needed = predecessors[operator] & inside
        grown = [ideal | 1 << operator for ideal in ideals if needed & ~ideal == 0]
        # The empty set does not count as a state.
        if len(piece) == max_block_size or len(ideals) + len(grown) - 1 > max_states:
            pieces.append(tuple(piece))
            piece, ideals, inside, grown = [], [0], 0, [1 << operator]
        piece.append(operator)
        ideals += grown
        inside |= 1 << operator
    if piece:
        pieces.append(tuple(piece))
    return pieces


def order_ideals(predecessors: Sequence[int]) -> list[int]:
    """Every predecessor-closed set, the empty one included, ascending as numbers.

    A subset is a smaller number than its superset, so a dynamic programme may visit the states in
    this order.

    Examples
    --------
    >>> order_ideals([0, 0b1, 0b1])  # operator 0 feeds 1 and 2
    [0, 1, 3, 5, 7]
    """
    ideals = [0]
    for index, needed in enumerate(predecessors):
        ideals += [ideal | 1 << index for ideal in ideals if needed & ~ideal == 0]
    return ideals


def _segments(graph: OperatorGraph) -> list[tuple[tuple[int, ...], bool]]:
    """Runs of schedulable operators, and single barriers, in an order that keeps dependencies.

    The phase of an operator is the largest number of barriers on a way to it. Operators of one
    phase can run together, between the barriers of the phase before and their own.
    """
    phases: list[int] = []
    for operator in graph.operators:
        phases.append(
            max(
                (
                    phases[p] + (0 if graph.operators[p].schedulable else 1)
                    for p in operator.predecessors
                ),
                default=0,
            )
        )
    ordinary: dict[int, list[int]] = {}
    barriers: dict[int, list[int]] = {}
    for index, operator in enumerate(graph.operators):
        side = ordinary if operator.schedulable else barriers
        side.setdefault(phases[index], []).append(index)
    segments: list[tuple[tuple[int, ...], bool]] = []
    for phase in range(max(phases, default=-1) + 1):
        if phase in ordinary:
            segments.append((tuple(ordinary[phase]), False))
        segments.extend(((barrier,), True) for barrier in barriers.get(phase, ()))
    return segments


def connected(operators: Sequence[int], predecessors: Sequence[int]) -> list[tuple[int, ...]]:
    """Operators in sets without data in common, such as the parts of a joined network.

    ``predecessors`` has the direct ones of every operator of the graph, as bit masks.
    """
    joined: list[tuple[int, tuple[int, ...]]] = []
    for operator in operators:
        touched, members = 1 << operator, [operator]
        apart = []
        for mask, others in joined:
            if mask & predecessors[operator]:
                touched |= mask
                members += others
            else:
                apart.append((mask, others))
        joined = [*apart, (touched, tuple(members))]
    return sorted(tuple(sorted(members)) for _, members in joined)


def _cut(
    segment: Sequence[int], predecessors: Sequence[int], *, allow_loose_ends: bool = False
) -> list[tuple[int, ...]]:
    """Split a segment after every operator that all earlier ones precede and all later ones follow.

    With loose ends allowed, earlier ones that no later one depends on need not precede it, so an
    output in the middle of the network does not stand in the way of a cut.
    """
    position_of = {operator: position for position, operator in enumerate(segment)}
    ancestors: list[int] = []
    for operator in segment:
        above = 0
        for predecessor in bits_of(predecessors[operator]):
            if predecessor in position_of:
                before = position_of[predecessor]
                above |= ancestors[before] | 1 << before
        ancestors.append(above)
    cuts = []
    needed_by_all, needed_by_any = -1, 0
    for position in range(len(segment) - 1, -1, -1):
        unreached = ((1 << position) - 1) & ~ancestors[position]
        if needed_by_all >> position & 1 and not unreached & (
            needed_by_any if allow_loose_ends else -1
        ):
            cuts.append(position + 1)
        needed_by_all &= ancestors[position]
        needed_by_any |= ancestors[position]
    bounds = [0, *reversed(cuts)]
    if bounds[-1] < len(segment):
        bounds.append(len(segment))
    return [tuple(segment[begin:end]) for begin, end in pairwise(bounds)]
