"""A schedule block as bit masks over local indices, the form that the dynamic programme reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_ios.core.endings import descendant_masks
from tvm_ios.core.graph import Convolution, OperatorGraph, bits_of, mask_of
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.core.schedule import Strategy
from tvm_ios.search.options import SearchOptions

__all__ = ["BlockGraph", "make_block_graph", "mergeable_sets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGraph:
    """Operators 0..n-1 of a block and the edges among them, as bit masks."""

    operators: tuple[int, ...]
    """Graph index of every local index, ascending."""
    predecessors: tuple[int, ...]
    """Direct predecessors of each operator, as a bit mask."""
    successors: tuple[int, ...]
    """Direct successors of each operator, as a bit mask."""
    descendants: tuple[int, ...]
    """Bit mask of each operator together with everything that depends on it."""
    convolutions: tuple[Convolution | None, ...]

    def __len__(self) -> int:
        return len(self.operators)


def make_block_graph(graph: OperatorGraph, operators: Sequence[int]) -> BlockGraph:
    """The block graph of some operators of a graph; edges to and from other blocks are dropped."""
    local = {operator: index for index, operator in enumerate(operators)}
    predecessors = [
        mask_of(local[p] for p in graph.operators[operator].predecessors if p in local)
        for operator in operators
    ]
    successors = [0] * len(predecessors)
    for index, mask in enumerate(predecessors):
        for predecessor in bits_of(mask):
            successors[predecessor] |= 1 << index
    return BlockGraph(
        operators=tuple(operators),
        predecessors=tuple(predecessors),
        successors=tuple(successors),
        descendants=tuple(descendant_masks(successors)),
        convolutions=tuple(graph.operators[operator].convolution for operator in operators),
    )


def mergeable_sets(block: BlockGraph, options: SearchOptions) -> list[int]:
    """Every set of two or more independent convolutions that may merge, ascending as numbers.

    Empty where the options leave out merging. Only convolutions of the same operand are combined,
    none of which depends on another, so there are at most as many sets as the block has states.
    """
    if Strategy.MERGE not in options.strategies:
        return []
    siblings: dict[str, list[int]] = {}
    for index, convolution in enumerate(block.convolutions):
        # With itself: what is refused here would be refused with any other.
        if convolution is not None and why_not_merge([convolution, convolution]) is None:
            siblings.setdefault(convolution.operand, []).append(index)
    found = []
    for members in siblings.values():
        for mask in _antichains(members, block):
            chosen = [block.convolutions[index] for index in bits_of(mask)]
            reason = why_not_merge(
                chosen, centred=options.centred_merges, pad_kernels=options.pad_merged_kernels
            )
            if reason is None:
                found.append(mask)
    return sorted(found)


def _antichains(members: Sequence[int], block: BlockGraph) -> Iterator[int]:
    """Subsets of members in which no operator depends on another."""
    chosen = [0]
    for index in members:
        grown = [
            mask | 1 << index
            for mask in chosen
            if not any(block.descendants[other] >> index & 1 for other in bits_of(mask))
        ]
        yield from grown
        chosen += grown
