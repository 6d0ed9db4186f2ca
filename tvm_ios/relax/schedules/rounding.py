"""Vectors of float32 that the processor itself rounds to bfloat16.

Goes behind the loops. TVM rounds by bits, in six instructions, and lowers what has the type of
bfloat16; so the instruction stands in functions of LLVM's that give whole numbers.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.tirx import Expr as Value

from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32
from tvm_ios.kernels.loops import elsewhere, placed
from tvm_ios.relax.schedules.tiles import in_order, loads_of, only_store, substituted, uses

__all__ = ["widened", "with_rounding"]

FEATURE = "avx512bf16"
"""LLVM's name of what processors have that round vectors to bfloat16."""
LENGTHS = (16, 8)
"""Numbers that are rounded at once."""
NAME = "tvm_ios_rounded"
FUNCTIONS = "\n".join(
    f"""define linkonce_odr <{count} x i16> @{NAME}_{count}(<{count} x float> %x) alwaysinline {{
  %rounded = fptrunc <{count} x float> %x to <{count} x bfloat>
  %bits = bitcast <{count} x bfloat> %rounded to <{count} x i16>
  ret <{count} x i16> %bits
}}"""
    for count in LENGTHS
)


def with_rounding(function: tvm.tirx.PrimFunc, target: tvm.target.Target) -> tvm.tirx.PrimFunc:
    """Kernel whose vectors are rounded by the processor, if that has an instruction for it.

    What is only moved is not rounded.
    """
    block = function.body.block
    moved = tvm_ffi.structural_map(block.body, (tirx.Cast, _moved), order="post")
    if not tvm.target.codegen.target_has_features(FEATURE, target):
        return function if moved.same_as(block.body) else _with_body(function, moved)
    body = tvm_ffi.structural_map(moved, (tirx.For, _rounded), order="post")
    if not body.same_as(moved):
        code = tvm.ir.StringImm(FUNCTIONS)
        body = tirx.AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", code, body)
    return function if body.same_as(block.body) else _with_body(function, body)


def widened(value: Value) -> Value:
    """A number of bfloat16 as float32, of which it is the upper half.

    TVM's conversion takes the half for a whole number where a kernel binds what it computes.
    """
    half = tirx.reinterpret("uint16", value).astype("uint32")
    return tirx.reinterpret(FLOAT32, half << 16)


def _with_body(function: tvm.tirx.PrimFunc, body: tirx.Stmt) -> tvm.tirx.PrimFunc:
    old = function.body.block
    root = s_tir.SBlock([], [], [], old.name_hint, body, alloc_buffers=old.alloc_buffers)
    return function.with_body(s_tir.SBlockRealize([], True, root))


def _moved(cast: tirx.Cast) -> Value:
    """Number of bfloat16 that is widened only to be rounded again, as it is; other casts stay."""
    loads = loads_of(cast.value)
    if str(cast.ty) != BFLOAT16 or len(loads) != 1 or str(loads[0].ty) != BFLOAT16:
        return cast
    same = tvm_ffi.structural_equal(cast.value, widened(loads[0]))
    return loads[0] if same else cast


def _rounded(loop: tirx.For) -> tirx.Stmt:
    """Loop over a vector, behind which its results are rounded and stored."""
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    length, lane = int(loop.extent), loop.loop_var
    parts = next((each for each in LENGTHS if each <= length), None)
    steps, condition = _steps(loop)
    if parts is None or not steps or not _is_rounded(steps[-1]):
        return loop
    store = steps[-1]
    begin = Analyzer().simplify(_place(store) - lane)
    if uses(begin, lane):
        return loop
    row = elsewhere((math.prod(map(int, store.buffer.shape)),), BFLOAT16, "row")
    exact = tirx.decl_buffer((length,), FLOAT32, "exact", layout=None)
    kept = tirx.BufferStore(exact, store.value.value, [lane])
    stores = []
    for first in (*range(0, length - parts, parts), length - parts):  # the last may overlap
        number = tirx.BufferLoad(exact, [_together(tirx.const(first, "int32"), parts)])
        bits = tirx.call_pure_extern(f"uint16x{parts}", f"{NAME}_{parts}", number)
        rounded = tirx.reinterpret(f"{BFLOAT16}x{parts}", bits)
        stores.append(tirx.BufferStore(row, rounded, [_together(begin + first, parts)]))
    computed = tirx.For(lane, loop.min, loop.extent, loop.kind, in_order([*steps[:-1], kept]))
    body = placed(row, store.buffer.data, in_order([tirx.AllocBuffer(exact), computed, *stores]))
    if condition is None:
        return body
    whole = _of_last(condition, lane, length)
    return loop if whole is None else tirx.IfThenElse(whole, body, loop)


def _steps(loop: tirx.For) -> tuple[list[tirx.Stmt], Value | None]:
    """Statements of a loop's body, of which the last is a store, and their condition.

    No statements of other loops.
    """
    found = only_store(loop)
    if found is not None:
        store, condition = found
        is_true = condition is True or (isinstance(condition, tirx.IntImm) and condition.value)
        return [store], None if is_true else condition
    body, condition = loop.body, None
    if isinstance(body, tirx.IfThenElse) and body.else_case is None:
        body, condition = body.then_case, body.condition
    steps = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    return (steps if isinstance(steps[-1], tirx.BufferStore) else []), condition


def _of_last(condition: Value, lane: tirx.Var, length: int) -> Value | None:
    """Condition that all elements of a vector meet that of each; None where it is no bound."""
    if not isinstance(condition, tirx.LT) or uses(condition.b, lane):
        return None
    if uses(Analyzer().simplify(condition.a - lane), lane):
        return None
    return substituted(condition, [(lane, tirx.const(length - 1, str(lane.ty)))])


def _is_rounded(store: tirx.BufferStore) -> bool:
    value = store.value
    is_cast = isinstance(value, tirx.Cast) and str(value.value.ty) == FLOAT32
    return is_cast and str(store.buffer.dtype) == BFLOAT16


def _place(store: tirx.BufferStore) -> Value:
    """Place of what is stored among all elements, which lie one behind the other."""
    place: Value = store.indices[0]
    for extent, index in zip(store.buffer.shape[1:], store.indices[1:], strict=True):
        place = place * extent + index
    return place


def _together(begin: Any, count: int) -> tirx.Ramp:
    return tirx.Ramp(begin, tirx.const(1, str(begin.ty)), count)
