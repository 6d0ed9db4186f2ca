"""Loops of kernels that read along one axis and write along another: transposes.

Whole vectors are read and written. Between them the rows and columns of a tile change places by
shuffles of two vectors each, for which a kernel has no schedule: its loops are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.dlight import normalize_prim_func
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.tiles import LEAST_PARALLEL, extents_of, substituted, uses

__all__ = ["in_tiles", "turned"]

MARK = "tvm_ios_turned"
"""Annotation of the outer one of the two loops of a tile: its length."""
LONGEST, SHORTEST = 8, 4
"""Rows and columns of a tile, which are powers of 2."""


def turned(schedule: s_tir.Schedule, lanes: int) -> bool:  # noqa: ARG001 - LLVM cuts vectors
    """Schedule a kernel that only turns an array, for :func:`in_tiles`; False for others."""
    blocks = normalize_prim_func(schedule) or []
    if len(blocks) != 1 or not blocks[0].is_injective():
        return False
    block = blocks[0].block_rv
    store, loops = schedule.get(block).body, schedule.get_loops(block)
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tvm.ir.TensorLoad):
        return False
    if str(store.value.ty) != "float32":
        return False
    variables = [each.var for each in schedule.get(block).iter_vars if int(each.dom.extent) > 1]
    *_, read = store.value.indices
    (row,) = [n for n, each in enumerate(variables) if read.same_as(each)] or [-1]
    column = len(variables) - 1
    others = [*store.indices[:-1], *store.value.indices[:-1]]
    if row < 0 or row == column or len(variables) != len(loops):
        return False
    if not store.indices[-1].same_as(variables[column]) or any(
        uses(index, variables[column]) and not index.same_as(variables[column]) for index in others
    ):
        return False
    extents = extents_of(schedule, loops)
    tile = math.gcd(extents[row], extents[column], LONGEST)
    if tile < SHORTEST:
        return False
    (rows, inner_row), (columns, inner_column) = (
        schedule.split(loops[place], [None, tile]) for place in (row, column)
    )
    rest = [loop for place, loop in enumerate(loops) if place not in (row, column)]
    # Reading goes on where it was, so that lines of cache are read once.
    schedule.reorder(*rest, columns, rows, inner_row, inner_column)
    schedule.annotate(inner_row, MARK, tile)
    if math.prod(extents) >= LEAST_PARALLEL:
        schedule.parallel(schedule.fuse(*rest, columns) if rest else columns)
    return True


def in_tiles(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel whose marked loops are vectors that are shuffled."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _exchanged), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _exchanged(loop: tirx.For) -> tirx.Stmt:
    if MARK not in loop.annotations:
        return loop
    tile, realized = int(loop.annotations[MARK]), loop.body.body
    store = realized.block.body
    places = list(
        zip((each.var for each in realized.block.iter_vars), realized.iter_values, strict=True)
    )
    row, column = loop.loop_var, loop.body.loop_var

    def at(value: Value, row_place: Value, column_place: Value) -> Value:
        here = substituted(value, places)
        return substituted(here, [(row, row_place), (column, column_place)])

    zero = tirx.const(0, row.ty.dtype)
    steps: list[tirx.Stmt] = []
    vectors = []
    for number in range(tile):
        *first, last = (
            at(each, zero, tirx.const(number, row.ty.dtype)) for each in store.value.indices
        )
        load = tirx.BufferLoad(store.value.source, [*first, tirx.Ramp(last, 1, tile)])
        vectors.append(tirx.Var(f"row{number}", f"float32x{tile}"))
        steps.append(tirx.Bind(vectors[-1], load))
    for number, vector in enumerate(_transposed(vectors, tile)):
        *first, last = (at(each, tirx.const(number, row.ty.dtype), zero) for each in store.indices)
        steps.append(tirx.BufferStore(store.buffer, vector, [*first, tirx.Ramp(last, 1, tile)]))
    return tirx.SeqStmt(steps)


def _transposed(rows: Sequence[Value], lanes: int) -> list[Value]:
    """Columns of 4 or 8 vectors of as many elements, in three steps of shuffles at most."""

    def mixed(one: Value, other: Value, places: Sequence[int]) -> Value:
        # Every four elements become two of one vector and two of the other, which count from 4.
        chosen = [at % 4 + (lanes if at >= 4 else 0) for at in places]
        every = [at + four for four in range(0, lanes, 4) for at in chosen]
        return tirx.Shuffle([one, other], every)

    fours = []
    for begin in range(0, lanes, 4):
        a, b, c, d = rows[begin : begin + 4]
        for by_ones in ((0, 4, 1, 5), (2, 6, 3, 7)):
            ab, cd = mixed(a, b, by_ones), mixed(c, d, by_ones)
            fours += [mixed(ab, cd, by_twos) for by_twos in ((0, 1, 4, 5), (2, 3, 6, 7))]
    if lanes == SHORTEST:
        return fours
    halves = ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
    return [
        tirx.Shuffle(list(two), half)
        for half in halves
        for two in zip(fours[:4], fours[4:], strict=True)
    ]
