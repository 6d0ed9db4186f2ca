"""Vectors of every second element, as strided slices and convolutions of groups read them.

Goes behind the loops. TVM reads such elements one by one. Here two vectors are read, which overlap
in one element lest the second ends behind the last that is wanted, and shuffled.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.tiles import only_store, substituted, uses

__all__ = ["with_strided_vectors"]

STRIDE, SHORTEST, LONGEST = 2, 4, 32
"""Distance of elements, and how many a vector has."""


def with_strided_vectors(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel whose vectorised loops read every second element from whole vectors."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _changed), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _changed(loop: tirx.For) -> tirx.Stmt:
    lanes = int(loop.extent) if isinstance(loop.extent, tirx.IntImm) else 0
    if loop.kind != tirx.ForKind.VECTORIZED or not SHORTEST <= lanes <= LONGEST:
        return loop
    found = only_store(loop) if isinstance(loop.body, tvm.s_tir.SBlockRealize) else None
    if found is None:
        return loop
    store, condition = found
    if not isinstance(condition, tirx.IntImm) or not bool(condition):
        return loop
    steps: list[tirx.Stmt] = []

    def gathered(load: tvm.ir.TensorLoad) -> Value:
        if not load.indices or str(load.ty) != "float32":
            return load
        *first, last = load.indices
        if not _is_strided(first, last, loop.loop_var, lanes):
            return load
        begin = substituted(last, [(loop.loop_var, tirx.const(0, loop.loop_var.ty.dtype))])
        vectors = [
            tirx.BufferLoad(load.source, [*first, tirx.Ramp(at, 1, lanes)])
            for at in (begin, begin + (lanes - 1))
        ]
        wanted = range(0, STRIDE * lanes, STRIDE)
        chosen = [at if at < lanes else at + 1 for at in wanted]
        buffer = tirx.decl_buffer((lanes,), "float32", "strided", layout=None)
        steps.append(tirx.AllocBuffer(buffer))
        steps.append(
            tirx.BufferStore(buffer, tirx.Shuffle(vectors, chosen), [tirx.Ramp(0, 1, lanes)])
        )
        return tirx.BufferLoad(buffer, [loop.loop_var])

    value = tvm_ffi.structural_map(store.value, (tvm.ir.TensorLoad, gathered), order="post")
    if not steps:
        return loop
    body = tirx.BufferStore(store.buffer, value, store.indices)
    return tirx.SeqStmt([*steps, tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)])


def _is_strided(first: list[Value], last: Value, variable: tirx.Var, lanes: int) -> bool:
    """True if a place moves by two along its last axis alone with each step of a variable."""
    if any(uses(each, variable) for each in first) or not uses(last, variable):
        return False
    begin, *others = (
        substituted(last, [(variable, tirx.const(at, variable.ty.dtype))])
        for at in (0, 1, lanes - 1)
    )
    moved = [Analyzer().simplify(each - begin) for each in others]
    return all(
        isinstance(each, tirx.IntImm) and int(each) == STRIDE * steps
        for each, steps in zip(moved, (1, lanes - 1), strict=True)
    )
