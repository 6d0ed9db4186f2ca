"""Vectors along rows: of sums, of elements, and of places of the largest or least ones.

Goes behind the loops, for a marked loop and the rows that a loop in there goes over. Sums become
vectors of partial results, whose halves are combined. TVM's ``rfactor`` drops the condition of a
row that no vector divides, and keeps partial results in memory; its vectors with conditions are
single elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.resized_images.places import places_in
from tvm_ios.relax.schedules.row_vectors import Row, stored
from tvm_ios.relax.schedules.tiles import VECTOR, in_order, loads_of, substituted

__all__ = ["LEAST", "MARK", "Sum", "sums_of", "with_gathered_vectors"]

MARK = "tvm_ios_gathered"
"""Annotation of a loop along a row, in which there may be one over rows."""
LANES, MOST_VECTORS, LEAST = 4, 8, 8
"""Fewest partial results of a sum, most vector registers of all sums of a loop, and elements of the
shortest row that is summed in vectors."""
COMBINERS = (tirx.Add, tirx.Max, tirx.Min)


def with_gathered_vectors(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc:
    """Kernel whose marked loops are vectors, for registers of so many elements."""

    def changed(loop: tirx.For) -> tirx.Stmt:
        return _in_vectors(loop, lanes) if MARK in loop.annotations else loop

    body = tvm_ffi.structural_map(function.body, (tirx.For, changed), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _in_vectors(loop: tirx.For, lanes: int) -> tirx.Stmt:
    """Vectors along a row, or along those that a loop in there goes over: side by side."""
    rows = [loop.body] if isinstance(loop.body, tirx.For) else []
    realized, extent = rows[0].body if rows else loop.body, int(loop.extent)
    variables = [each.var for each in realized.block.iter_vars]
    body = substituted(realized.block.body, list(zip(variables, realized.iter_values, strict=True)))
    bodies = [
        substituted(body, [(each.loop_var, tirx.const(number, each.loop_var.ty.dtype))])
        for each in rows
        for number in range(int(each.extent))
    ] or [body]
    if all(each.iter_type == tirx.IterVar.DataPar for each in realized.block.iter_vars):
        row = Row(loop.loop_var, extent, min(VECTOR, 1 << extent.bit_length() - 1))
        return row.whole(lambda _, place: [row.at(each, place) for each in bodies])
    sums = [step for each in bodies for step in sums_of(each)]
    if sums:
        most = min(MOST_VECTORS * lanes // len(sums), extent // 4)
        return _summed(Row(loop.loop_var, extent, 1 << max(LANES, most).bit_length() - 1), sums)
    row = Row(loop.loop_var, extent, 1 << min(lanes, extent).bit_length() - 1)
    steps = places_in(row, body) or [_loop(loop.loop_var, extent, realized)]
    for each in rows:
        copies = [tirx.Var("row", each.loop_var.ty.dtype) for _ in steps]
        steps = [
            _loop(copy, int(each.extent), substituted(step, [(each.loop_var, copy)]))
            for copy, step in zip(copies, steps, strict=True)
        ]
    return in_order(steps)


def _loop(variable: tirx.Var, extent: int, body: tirx.Stmt) -> tirx.Stmt:
    return tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, body)


@dataclass(frozen=True, slots=True)
class Sum:
    """Step of a sum, a maximum or a minimum."""

    buffer: tirx.Buffer
    indices: Sequence[Value]
    value: tirx.Add | tirx.Max | tirx.Min

    def combined(self, one: Value, other: Value) -> Value:
        """Sum of two numbers."""
        return type(self.value)(one, other)


def sums_of(body: tirx.Stmt) -> list[Sum]:
    """Sums that a statement is a step of; none if it is anything else."""
    steps = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    stores = steps[len(steps) // 2 :]
    if not all(isinstance(each, tirx.BufferStore) for each in stores):
        return []
    values = [each.value for each in steps if isinstance(each, tirx.Bind)]
    values = values or [each.value for each in stores]
    if len(values) != len(stores) or not all(isinstance(each, COMBINERS) for each in values):
        return []
    read = [load for each in values for load in loads_of(each.b)]
    if any(load.source.same_as(store.buffer) for load in read for store in stores):
        return []
    return [
        Sum(store.buffer, store.indices, value) for store, value in zip(stores, values, strict=True)
    ]


def _summed(row: Row, sums: Sequence[Sum]) -> tirx.Stmt:
    """Vectors of partial sums; what no vector divides comes to those of their halves."""
    parts = [row.vector(str(each.value.ty)) for each in sums]
    pairs = list(zip(parts, sums, strict=True))

    def begin(lane: Value, place: Value) -> list[tirx.Stmt]:
        return stored(lane, parts, [row.at(each.value.b, place) for each in sums])

    def go_on(lane: Value, place: Value) -> list[tirx.Stmt]:
        added = [each.combined(part[lane], row.at(each.value.b, place)) for part, each in pairs]
        return stored(lane, parts, added)

    def halve(lane: Value, other: Value) -> list[tirx.Stmt]:
        return stored(lane, parts, [each.combined(part[lane], part[other]) for part, each in pairs])

    whole = [
        tirx.BufferStore(
            each.buffer,
            each.combined(tirx.BufferLoad(each.buffer, each.indices), part[0]),
            each.indices,
        )
        for part, each in pairs
    ]
    return tirx.SeqStmt(
        [
            *map(tirx.AllocBuffer, parts),
            row.in_lanes(begin, 0),
            row.over(1, go_on),
            *row.halved(halve, go_on),
            *whole,
        ]
    )
