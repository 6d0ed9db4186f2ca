"""Effects of a merge stage on operators around it: which need a kernel now, and which no more.

At batch one a concatenation is usually free, since its inputs are written straight into its buffer.
The slices of a merged convolution lie in that convolution's buffer, so a concatenation of them and
others needs its kernel. A concatenation that the merged convolution computes needs none at any
batch size.

Nothing is guessed: the graph with the merge goes through the same decisions as a plan
(:mod:`tvm_ios.plan.views`). No TVM here, and nothing is compiled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_ios.core.merge_outputs import CALLER, MergeOutputs, merge_outputs
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.plan.schedule_places import ExtractedGraph
from tvm_ios.plan.views import resolve_views

__all__ = ["MergeEffects", "View", "merge_effects", "stage_outputs"]

View = SliceView | ConcatView | None
SLICE = "slice"
"""Name that stands for the kernel of a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEffects:
    """Operators of the unmerged graph that gain or lose a kernel, ascending."""

    added: tuple[int, ...] = ()
    """Operators that were views and need their kernels now."""
    removed: tuple[int, ...] = ()
    """Operators that had kernels and need none now."""
    copied: tuple[int, ...] = ()
    """Members of the merge whose slice needs a kernel."""


def stage_outputs(extraction: ExtractedGraph, members: Sequence[int]) -> MergeOutputs:
    """Tensors that a merge stage makes; members in the order of their channels."""
    readers: list[set[int]] = [set() for _ in extraction.graph.operators]
    for index, operator in enumerate(extraction.graph.operators):
        for predecessor in operator.predecessors:
            readers[predecessor].add(index)
    for index in extraction.outputs:
        readers[index].add(CALLER)
    return merge_outputs(members, extraction.joins, readers)


def merge_effects(
    graph: KernelGraph, views: Sequence[View], outputs: MergeOutputs, *, contiguous: bool
) -> MergeEffects:
    """Effects of one merge stage: the difference between a network's plans with and without it.

    The graph and its possible views are without merges. A slice of the merged convolution is one
    piece of memory if ``contiguous``.
    """
    merged = _merged_graph(graph, views, outputs, contiguous=contiguous)
    before = resolve_views(graph, views).dropped
    dropped = resolve_views(merged.graph, merged.views).dropped
    needed = {origin for position, origin in enumerate(merged.origins) if position not in dropped}
    others = set(range(len(graph.operators))) - set(outputs.members)
    return MergeEffects(
        added=tuple(sorted(others & needed & before)),
        removed=tuple(sorted(others - needed - before)),
        copied=tuple(index for index in sorted(outputs.members) if index in needed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergedGraph:
    """A graph with one merge in it."""

    graph: KernelGraph
    views: tuple[View, ...]
    origins: tuple[int | None, ...]
    """Operator of the unmerged graph for each operator; for a slice, its member; None for the
    merged convolution."""


def _merged_graph(
    graph: KernelGraph, views: Sequence[View], outputs: MergeOutputs, *, contiguous: bool
) -> _MergedGraph:
    members = outputs.members
    pieces = [graph.tensors[graph.operators[member].outputs[0]] for member in members]
    elements = [math.prod(piece.shape) for piece in pieces]
    begins = itertools.accumulate(elements[:-1], initial=0)
    begin_of = dict(zip(members, begins, strict=True))
    element_bytes = dtype_bytes(pieces[0].dtype)
    tensors = graph.tensors
    if outputs.whole is None:
        merged = len(tensors)
        tensors = (*tensors, GraphTensor((sum(elements),), pieces[0].dtype))
    else:
        (merged,) = graph.operators[outputs.whole].outputs
    rows: list[tuple[GraphOperator, View, int | None]] = []
    for index, (operator, view) in enumerate(zip(graph.operators, views, strict=True)):
        if index == min(members):
            rows.append((replace(operator, outputs=(merged,)), None, None))
        if index in outputs.sliced:
            piece = replace(operator, kernel=SLICE, inputs=(merged,))
            place = SliceView(begin_of[index] * element_bytes) if contiguous else None
            rows.append((piece, place, index))
        elif index not in members and index != outputs.whole:
            rows.append((operator, view, index))
    return _MergedGraph(
        graph=replace(graph, tensors=tensors, operators=tuple(row[0] for row in rows)),
        views=tuple(row[1] for row in rows),
        origins=tuple(row[2] for row in rows),
    )
