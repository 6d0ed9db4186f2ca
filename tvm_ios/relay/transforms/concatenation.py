"""Motion of element-wise operators from behind a concatenation to in front of it.

TVM fuses a concatenation with the activation or addition behind it into a kernel that reads and
writes everything once more. In front, the activation becomes part of each piece's kernel, and the
concatenation only lays pieces side by side, for which the memory plan needs no kernel
(:mod:`tvm_ios.relay.functions.views`). No bit of a result changes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import relay
from tvm.relay.op import OpPattern

from tvm_ios.plan.plan import ALIGNMENT_BYTES
from tvm_ios.relay.dataflow import (
    copy_call,
    fusion_pattern,
    graph_order,
    is_call_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute, type_bytes
from tvm_ios.relay.functions.shapes import shape_of

__all__ = [
    "are_views",
    "count_readers",
    "fuses_with_what_follows",
    "sink_into_concatenations",
]


def sink_into_concatenations(module: tvm.IRModule) -> tuple[tvm.IRModule, int]:
    """Module with element-wise operators moved in front of concatenations, and their number.

    Only they read the concatenation. Done where it saves memory traffic: pieces with at least half
    of the bytes must be computed by operators that it fuses with; where the pieces cannot be views,
    all pieces must. Layouts have been chosen before.
    """
    sunk = 0
    while True:
        main = module["main"]
        readers = count_readers(main.body)
        found = {
            call: sinking
            for call in graph_order(main.body)
            if isinstance(call, relay.Call) and (sinking := _find_sinking(call, readers))
        }
        if not found:
            return module, sunk
        sunk += len(found)
        # Once more, with types: what follows may now read the concatenation alone.
        module = with_body(module, rebuild(main.body, {}, partial(_sunk, found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sinking:
    """Plan of moving one call in front of the concatenation it reads."""

    position: int
    """Position of the concatenation among the call's arguments."""
    fuses: tuple[bool, ...]
    """Flags, one a piece: True if its producer fuses with the operator."""
    ranges: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """Begin and end of each piece, on every axis."""

    def apply(self, call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        """Concatenation that takes the place of the call."""
        whole = arguments[self.position]
        pieces = []
        for piece, (begin, end), fuses in zip(
            whole.args[0].fields, self.ranges, self.fuses, strict=True
        ):
            # What fuses with nothing is kept apart: fused with the concatenation it would make that
            # a kernel, and TVM would fuse it with `p + p` of a pooling, five times slower.
            operands = [
                (piece if fuses else relay.annotation.stop_fusion(piece))
                if position == self.position
                else relay.strided_slice(argument, begin, end)
                for position, argument in enumerate(arguments)
            ]
            made: relay.Expr = copy_call(call, operands)
            pieces.append(made if fuses else relay.annotation.stop_fusion(made))
        return copy_call(whole, [relay.Tuple(pieces)])


def _sunk(
    found: Mapping[relay.Call, _Sinking], call: relay.Call, arguments: list[relay.Expr]
) -> relay.Expr:
    sinking = found.get(call)
    return sinking.apply(call, arguments) if sinking else copy_call(call, arguments)


def _find_sinking(call: relay.Call, readers: Mapping[relay.Expr, int]) -> _Sinking | None:
    position = _concatenation_read(call, readers)
    if position is None:
        return None
    whole = call.args[position]
    pieces = list(whole.args[0].fields)
    shapes = [shape_of(piece) for piece in pieces]
    axis = int(call_attribute(whole, "axis", 0)) % len(shapes[0])
    edges = list(itertools.accumulate((shape[axis] for shape in shapes), initial=0))
    fuses = tuple(fuses_with_what_follows(piece, readers) for piece in pieces)
    if are_views(pieces, shapes, axis):
        sizes = [type_bytes(piece.checked_type) for piece in pieces]
        fusing = sum(size for size, fused in zip(sizes, fuses, strict=True) if fused)
        if 2 * fusing < sum(sizes):
            return None
    elif len(call.args) > 1 or not all(fuses):
        return None
    return _Sinking(
        position=position,
        fuses=fuses,
        ranges=tuple(
            (
                tuple(begin if a == axis else 0 for a in range(len(shape))),
                tuple(end if a == axis else extent for a, extent in enumerate(shape)),
            )
            for shape, (begin, end) in zip(shapes, itertools.pairwise(edges), strict=True)
        ),
    )


def _concatenation_read(call: relay.Call, readers: Mapping[relay.Expr, int]) -> int | None:
    """Index of an element-wise operator's argument that is a concatenation nobody else reads."""
    most = OpPattern.BROADCAST if len(call.args) > 1 else OpPattern.ELEMWISE
    if len(call.args) not in (1, 2) or fusion_pattern(call) > most:
        return None
    for position, argument in enumerate(call.args):
        if not is_call_of(argument, "concatenate") or readers[argument] != 1:
            continue
        if not isinstance(argument.args[0], relay.Tuple):
            continue
        shape = shape_of(argument)
        if shape_of(call) != shape:
            continue
        if all(_can_be_sliced(each, shape) for each in call.args):
            return position
    return None


def _can_be_sliced(operand: relay.Expr, shape: tuple[int, ...]) -> bool:
    """True if pieces of an operand are views: it is computed, and of the same shape."""
    return (
        isinstance(operand, relay.Call)
        and isinstance(operand.checked_type, relay.TensorType)
        and shape_of(operand) == shape
    )


def are_views(pieces: list[relay.Expr], shapes: list[tuple[int, ...]], axis: int) -> bool:
    """True if the pieces lie one after another, each on an aligned byte."""
    ends = itertools.accumulate(type_bytes(piece.checked_type) for piece in pieces)
    return (
        all(extent == 1 for extent in shapes[0][:axis])
        and len(set(pieces)) == len(pieces)
        and all(end % ALIGNMENT_BYTES == 0 for end in list(ends)[:-1])
    )


def fuses_with_what_follows(piece: relay.Expr, readers: Mapping[relay.Expr, int]) -> bool:
    """True for the result of a convolution or its like, or of a light tail behind one."""
    waiting = [piece]
    while waiting:
        expression = waiting.pop()
        if readers[expression] != 1:
            continue
        pattern = fusion_pattern(expression)
        if pattern == OpPattern.OUT_ELEMWISE_FUSABLE:
            return not is_call_of(expression, "nn.softmax")
        if pattern <= OpPattern.BROADCAST:
            waiting.extend(expression.args)
    return False


def count_readers(body: relay.Expr) -> Counter[relay.Expr]:
    """Number of times that each expression is read; the result counts as read."""
    readers: Counter[relay.Expr] = Counter([body])
    for expression in graph_order(body):
        if isinstance(expression, relay.Call):
            readers.update(expression.args)
        elif isinstance(expression, relay.Tuple):
            readers.update(expression.fields)
        elif isinstance(expression, relay.TupleGetItem):
            readers[expression.tuple_value] += 1
    return readers
