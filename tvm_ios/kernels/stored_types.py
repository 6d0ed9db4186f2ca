"""Kernels of float32 that read or write some of their arguments in other types.

Comes after a kernel is lowered: it computes in float32 as ever, and only what it loads and stores
changes. TVM's LLVM has no bfloat16, so numbers are widened and rounded by their bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import tvm
from tvm import tir
from tvm.target.codegen import target_has_features
from tvm.tir.stmt_functor import ir_transform, post_order_visit

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.kernels.whole_numbers import filled, lanes_of, like, number_of, steps_of

__all__ = ["with_stored_types"]

BITS = "uint16"
"""Type by which kernels load and store bfloat16: with its own, TVM crashes at pointers."""
ADDRESS = tvm.ir.Op.get("tir.address_of")
PREFETCH = tvm.ir.Op.get("tir.prefetch")
FEATURE = "avx512bf16"
"""LLVM's name of what processors have that round vectors to bfloat16."""
INSTRUCTIONS = {
    8: "llvm.x86.avx512bf16.cvtneps2bf16.256",
    16: "llvm.x86.avx512bf16.cvtneps2bf16.512",
}
"""LLVM's intrinsics that do, by number of elements."""
HALF, ROUNDER, QUIET = 16, 0x7FFF, 0x40
"""Bits that bfloat16 lacks, largest rest that is rounded down, and the bit of a quiet NaN."""


def with_stored_types(
    kernel: tir.PrimFunc,
    arguments: Mapping[int, StoredType],
    target: tvm.target.Target | None = None,
    *,
    results: int = 1,
) -> tir.PrimFunc:
    """Lowered kernel with arguments of other types, by position, in place of float32.

    The last arguments are the results. Numbers are rounded to the nearest, ties to even. NaN stays
    NaN in bfloat16, and is the least whole number. What a kernel sums up in its result, and what it
    gives other functions the address of, is float32 in memory of its own. Where the target has an
    instruction that rounds vectors to bfloat16, it is used; it makes zeros of subnormal numbers.
    """
    if not arguments:
        return kernel
    rounds = target is not None and bool(target_has_features(FEATURE, target))
    return _Storing(kernel, arguments, results=results, rounds=rounds).kernel()


class _Storing:
    """Exchange of arguments of one kernel."""

    def __init__(
        self,
        kernel: tir.PrimFunc,
        arguments: Mapping[int, StoredType],
        *,
        results: int,
        rounds: bool,
    ) -> None:
        self._kernel = kernel
        self._rounds = rounds
        self._buffers = dict(kernel.buffer_map.items())
        self._pointers: dict[tir.Var, tir.Var] = {}
        """Pointers to numbers in memory by those to float32 that they replace."""
        self._types: dict[tir.Var, StoredType] = {}
        """Types in memory by the replaced pointers."""
        self._stored: dict[tir.Buffer, tir.Buffer] = {}
        self._copied: list[tuple[tir.Buffer, tir.Buffer, StoredType, bool]] = []
        """Arguments, float32 memory in their place, types, and whether they are results."""
        for number, stored in sorted(arguments.items()):
            is_result = number >= len(kernel.params) - results
            self._exchange(kernel.params[number], stored, is_result=is_result)

    def _exchange(self, parameter: tir.Var, type_: StoredType, *, is_result: bool) -> None:
        buffer = self._buffers[parameter]
        stored = tir.decl_buffer(buffer.shape, type_.dtype, buffer.name)
        self._buffers[parameter] = stored
        if _has_to_be_float32(self._kernel.body, buffer.data):
            floats = tir.decl_buffer(buffer.shape, FLOAT32, buffer.name, data=buffer.data)
            self._copied.append((stored, floats, type_, is_result))
        else:
            self._pointers[buffer.data] = stored.data
            self._types[buffer.data] = type_

    def kernel(self) -> tir.PrimFunc:
        """The kernel with other arguments."""
        kinds = ["tir.BufferLoad", "tir.BufferStore", "tir.Call", "tir.LetStmt"]
        body = ir_transform(self._kernel.body, self._before, self._after, kinds)
        for stored, floats, type_, is_result in self._copied:
            body = _with_copy(body, stored, floats, type_, is_result=is_result)
        return tir.PrimFunc(
            self._kernel.params, body, self._kernel.ret_type, self._buffers, self._kernel.attrs
        )

    def _before(self, node: tir.Stmt | tir.PrimExpr) -> tir.Stmt | tir.PrimExpr | None:
        if isinstance(node, tir.LetStmt) and _points_to(node.value) in self._pointers:
            element = node.var.type_annotation.element_type
            self._types[node.var] = stored = self._types[_points_to(node.value)]
            pointer = tvm.ir.PointerType(tvm.ir.PrimType(like(_bits_of(stored), element)))
            self._pointers[node.var] = tir.Var(node.var.name, pointer)
        if not isinstance(node, tir.Call) or not node.op.same_as(ADDRESS):
            return None
        load = node.args[0]
        if load.buffer.data not in self._pointers:
            return node
        return tir.Call(node.dtype, ADDRESS, [self._load(load)])

    def _after(self, node: tir.Stmt | tir.PrimExpr) -> tir.Stmt | tir.PrimExpr | None:
        if isinstance(node, tir.LetStmt):
            pointer = self._pointers.get(node.var)
            return None if pointer is None else tir.LetStmt(pointer, node.value, node.body)
        if isinstance(node, tir.Call) or node.buffer.data not in self._pointers:
            return None
        stored = self._types[node.buffer.data]
        if isinstance(node, tir.BufferLoad):
            return _read(self._load(node), stored)
        value = tir.Var("exact", node.value.dtype)
        at_once = self._rounds and not stored.is_whole and lanes_of(value) in INSTRUCTIONS
        rounded = _rounded_at_once(value) if at_once else _written(value, stored)
        store = tir.BufferStore(self._place(node.buffer), rounded, node.indices)
        return tir.LetStmt(value, node.value, store)

    def _load(self, load: tir.BufferLoad) -> tir.BufferLoad:
        return tir.BufferLoad(self._place(load.buffer), load.indices)

    def _place(self, buffer: tir.Buffer) -> tir.Buffer:
        """Buffer of bits in place of one of float32; flat views of one have their own."""
        if buffer not in self._stored:
            pointer = self._pointers[buffer.data]
            # TVM makes buffers of vectors of those that only vectors are loaded from.
            dtype = like(_bits_of(self._types[buffer.data]), buffer)
            self._stored[buffer] = tir.decl_buffer(buffer.shape, dtype, buffer.name, data=pointer)
        return self._stored[buffer]


def _with_copy(
    body: tir.Stmt,
    stored: tir.Buffer,
    floats: tir.Buffer,
    type_: StoredType,
    *,
    is_result: bool,
) -> tir.Stmt:
    """Statement that computes in a copy of float32: of an operand at its begin, or a result."""
    count = prod(map(int, stored.shape))
    bits, numbers = (
        tir.decl_buffer((count,), dtype, each.name, data=each.data)
        for each, dtype in ((stored, _bits_of(type_)), (floats, FLOAT32))
    )
    place = tir.Var("place", "int32")
    if is_result:
        value = tir.Var("exact", FLOAT32)
        store = tir.BufferStore(bits, _written(value, type_), [place])
        copy = tir.LetStmt(value, tir.BufferLoad(numbers, [place]), store)
    else:
        copy = tir.BufferStore(numbers, _read(tir.BufferLoad(bits, [place]), type_), [place])
    loop = tir.For(place, 0, count, tir.ForKind.SERIAL, copy)
    both = tir.SeqStmt([body, loop] if is_result else [loop, body])
    return tir.Allocate(floats.data, FLOAT32, [count], tir.const(True, "bool"), both)


def _has_to_be_float32(body: tir.Stmt, pointer: tir.Var) -> bool:
    """True if a kernel loads elements of an argument that it stores, or hands on its address."""
    nodes: list[object] = []
    post_order_visit(body, nodes.append)
    pointers = {pointer}
    for each in reversed(nodes):  # outer statements first
        if isinstance(each, tir.LetStmt) and _points_to(each.value) in pointers:
            pointers.add(each.var)
    loaded, stored = (
        any(isinstance(each, kind) and each.buffer.data in pointers for each in nodes)
        for kind in (tir.BufferLoad, tir.BufferStore)
    )
    handed = (
        (isinstance(argument, tir.Var) and argument in pointers) or _points_to(argument) in pointers
        for each in nodes
        if isinstance(each, tir.Call) and not each.op.same_as(PREFETCH)
        for argument in each.args
    )
    return (loaded and stored) or any(handed)


def _points_to(value: tir.PrimExpr) -> tir.Var | None:
    """Pointer of the buffer whose element a value is the address of; None of other values."""
    if isinstance(value, tir.Call) and value.op.same_as(ADDRESS):
        return value.args[0].buffer.data
    return None


def _bits_of(stored: StoredType) -> str:
    """Type by which kernels load and store numbers."""
    return stored.dtype if stored.is_whole else BITS


def _read(bits: tir.PrimExpr, stored: StoredType) -> tir.PrimExpr:
    """Number of float32 that is in memory in another type."""
    return number_of(bits, stored) if stored.is_whole else _widened(bits)


def _written(number: tir.Var, stored: StoredType) -> tir.PrimExpr:
    """Bits in memory for a number of float32, by its type there."""
    if not stored.is_whole:
        return _rounded(number)
    whole = steps_of(number, stored) + filled(stored.zero_point, "int32", number)
    return tir.Cast(like(stored.dtype, number), whole)


def _widened(bits: tir.PrimExpr) -> tir.PrimExpr:
    """Number of float32 with the value of one of bfloat16, by its bits; vectors likewise."""
    wide = tir.Cast(like("uint32", bits), bits) << filled(HALF, "uint32", bits)
    return tir.reinterpret(like(FLOAT32, bits), wide)


def _rounded(number: tir.Var) -> tir.PrimExpr:
    """Bits of the bfloat16 nearest to a float32, the even one of two; vectors likewise."""
    bits = tir.reinterpret(like("uint32", number), number)
    half = filled(HALF, "uint32", number)
    last = (bits >> half) & filled(1, "uint32", number)
    nearest = (bits + (last + filled(ROUNDER, "uint32", number))) >> half
    nan = (bits >> half) | filled(QUIET, "uint32", number)
    chosen = tir.Select(tir.NE(number, number), nan, nearest)
    return tir.Cast(like(BITS, number), chosen)


def _rounded_at_once(number: tir.Var) -> tir.PrimExpr:
    """Bits of a vector by the processor's instruction, of those in :data:`INSTRUCTIONS`."""
    name, count = INSTRUCTIONS[lanes_of(number)], tir.const(1, "uint32")
    call = tir.call_llvm_pure_intrin(like("int16", number), name, count, number)
    return tir.reinterpret(like(BITS, number), call)
