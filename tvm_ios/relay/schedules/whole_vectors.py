"""Marked loops of a kernel in whole vectors, and one shorter one for what is left over.

Goes between TVM's flattening of buffers and its vectorisation. A split in the schedule would leave
a condition in every vector where a loop is no multiple of it, which makes all of them scalar, and
would hide from TVM's simplifier that a reshaped element lies next to the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import tvm
from tvm import te, tir
from tvm.tir.stmt_functor import ir_transform, post_order_visit, substitute

from tvm_ios.kernels.loops import allocated, sequence, vector
from tvm_ios.relay.row_kernels.tensors import mentions
from tvm_ios.relay.schedules.patterns import LANES
from tvm_ios.relay.schedules.segments import segments_of, within_segment
from tvm_ios.relay.schedules.shuffled import in_pattern
from tvm_ios.relay.schedules.tiles import transposed_in_tiles

__all__ = ["mark", "whole_vectors"]

MARK = "tvm_ios_whole_vectors"
SUMS = 4
"""Vectors of partial sums in a long row, since an addition waits for the one before."""


def mark(stage: te.Stage, axis: tir.IterVar, period: int = 0) -> None:
    """Mark a loop in which memory is read side by side: it computes elements, or gathers one.

    With a period its reads repeat, further on each time.
    """
    stage.pragma(axis, MARK, period)


def _in_whole_vectors(function: tir.PrimFunc, _module: object, _context: object) -> tir.PrimFunc:
    """Function with marked loops in whole vectors; any other one is returned as it is."""
    marks: list[tir.Stmt] = []
    post_order_visit(function.body, lambda node: marks.append(node) if _is_mark(node) else None)
    if not marks:
        return function
    # Elements count from the begin of their memory now, and simplified they count one by one.
    plain = tir.transform.Simplify()(tvm.IRModule({"main": function}))["main"]
    return plain.with_body(ir_transform(plain.body, None, _finished, ["tir.AttrStmt"]))


def _is_mark(node: object) -> bool:
    return isinstance(node, tir.AttrStmt) and node.attr_key == f"pragma_{MARK}"


def _finished(statement: tir.AttrStmt) -> tir.Stmt | None:
    if not _is_mark(statement):
        return None
    loop = statement.body
    if not isinstance(loop, tir.For) or not isinstance(loop.extent, tir.IntImm):
        return loop
    if isinstance(loop.body, tir.For):
        return transposed_in_tiles(loop, loop.body)
    store = loop.body
    if isinstance(store, tir.BufferStore) and not any(
        mentions(index, loop.loop_var) for index in store.indices
    ):
        gathers = int(loop.extent) >= 2 * LANES and _gathers(store)
        return _gathered_in_vectors(loop, store) if gathers else loop
    period = int(statement.value)
    return (in_pattern(loop, period) if period else None) or _computed_in_vectors(loop)


def _computed_in_vectors(loop: tir.For) -> tir.Stmt:
    """Loop whose iterations compute elements that do not depend on each other."""
    variable = loop.loop_var
    segments = segments_of(loop.body, variable, int(loop.extent))
    bodies = [within_segment(loop.body, variable, each) for each in segments]
    parts = zip(bodies, segments, strict=True)
    return sequence([_segment_in_vectors(loop, body, *segment) for body, segment in parts])


def _segment_in_vectors(loop: tir.For, body: tir.Stmt, begin: int, end: int) -> tir.Stmt:
    """Iterations of a loop in whole vectors; the last one computes again what fills it.

    Not where each adds to an element, which must be done once.
    """
    whole, rest = divmod(end - begin, LANES)
    at, dtype = _at(loop, body), loop.loop_var.dtype
    parts = []
    if whole:
        chunk = _variable("chunk", loop)
        whole_vector = vector(LANES, lambda lane: at(begin + chunk * LANES + lane), dtype)
        parts.append(tir.For(chunk, 0, whole, loop.kind, whole_vector))
    if rest:
        last = LANES if whole and not _gathers_each(body) else rest
        parts.append(vector(last, lambda lane: at(end - last + lane), dtype))
    return sequence(parts)


def _gathers_each(body: tir.Stmt) -> bool:
    """True if what iterations store is made of what was there."""
    stores: list[tir.BufferStore] = []
    loads: list[tir.BufferLoad] = []

    def note(node: object) -> None:
        if isinstance(node, tir.BufferStore):
            stores.append(node)
        elif isinstance(node, tir.BufferLoad):
            loads.append(node)

    post_order_visit(body, note)
    return any(load.buffer.same_as(store.buffer) for load in loads for store in stores)


def _gathers(store: tir.BufferStore) -> bool:
    """True if a stored number is the one before combined with another, in whatever order."""
    value = store.value
    return (
        isinstance(value, tir.Add | tir.Mul | tir.Max | tir.Min)
        and isinstance(value.a, tir.BufferLoad)
        and value.a.buffer.same_as(store.buffer)
        and tvm.ir.structural_equal(value.a.indices, store.indices)
    )


def _gathered_in_vectors(loop: tir.For, store: tir.BufferStore) -> tir.Stmt:
    """Loop that gathers one number, as vectors of partial ones that are combined behind it."""
    extent, combine = int(loop.extent), type(store.value)
    lanes = LANES * SUMS if extent >= 4 * LANES * SUMS else LANES
    whole, rest = divmod(extent, lanes)
    # Of any other scope it would be allocated anew for each row.
    parts = tir.decl_buffer((lanes,), store.buffer.dtype, "parts", scope="global")
    at, dtype = _at(loop, store.value.b), loop.loop_var.dtype
    chunk, last = _variable("chunk", loop), _variable("last", loop)

    def combined(lane: tir.PrimExpr, value: tir.PrimExpr) -> tir.Stmt:
        return tir.BufferStore(parts, combine(tir.BufferLoad(parts, [lane]), value), [lane])

    def next_ones(lane: tir.PrimExpr) -> tir.Stmt:
        return combined(lane, at((chunk + 1) * lanes + lane))

    def second_half(half: int, lane: tir.PrimExpr) -> tir.Stmt:
        return combined(lane, tir.BufferLoad(parts, [lane + half]))

    steps = [vector(lanes, lambda lane: tir.BufferStore(parts, at(lane), [lane]), dtype)]
    if whole > 1:
        serial = tir.ForKind.SERIAL
        steps.append(tir.For(chunk, 0, whole - 1, serial, vector(lanes, next_ones, dtype)))
    steps += [vector(half, partial(second_half, half), dtype) for half in _halves(lanes)]
    total = combine(store.value.a, tir.BufferLoad(parts, [0]))
    steps.append(tir.BufferStore(store.buffer, total, store.indices))
    if rest:
        left = _at(loop, store)(whole * lanes + last)
        steps.append(tir.For(last, 0, rest, tir.ForKind.SERIAL, left))
    return allocated([parts], sequence(steps))


def _halves(lanes: int) -> list[int]:
    return [1 << power for power in reversed(range(lanes.bit_length() - 1))]


def _at(loop: tir.For, body: tir.Stmt | tir.PrimExpr) -> Callable[[tir.PrimExpr], tir.Stmt]:
    """Function from an index to a statement or expression of that iteration."""
    return lambda index: substitute(body, {loop.loop_var: index})


def _variable(name: str, loop: tir.For) -> tir.Var:
    return tir.Var(name, loop.loop_var.dtype)


whole_vectors = tir.transform.prim_func_pass(
    _in_whole_vectors, opt_level=0, name="tvm_ios.WholeVectors"
)
"""Pass that puts marked loops into whole vectors, and leaves functions without any as they are."""
