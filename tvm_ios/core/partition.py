"""Cuts an operator graph into schedule blocks, which the search solves one by one.

A block ends where a single operator separates all that comes before it from all that comes after
it; no stage can usefully cross such an operator. What is still too long or too wide for the
dynamic programme is split further, which may cost some of the optimum, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.errors import OptionError

__all__ = ["Partition", "ScheduleBlock", "order_ideals", "partition_graph", "split_operators"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBlock:
    """Operators scheduled together; blocks run one after another."""

    operators: tuple[int, ...]
    """Graph indices, ascending."""
    barrier: bool = False
    """True for one operator that has to run in a stage of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Blocks in an order that keeps every dependency, and what was done to get them."""

    blocks: tuple[ScheduleBlock, ...]
    notes: tuple[str, ...] = ()


def partition_graph(
    graph: OperatorGraph, *, max_block_size: int = 64, max_block_states: int = 10_000
) -> Partition:
    """Find the schedule blocks of a graph.

    Takes time and memory in O(operators x max_block_states), whatever the graph.

    Parameters
    ----------
    graph
        Any operator graph; barriers become blocks of their own.
    max_block_size
        Most operators in a block.
    max_block_states
        Most nonempty predecessor-closed sets in a block.

    Raises
    ------
    OptionError
        If a limit is below one operator or two states.
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
                    for narrow in _cut(block, predecessors, allow_loose_ends=True)
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
    """Cut ascending operators into consecutive pieces that keep both limits.

    Every piece is as long as it can be.

    Parameters
    ----------
    operators
        Graph indices, ascending, hence in topological order.
    predecessors
        Direct predecessors of every operator of the graph, as bit masks.
    max_block_size, max_block_states
        As in :func:`partition_graph`.

    Raises
    ------
    OptionError
        If a limit is below one operator or two states.
    """
    if max_block_size < 1 or max_block_states < 2:
        raise OptionError(
            f"max_block_size is {max_block_size} and max_block_states is {max_block_states}; "
            "give at least 1 and 2"
        )
    pieces: list[tuple[int, ...]] = []
    piece: list[int] = []
    ideals = [0]
    inside = 0
    for operator in operators:
        needed = predecessors[operator] & inside
        grown = [ideal | 1 << operator for ideal in ideals if needed & ~ideal == 0]
        if len(piece) == max_block_size or len(ideals) + len(grown) - 1 > max_block_states:
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

    A subset is smaller as a number than the set that holds it, so this is an order in which a
    dynamic programme may visit the states.

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

    The phase of an operator is the number of barriers on the worst way to it, so operators of one
    phase can run together between the barriers of the phase before and those of their own.
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


def _cut(
    segment: Sequence[int], predecessors: Sequence[int], *, allow_loose_ends: bool = False
) -> list[tuple[int, ...]]:
    """Split a segment after every operator that all earlier ones precede and all later ones follow.

    All later ones follow it if none reads past it and none starts without it; all earlier ones
    precede it if each of them has a reader. With loose ends allowed, operators that nobody reads
    and operators that read nobody do not stand in the way of a cut.
    """
    inside = 0
    for operator in segment:
        inside |= 1 << operator
    last_reader = dict.fromkeys(segment, -1)
    last_source = 0
    for position, operator in enumerate(segment):
        reads = predecessors[operator] & inside
        if not reads:
            last_source = position
        while reads:
            low = reads & -reads
            last_reader[low.bit_length() - 1] = position
            reads ^= low
    blocks: list[tuple[int, ...]] = []
    start = 0
    reach = -1
    for position, operator in enumerate(segment):
        if reach <= position and (position >= last_source or allow_loose_ends):
            blocks.append(tuple(segment[start : position + 1]))
            start = position + 1
        unread = last_reader[operator] < 0
        reach = max(
            reach, len(segment) if unread and not allow_loose_ends else last_reader[operator]
        )
    if start < len(segment):
        blocks.append(tuple(segment[start:]))
    return blocks
