"""Sizes of tiles, and loops over whole arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx import Expr as Value

__all__ = [
    "LEAST_PARALLEL",
    "PLACES",
    "VECTOR",
    "Vectors",
    "divisor",
    "element_written",
    "extents_of",
    "in_order",
    "is_conditional",
    "lies_together",
    "loads_of",
    "only_store",
    "over_tasks",
    "spread",
    "stored_in_vectors",
    "substituted",
    "unfused",
    "uses",
    "vectors_along",
    "vectors_of",
    "with_loops",
]

LEAST_PARALLEL = 8192
"""Iterations of a kernel below which one lane is faster than several."""
PLACES = "tvm_ios_places"
"""Annotation of a loop along a row, which reads elements at places that are no single ones."""
VECTOR, HALF, SHORT = 32, 16, 8
"""Most elements of a vector, which LLVM cuts into those of the processor; those of one that ends
where it likes; and how many are too few."""
LEAST_LANES = 4
"""Elements of the shortest vector that is one."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors side by side along the last axis."""

    begin: int
    lanes: int
    count: int


def divisor(extent: int, most: int) -> int:
    """Largest divisor of an extent that is no larger than that."""
    return max(each for each in range(1, most + 1) if extent % each == 0)


def vectors_of(extent: int, lanes: int) -> list[Vectors]:
    """Vectors that cover an axis: whole ones, then one of what is left, which may overlap them."""
    if lanes < LEAST_LANES:
        return []
    if extent < lanes:
        return vectors_of(extent, lanes // 2)
    count, rest = divmod(extent, lanes)
    found = [Vectors(0, lanes, count)]
    if rest:
        last = max(LEAST_LANES, 1 << (rest - 1).bit_length())
        found.append(Vectors(extent - last, last, 1))
    return found


def stored_in_vectors(
    store: tirx.BufferStore, along: tirx.Var, places: range, lanes: int
) -> list[tirx.Stmt]:
    """Loops over vectors that write elements at places of a row, by a store of one of them."""
    steps: list[tirx.Stmt] = []
    for each in vectors_of(len(places), lanes) or [Vectors(0, 1, len(places))]:
        chunk, lane = (tirx.Var(name, along.ty.dtype) for name in ("chunk", "lane"))
        at = [(along, chunk * each.lanes + (places.start + each.begin) + lane)]
        body: tirx.Stmt = substituted(store, at)
        body = tirx.For(lane, 0, each.lanes, tirx.ForKind.VECTORIZED, body)
        steps.append(tirx.For(chunk, 0, each.count, tirx.ForKind.SERIAL, body))
    return steps


def extents_of(schedule: s_tir.Schedule, loops: list[s_tir.schedule.LoopRV]) -> list[int]:
    """Numbers of iterations of loops."""
    return [int(schedule.get(loop).extent) for loop in loops]


def spread(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV) -> None:
    """Write the array of an injective block in vectors, and its rows in parallel if it is large."""
    loops = schedule.get_loops(block)
    together = [n for n in range(2, len(loops) + 1) if lies_together(schedule.get(block), n)]
    count = together[-1] if together else 1
    rows = loops[:-count]
    last = schedule.fuse(*loops[-count:]) if count > 1 else loops[-1]
    total = math.prod(extents_of(schedule, [*rows, last]))
    if not _knows_places(schedule.get(block)):
        schedule.annotate(last, PLACES, 1)
        if rows and total >= LEAST_PARALLEL:
            schedule.parallel(schedule.fuse(*rows) if len(rows) > 1 else rows[0])
        return
    conditional = is_conditional(schedule.get(block).body)
    outer = vectors_along(schedule, last, conditional=conditional)
    several = rows if conditional and rows else [*rows, outer]
    if total >= LEAST_PARALLEL:
        schedule.parallel(schedule.fuse(*several) if len(several) > 1 else several[0])


def _knows_places(block: s_tir.SBlock) -> bool:
    """True if places along the last axes of what is read are known to be single ones."""
    places = [each.region[-1].extent for each in block.reads if each.region]
    return all(isinstance(each, tirx.IntImm) and int(each) == 1 for each in places)


def vectors_along(
    schedule: s_tir.Schedule, loop: s_tir.schedule.LoopRV, *, conditional: bool = False
) -> s_tir.schedule.LoopRV:
    """Loop over vectors that a loop over elements becomes.

    Where elements have conditions, or would fill no vector, TVM is asked for loops of their own
    for those vectors whose elements are all alike.
    """
    (extent,) = extents_of(schedule, [loop])
    length, apart = divisor(extent, VECTOR), conditional
    if conditional:
        length = math.gcd(extent, HALF)
    if length < SHORT and extent >= HALF:
        length, apart = HALF, True
    outer, inner = schedule.split(loop, [None, length])
    schedule.vectorize(inner)
    if apart:
        schedule.annotate(outer, "pragma_loop_partition_hint", 1)
    return outer


def lies_together(block: s_tir.SBlock, count: int) -> bool:
    """True if so many last variables are whole last axes of all that they are places in."""
    last = [each.var for each in block.iter_vars[-count:]]
    regions = (*block.reads, *(() if block.init else block.writes))
    extents = [piece.extent for region in regions for piece in region.region]
    if not all(isinstance(each, tirx.IntImm) and int(each) == 1 for each in extents):
        return False  # places that TVM does not know
    return all(
        len(region.region) >= count
        and all(
            piece.min.same_as(variable) and tvm_ffi.structural_equal(extent, iteration.dom.extent)
            for piece, variable, extent, iteration in zip(
                region.region[-count:],
                last,
                region.source.ty.shape[-count:],
                block.iter_vars[-count:],
                strict=True,
            )
        )
        for region in regions
        if any(uses(piece.min, variable) for piece in region.region for variable in last)
    )


def is_conditional(body: Any) -> bool:
    """True if what is computed depends on a condition."""
    found: list[str] = []
    tvm_ffi.structural_walk(body, (tvm.ir.Call, lambda call: found.append(str(call.op))))
    return any("if_then_else" in each for each in found)


def uses(expression: Any, variable: tirx.Var) -> bool:
    """True if an expression depends on a variable."""
    found = tirx.analysis.undefined_vars(expression, [])
    return any(each.same_as(variable) for each in found)


def loads_of(expression: Any) -> list[tvm.ir.TensorLoad]:
    """Elements of arrays that an expression reads."""
    loads: list[tvm.ir.TensorLoad] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.TensorLoad, loads.append))
    return loads


def substituted(expression: Any, places: Sequence[tuple[tirx.Var, Any]]) -> Any:
    """Expression with others in the place of variables."""

    def other(variable: tirx.Var) -> Any:
        return next((new for old, new in places if old.same_as(variable)), variable)

    return tvm_ffi.structural_map(expression, (tirx.Var, other), order="post")


def over_tasks(task: tirx.Var, count: int, body: tirx.Stmt, steps: int) -> tirx.For:
    """Loop over so many tasks, which lanes share if all their steps are many."""
    is_parallel = count > 1 and steps >= LEAST_PARALLEL
    kind = tirx.ForKind.PARALLEL if is_parallel else tirx.ForKind.SERIAL
    return tirx.For(task, 0, count, kind, body)


def with_loops(function: tvm.tirx.PrimFunc, body: tirx.Stmt) -> tvm.tirx.PrimFunc:
    """Kernel that does what a statement says, in one block: TVM's passes ask for one."""
    root = s_tir.SBlock([], [], [], "root", body)
    return function.with_body(s_tir.SBlockRealize([], True, root))


def in_order(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    """Statements one after another; TVM's own sequences have two at least."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


def only_store(loop: tirx.For) -> tuple[tirx.BufferStore, Any] | None:
    """The only statement of a loop's body, if it is a store, and its condition.

    Variables of its block are written out, since a loop may not be where a block is.
    """
    body = loop.body
    if isinstance(body, tirx.BufferStore):
        return body, True
    if not isinstance(body, s_tir.SBlockRealize) or body.block.init:
        return None
    store = body.block.body
    if not isinstance(store, tirx.BufferStore):
        return None
    variables = [each.var for each in body.block.iter_vars]
    places = list(zip(variables, body.iter_values, strict=True))
    return substituted(store, places), body.predicate


def element_written(
    write: tirx.BufferStore, sums: Any, total: Value, places: Sequence[tuple[tirx.Var, Any]]
) -> tirx.BufferStore:
    """Statement that writes an element somewhere, from its sum in place of one in an array."""

    def read(load: tvm.ir.TensorLoad) -> Value:
        return total if load.source.same_as(sums) else load

    value = tvm_ffi.structural_map(write.value, (tvm.ir.TensorLoad, read), order="post")
    return tirx.BufferStore(
        write.buffer,
        substituted(value, places),
        [substituted(each, places) for each in write.indices],
    )


def unfused(task: tirx.Var, extents: Sequence[int]) -> list[Value]:
    """Indices of loops of some extents that are one loop, the innermost last."""
    found: list[Value] = []
    rest: Value = task
    for extent in reversed(extents[1:]):
        found.insert(0, tirx.floormod(rest, extent))
        rest = tirx.floordiv(rest, extent)
    return [rest, *found]
