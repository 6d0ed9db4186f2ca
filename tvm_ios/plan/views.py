"""Decision which tensors share a buffer because one is a view of the other. No TVM here.

A reshape always aliases. A slice or a concatenation does where it is legal: the piece begins on an
aligned byte, nobody outside the plan owns the memory, and a tensor lies in at most one larger one.
A concatenation of pieces that already lie one after another, such as slices of a merged
convolution, is a view of the tensor they are slices of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.errors import PlanError
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.kernel_graph import GraphOperator, KernelGraph
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.plan.plan import ALIGNMENT_BYTES

__all__ = ["Aliasing", "resolve_views"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aliasing:
    """Places of all tensors, and the operators that need no kernel any more."""

    location: tuple[tuple[int, int], ...]
    """Buffer (the tensor that owns it) and byte offset of every tensor."""
    dropped: frozenset[int]
    """Operators that need no launch."""


def resolve_views(graph: KernelGraph, views: Sequence[SliceView | ConcatView | None]) -> Aliasing:
    """Aliasing with every legal view taken, in operator order, of one opportunity an operator."""
    resolver = _Resolver(graph)
    dropped = set()
    for index, (operator, view) in enumerate(zip(graph.operators, views, strict=True)):
        if operator.kernel is None:
            resolver.alias(operator.outputs[0], operator.inputs[0], 0)
            dropped.add(index)
        elif isinstance(view, SliceView):
            if resolver.take_slice(operator, view):
                dropped.add(index)
        elif isinstance(view, ConcatView) and resolver.take_concat(operator, view):
            dropped.add(index)
    return Aliasing(location=tuple(resolver.location), dropped=frozenset(dropped))


class _Resolver:
    """Locations under construction: at first every tensor owns a buffer of its own."""

    def __init__(self, graph: KernelGraph) -> None:
        self.location = [(tensor, 0) for tensor in range(len(graph.tensors))]
        self._size = [math.prod(t.shape) * dtype_bytes(t.dtype) for t in graph.tensors]
        self._members = [[tensor] for tensor in range(len(graph.tensors))]
        self._external = {tensor for _, tensor in graph.inputs}
        self._pinned = _pinned_tensors(graph)

    def alias(self, tensor: int, into: int, byte_offset: int) -> None:
        """Put the buffer that `tensor` owns into the buffer of another tensor."""
        owner, base = self.location[into]
        for member in self._members[tensor]:
            self.location[member] = (owner, base + byte_offset + self.location[member][1])
        self._members[owner] += self._members[tensor]
        self._members[tensor] = []

    def take_slice(self, operator: GraphOperator, view: SliceView) -> bool:
        (source,), (piece,) = operator.inputs, operator.outputs
        if view.byte_offset < 0 or view.byte_offset + self._size[piece] > self._size[source]:
            raise PlanError(
                f"operator {operator.name!r}: a slice of {self._size[piece]} bytes at byte "
                f"{view.byte_offset} does not lie in its input of {self._size[source]} bytes; "
                "drop the view"
            )
        owner, base = self.location[source]
        legal = (
            (base + view.byte_offset) % ALIGNMENT_BYTES == 0
            and owner not in self._external
            and piece not in self._pinned
        )
        if legal:
            self.alias(piece, source, view.byte_offset)
        return legal

    def take_concat(self, operator: GraphOperator, view: ConcatView) -> bool:
        (whole,) = operator.outputs
        if len(view.byte_offsets) != len(operator.inputs):
            return False  # TVM passes equal arguments once
        end = 0
        for source, offset in zip(operator.inputs, view.byte_offsets, strict=True):
            if offset != end:
                break
            end += self._size[source]
        if end != self._size[whole]:
            raise PlanError(
                f"operator {operator.name!r}: inputs of "
                f"{[self._size[source] for source in operator.inputs]} bytes at bytes "
                f"{list(view.byte_offsets)} do not tile its output of {self._size[whole]} bytes; "
                "drop the view"
            )
        if self._in_place(operator, view):
            self.alias(whole, *self.location[operator.inputs[0]])
            return True
        legal = (
            # A tensor cannot lie in two places of the whole.
            len(set(operator.inputs)) == len(operator.inputs)
            and all(offset % ALIGNMENT_BYTES == 0 for offset in view.byte_offsets)
            and all(self._movable(source) for source in operator.inputs)
        )
        if legal:
            for source, offset in zip(operator.inputs, view.byte_offsets, strict=True):
                self.alias(source, whole, offset)
        return legal

    def _in_place(self, operator: GraphOperator, view: ConcatView) -> bool:
        """True if the pieces are slices of one buffer and lie in it as they would in the whole."""
        (owner, base), *_ = places = [self.location[source] for source in operator.inputs]
        return (
            owner not in self._external
            and base % ALIGNMENT_BYTES == 0
            and operator.outputs[0] not in self._pinned
            and all(
                place == (owner, base + offset) and source != owner
                for source, place, offset in zip(
                    operator.inputs, places, view.byte_offsets, strict=True
                )
            )
        )

    def _movable(self, tensor: int) -> bool:
        """True if the tensor owns its buffer and nobody outside the plan sees that buffer."""
        return (
            self.location[tensor] == (tensor, 0)
            and tensor not in self._external
            and not any(member in self._pinned for member in self._members[tensor])
        )


def _pinned_tensors(graph: KernelGraph) -> set[int]:
    """Outputs of a network, and tensors that a chain of reshapes turns into one."""
    pinned = set(graph.outputs)
    for operator in reversed(graph.operators):
        if operator.kernel is None and operator.outputs[0] in pinned:
            pinned.add(operator.inputs[0])
    return pinned
