"""Endings: the sets of operators that may run last, from which the search builds stages.

A state is the set of operators still to be scheduled, closed under predecessors. An ending of a
state is a subset closed under successors within it; its weakly connected components are the groups
of a concurrent stage (Ding et al., MLSys 2021, section 4.1). Sets are bit masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

__all__ = [
    "EndingRule",
    "admissible_groups",
    "components",
    "descendant_masks",
    "disjoint_unions",
    "sink_mask",
]


class EndingRule(Enum):
    """Rule that says which endings a search tries."""

    COMPLETE = "complete"
    """Every successor-closed subset (the definition); groups are its weakly connected
    components."""
    PUBLISHED = "published"
    """Endings of the published code: every group is one operator with all its descendants."""


def descendant_masks(successors: Sequence[int]) -> list[int]:
    """Bit mask of each operator with its descendants, from successor masks in topological order."""
    descendants = [0] * len(successors)
    for index in range(len(successors) - 1, -1, -1):
        mask = 1 << index
        rest = successors[index]
        while rest:
            low = rest & -rest
            mask |= descendants[low.bit_length() - 1]
            rest ^= low
        descendants[index] = mask
    return descendants


def components(operators: int, neighbours: Sequence[int]) -> tuple[int, ...]:
    """Weakly connected components of a set, by lowest operator.

    ``neighbours`` has the direct predecessors and successors of every operator of the graph.
    """
    found = []
    while operators:
        component = 0
        frontier = operators & -operators
        while frontier:
            component |= frontier
            reached = 0
            while frontier:
                low = frontier & -frontier
                reached |= neighbours[low.bit_length() - 1]
                frontier ^= low
            frontier = reached & operators & ~component
        found.append(component)
        operators &= ~component
    return tuple(found)


def sink_mask(state: int, successors: Sequence[int]) -> int:
    """Operators of a state without a successor in it, as a bit mask."""
    sinks = 0
    rest = state
    while rest:
        low = rest & -rest
        if not successors[low.bit_length() - 1] & state:
            sinks |= low
        rest ^= low
    return sinks


def admissible_groups(
    state: int, descendants: Sequence[int], rule: EndingRule, max_group_size: int
) -> list[int]:
    """Groups that may stand in an ending of a state, ascending as numbers.

    A connected successor-closed set is a union of overlapping descendant sets. So unions grow from
    single descendant sets (:func:`descendant_masks`); a union over the limit cannot shrink again. A
    limit of 0 is none, and ``PUBLISHED`` forms no unions.
    """
    limit = max_group_size or state.bit_count()
    cones = []
    rest = state
    while rest:
        low = rest & -rest
        cone = descendants[low.bit_length() - 1] & state
        if cone.bit_count() <= limit:
            cones.append(cone)
        rest ^= low
    if rule is EndingRule.PUBLISHED:
        cones.sort()
        return cones
    groups = set(cones)
    frontier = cones
    while frontier:
        grown = []
        for group in frontier:
            for cone in cones:
                if group & cone:
                    union = group | cone
                    if union not in groups and union.bit_count() <= limit:
                        groups.add(union)
                        grown.append(union)
        frontier = grown
    return sorted(groups)


def disjoint_unions(groups: Sequence[int], max_num_groups: int) -> list[int]:
    """Unions of pairwise disjoint groups, each once, in depth-first order of the sequence.

    Disjoint groups of one state (:func:`admissible_groups`) are independent: an edge between them
    would put its head into the group of its tail, which is successor-closed. A limit of 0 is none.
    """
    unions: list[int] = []
    emit = unions.append

    def extend(used: int, candidates: Sequence[int], left: int) -> None:
        for position, group in enumerate(candidates, start=1):
            union = used | group
            emit(union)
            if left > 1:
                rest = [other for other in candidates[position:] if not other & group]
                if rest:
                    extend(union, rest, left - 1)

    extend(0, groups, max_num_groups or len(groups) or 1)
    return unions
