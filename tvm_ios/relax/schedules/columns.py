"""Loops of kernels that sum down columns.

Global pools in NHWC, means over tokens or channels, and products of one row. A tile of columns
stays in vector registers while its rows are added, each in TVM's order. TVM has no primitive for
the tile that is left where no vector divides a row, so its loops are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.dlight import IterInfo, SBlockInfo, normalize_prim_func
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.arithmetic import calls_dear
from tvm_ios.relax.schedules.column_sums import ColumnSums
from tvm_ios.relax.schedules.far_columns import FarColumns
from tvm_ios.relax.schedules.gathered import Sum, sums_of
from tvm_ios.relax.schedules.in_place import MARK as IN_PLACE
from tvm_ios.relax.schedules.row_vectors import Row
from tvm_ios.relax.schedules.tiles import (
    LEAST_PARALLEL,
    extents_of,
    in_order,
    spread,
    substituted,
    uses,
)

__all__ = ["columns", "with_columns_in_vectors"]

MARK = "tvm_ios_columns"
"""Annotation of a loop over columns, in which their sums are: 1 if its tiles are parallel."""
VECTORS = 8
"""Vector registers of all sums of a tile: fewer read too little of each row."""
FAR = 1 << 16
"""Elements of an array that does not lie in the nearest caches."""


def columns(schedule: s_tir.Schedule, lanes: int) -> bool:  # noqa: ARG001 - the tiles need them
    """Schedule a kernel all of whose sums go down whole columns; False for others."""
    blocks = normalize_prim_func(schedule) or []
    sums = [each for each in blocks if not each.is_injective()]
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    if not sums or len(outputs) != 1:
        return False
    result, last = _size([each for each in sums[0].iters if each.kind == "S"]), blocks[-1]
    kept = []
    for each in blocks[:-1]:
        is_small = _size(each.iters) <= result < _size(last.iters)
        if each in sums or is_small or calls_dear(schedule.get(each.block_rv).body):
            kept.append(each)
        else:
            schedule.compute_inline(each.block_rv)
    schedule.annotate(last.block_rv, IN_PLACE, 1)
    for each in (*kept, last):
        if each not in sums:
            spread(schedule, each.block_rv)
        elif not _in_tiles(schedule, each):
            return False
    return True


def _size(iters: Sequence[IterInfo]) -> int:
    return math.prod(int(each.dom) for each in iters)


def _in_tiles(schedule: s_tir.Schedule, found: SBlockInfo) -> bool:
    """Mark the columns of a sum; False where it has none."""
    kinds = [each.kind for each in found.iters]
    number = kinds.count("S")
    block, loops = found.block_rv, schedule.get_loops(found.block_rv)
    count = _columns_of(schedule.get(block), number) if set(kinds[number:]) == {"R"} else 0
    if count == 0:
        return False
    is_large = math.prod(extents_of(schedule, loops)) >= LEAST_PARALLEL
    outer, inner = loops[: number - count], loops[number - count : number]
    column = schedule.fuse(*inner) if count > 1 else inner[0]
    schedule.annotate(column, MARK, int(is_large and not outer))
    if is_large and outer:
        schedule.parallel(schedule.fuse(*outer) if len(outer) > 1 else outer[0])
    return True


def _columns_of(block: s_tir.SBlock, number: int) -> int:
    """Last axes of a sum's result that are last axes of all that is summed.

    0 for sums of windows, and for products of several rows, which share what they read. One row is
    a factor of each element.
    """
    variables = [each.var for each in block.iter_vars]
    result, rows = variables[:number], variables[number:]
    several = [each.var for each in block.iter_vars[:number] if int(each.dom.extent) > 1]
    counts = []
    for region in block.reads:
        places = [piece.min for piece in region.region]
        moved = [place for place in places if any(uses(place, row) for row in rows)]
        if not all(any(place.same_as(row) for row in rows) for place in moved):
            return 0
        if moved and any(uses(place, each) for place in places for each in several):
            counts.append(_same_at_end(places, result))
    return min(counts, default=0) if sums_of(block.body) else 0


def _same_at_end(places: Sequence[Value], variables: Sequence[tirx.Var]) -> int:
    """Number of last places that are the last variables."""
    pairs = list(zip(reversed(places), reversed(variables), strict=False))
    return next((n for n, (one, other) in enumerate(pairs) if not one.same_as(other)), len(pairs))


def with_columns_in_vectors(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc:
    """Kernel whose marked loops are tiles, for vector registers of so many elements."""

    def changed(loop: tirx.For) -> tirx.Stmt:
        return _summed(loop, lanes) if MARK in loop.annotations else loop

    body = tvm_ffi.structural_map(function.body, (tirx.For, changed), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _summed(loop: tirx.For, lanes: int) -> tirx.Stmt:
    """Loop over columns, with all sums of a column in it, as tiles."""
    rows, realized = [], loop.body
    while isinstance(realized, tirx.For):
        rows.append(realized)
        realized = realized.body
    variables = [each.var for each in realized.block.iter_vars]
    places = list(zip(variables, realized.iter_values, strict=True))
    init, step = (substituted(e, places) for e in (realized.block.init, realized.block.body))
    starts = [each.value for each in (init.seq if isinstance(init, tirx.SeqStmt) else [init])]
    sums = list(zip(sums_of(step), starts, strict=True))
    size = int(loop.extent) * math.prod(int(each.extent) for each in rows)
    if len(rows) == len(sums) == 1 and size >= FAR and int(loop.extent) >= lanes:
        return FarColumns(loop, rows[0], *sums[0], lanes, _kind(loop)).statement()
    return _tiles(loop, rows, sums, VECTORS * lanes)


def _tiles(
    loop: tirx.For, rows: Sequence[tirx.For], sums: Sequence[tuple[Sum, Value]], most: int
) -> tirx.Stmt:
    """Loop over tiles of columns, the last one of what the others leave."""

    def tile(vectors: Sequence[tuple[Row, Value]]) -> tirx.Stmt:
        pieces = [
            ColumnSums(row, first, each, start, row.vector(str(each.value.ty)))
            for row, first in vectors
            for each, start in sums
        ]
        body = in_order([each.added() for each in pieces])
        for each in reversed(rows):
            body = tirx.For(each.loop_var, each.min, each.extent, each.kind, body)
        before = [tirx.AllocBuffer(each.part) for each in pieces]
        begun, written = [e.begun() for e in pieces], [e.written() for e in pieces]
        return tirx.SeqStmt([*before, *begun, body, *written])

    extent, type_ = int(loop.extent), loop.loop_var.ty.dtype
    row = Row(loop.loop_var, extent, 1 << min(most // len(sums), extent).bit_length() - 1)
    number, count = tirx.Var("tile", type_), extent // row.lanes
    body = tile([(row, number * row.lanes)])
    rest = [(half, tirx.const(at, type_)) for half, at in row.halves() if at is not None]
    if rest:
        body = tirx.IfThenElse(number < count, body, tile(rest))
    return tirx.For(number, 0, count + bool(rest), _kind(loop), body)


def _kind(loop: tirx.For) -> tirx.ForKind:
    return tirx.ForKind.PARALLEL if loop.annotations[MARK] else tirx.ForKind.SERIAL
