"""Sums along rows whose lengths no vector divides, and places of their largest or least elements.

Goes behind the loops, where a marked loop gathers one number, or a place and a number. It becomes
vectors of partial results, whose halves are combined, and a loop over what is left of a sum.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.places import place_in
from tvm_ios.relax.schedules.row_vectors import Row, halved, stored
from tvm_ios.relax.schedules.tiles import substituted

__all__ = ["LANES", "MARK", "with_gathered_vectors"]

MARK = "tvm_ios_gathered"
"""Annotation of a loop in which one number is gathered."""
LANES, MOST_LANES = 16, 64
"""Partial results, and iterations of a loop that is worth them."""
COMBINERS = (tirx.Add, tirx.Max, tirx.Min)


def with_gathered_vectors(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel whose marked loops are vectors of partial results."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _changed), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _changed(loop: tirx.For) -> tirx.Stmt:
    if MARK not in loop.annotations:
        return loop
    block = loop.body.block
    variables = [each.var for each in block.iter_vars]
    body = substituted(block.body, list(zip(variables, loop.body.iter_values, strict=True)))
    extent = int(loop.extent)
    row = Row(loop.loop_var, extent, MOST_LANES if extent >= 2 * MOST_LANES else LANES)
    if isinstance(body, tirx.BufferStore) and isinstance(body.value, COMBINERS):
        return _summed(row, body)
    plain = tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)
    return place_in(row, body) or plain


def _summed(row: Row, store: tirx.BufferStore) -> tirx.Stmt:
    """Vectors of partial sums, or maxima, or minima."""
    combine, added = type(store.value), store.value.b
    parts = row.vector(str(store.value.ty))
    target = tirx.BufferLoad(store.buffer, store.indices)

    def add(value: Value) -> tirx.Stmt:
        return tirx.BufferStore(store.buffer, combine(target, value), store.indices)

    def begin(lane: Value, place: Value) -> list[tirx.Stmt]:
        return stored(lane, (parts,), (row.at(added, place),))

    def go_on(lane: Value, place: Value) -> list[tirx.Stmt]:
        return stored(lane, (parts,), (combine(parts[lane], row.at(added, place)),))

    last, rest = tirx.Var("last", row.variable.ty.dtype), row.extent % row.lanes
    left = add(row.at(added, last + (row.extent - rest)))
    return tirx.SeqStmt(
        [
            tirx.AllocBuffer(parts),
            row.in_lanes(begin, 0),
            row.over(1, go_on),
            *halved(parts, row.lanes, combine),
            add(parts[0]),
            tirx.For(last, 0, rest, tirx.ForKind.SERIAL, left),
        ]
    )
