"""Vectors of elements at places that are known before a kernel runs, as in resized images.

Goes behind the loops, for a marked loop along a row. TVM reads such elements one by one. Here one
or two vectors are read and shuffled, and the row is written without a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.tiles import (
    PLACES,
    in_order,
    only_store,
    substituted,
    uses,
    vectors_of,
)
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["known_number", "with_known_places"]

LANES, LONGEST = 16, 512
"""Most elements of a vector, and of a row, whose code grows with its length."""
OPERATIONS: dict[type[Value], Callable[..., Any]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.Max: max,
    tirx.Min: min,
}
CALLS: dict[str, Callable[..., Any]] = {
    "tirx.floor": np.floor,
    "tirx.ceil": np.ceil,
    "tirx.round": np.rint,
}


def with_known_places(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel whose marked loops are vectors that are shuffled, where that can be done."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _changed), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _changed(loop: tirx.For) -> tirx.Stmt:
    if PLACES not in loop.annotations:
        return loop
    found, extent = only_store(loop), int(loop.extent)
    plain = tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)
    # TVM computes weights of other places than its own in another order.
    if found is None or extent > LONGEST or not bits_may_change():
        return plain
    store, _ = found
    parts = [
        _in_vector(loop.loop_var, store, each.begin + number * each.lanes, each.lanes)
        for each in vectors_of(extent, LANES)
        for number in range(each.count)
    ]
    if not parts or not all(parts):
        return plain
    return in_order([each for part in parts for each in part])


def _in_vector(
    variable: tirx.Var, store: tirx.BufferStore, begin: int, lanes: int
) -> list[tirx.Stmt]:
    """Statements that write so many elements of a row from one on; none if places are unknown."""
    lane = tirx.Var("lane", variable.ty.dtype)
    steps: list[tirx.Stmt] = []
    unknown: list[Value] = []

    def shuffled(load: tvm.ir.TensorLoad) -> Value:
        *first, last = load.indices
        if not uses(last, variable):
            return load
        places = [known_number(last, variable, begin + at) for at in range(lanes)]
        if None in places or any(uses(each, variable) for each in first):
            unknown.append(load)
            return load
        length = int(load.source.ty.shape[-1])
        read = _vector(length)
        low = min(*places, length - read)
        high = max(max(places) - read + 1, low)
        if any(low + read <= place < high for place in places):
            unknown.append(load)
            return load
        vectors = [
            tirx.BufferLoad(load.source, [*first, _ramp(at, read)])
            for at in ((low, high) if high > low else (low,))
        ]
        chosen = [at - low if at < low + read else at - high + read for at in places]
        buffer = tirx.decl_buffer((lanes,), str(load.ty), "places", layout=None)
        several = vectors * -(-lanes // read)  # TVM wants no more elements than there are
        value = tirx.Shuffle(several, chosen) if read > 1 else tirx.Broadcast(vectors[0], lanes)
        steps.append(tirx.AllocBuffer(buffer))
        steps.append(tirx.BufferStore(buffer, value, [tirx.Ramp(0, 1, lanes)]))
        return tirx.BufferLoad(buffer, [lane])

    value = tvm_ffi.structural_map(store.value, (tvm.ir.TensorLoad, shuffled), order="post")
    made = tirx.BufferStore(store.buffer, value, store.indices)
    body = substituted(made, [(variable, lane + begin)])
    written = tirx.For(lane, 0, lanes, tirx.ForKind.VECTORIZED, body)
    return [] if unknown else [*steps, written]


def _vector(length: int) -> int:
    """Elements of the longest vector in a row."""
    return 1 << min(LANES, length).bit_length() - 1


def _ramp(begin: int, lanes: int) -> Value:
    first = tirx.const(begin, "int64")
    return tirx.Ramp(first, 1, lanes) if lanes > 1 else first


def known_number(value: Value, variable: tirx.Var, at: int) -> Any:
    """Number that an expression of a variable is, in its own type; None if that is not known."""
    if value.same_as(variable):
        return at
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return _of_type(value.value, value)
    make: Callable[..., Any] | None
    if isinstance(value, tirx.Cast):
        parts, make = [value.value], lambda number: number
    elif type(value) in OPERATIONS:
        parts, make = [value.a, value.b], OPERATIONS[type(value)]
    elif isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op):
        parts, make = list(value.args), CALLS.get(value.op.name)
    else:
        return None
    numbers = [known_number(each, variable, at) for each in parts]
    return None if make is None or None in numbers else _of_type(make(*numbers), value)


def _of_type(number: Any, value: Value) -> Any:
    """Number in the type of an expression."""
    return int(number) if "int" in str(value.ty) else np.dtype(str(value.ty)).type(number)
