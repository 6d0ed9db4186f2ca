"""Sums along rows, and places of their largest or least elements, in vectors.

Goes behind the loops, where a marked loop gathers one number, two at once, or a place and a number.
It becomes vectors of partial results, whose halves are combined. TVM's ``rfactor`` drops the
condition of a row that no vector divides, and keeps partial results in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.places import place_in
from tvm_ios.relax.schedules.row_vectors import Row, stored
from tvm_ios.relax.schedules.tiles import loads_of, substituted

__all__ = ["LANES", "MARK", "with_gathered_vectors"]

MARK = "tvm_ios_gathered"
"""Annotation of a loop in which one number is gathered."""
LANES, MOST_LANES = 4, 64
"""Partial results, of which each has two elements of the row at least."""
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
    row = Row(loop.loop_var, extent, min(MOST_LANES, 1 << (extent // 2).bit_length() - 1))
    sums = _sums(body)
    if sums:
        return _summed(row, sums)
    plain = tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)
    return place_in(row, body) or plain


@dataclass(frozen=True, slots=True)
class _Sum:
    """Step of a sum, a maximum or a minimum."""

    buffer: tirx.Buffer
    indices: Sequence[Value]
    value: tirx.Add | tirx.Max | tirx.Min

    def combined(self, one: Value, other: Value) -> Value:
        """Sum of two numbers."""
        return type(self.value)(one, other)


def _sums(body: tirx.Stmt) -> list[_Sum]:
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
        _Sum(store.buffer, store.indices, value)
        for store, value in zip(stores, values, strict=True)
    ]


def _summed(row: Row, sums: Sequence[_Sum]) -> tirx.Stmt:
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
