"""Sums along rows whose lengths no vector divides, for which a schedule has no vectors.

Goes behind the loops, where a marked loop gathers one number. It becomes vectors of partial sums,
whose halves are added to each other, and a loop over what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.tiles import substituted

__all__ = ["LANES", "MARK", "with_gathered_vectors"]

MARK = "tvm_ios_gathered"
"""Annotation of a loop in which one number is gathered."""
LANES = 16
"""Partial sums, and iterations of a loop that is worth them."""
COMBINERS = (tirx.Add, tirx.Max, tirx.Min)


def with_gathered_vectors(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel whose marked loops are vectors of partial sums."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _changed), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _changed(loop: tirx.For) -> tirx.Stmt:
    if MARK not in loop.annotations:
        return loop
    realized = loop.body
    places = list(
        zip((each.var for each in realized.block.iter_vars), realized.iter_values, strict=True)
    )
    store = realized.block.body
    plain = tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, realized)
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, COMBINERS):
        return plain
    combine, variable, type_ = type(store.value), loop.loop_var, loop.loop_var.ty.dtype
    indices = [substituted(each, places) for each in store.indices]
    added = substituted(store.value.b, places)
    parts = tirx.decl_buffer((LANES,), str(store.value.ty), "parts", layout=None)
    whole, rest = divmod(int(loop.extent), LANES)

    def in_lanes(count: int, make: Callable[[Value], tirx.Stmt]) -> tirx.Stmt:
        lane = tirx.Var("lane", type_)
        kind = tirx.ForKind.VECTORIZED if count > 1 else tirx.ForKind.SERIAL
        return tirx.For(lane, 0, count, kind, make(lane))

    def at(place: Value) -> Value:
        return substituted(added, [(variable, place)])

    def add(lane: Value, value: Value) -> tirx.Stmt:
        return tirx.BufferStore(parts, combine(parts[lane], value), [lane])

    def second_half(half: int, lane: Value) -> tirx.Stmt:
        return add(lane, parts[lane + half])

    chunk, last = tirx.Var("chunk", type_), tirx.Var("last", type_)
    halves = [1 << power for power in reversed(range(LANES.bit_length() - 1))]
    target = tirx.BufferLoad(store.buffer, indices)
    return tirx.SeqStmt(
        [
            tirx.AllocBuffer(parts),
            in_lanes(LANES, lambda lane: tirx.BufferStore(parts, at(lane), [lane])),
            tirx.For(
                chunk,
                1,
                whole - 1,
                tirx.ForKind.SERIAL,
                in_lanes(LANES, lambda lane: add(lane, at(chunk * LANES + lane))),
            ),
            *(in_lanes(half, partial(second_half, half)) for half in halves),
            tirx.BufferStore(store.buffer, combine(target, parts[0]), indices),
            tirx.For(
                last,
                whole * LANES,
                rest,
                tirx.ForKind.SERIAL,
                tirx.BufferStore(store.buffer, combine(target, at(last)), indices),
            ),
        ]
    )
