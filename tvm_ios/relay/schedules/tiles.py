"""Two loops that read along one and write along the other, in tiles transposed in registers.

TVM reads each element by itself where it writes vectors. Here whole vectors are read and written;
between them the rows and columns of a tile change places by shuffles of two vectors each.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import tir
from tvm.tir.stmt_functor import ir_transform, post_order_visit, substitute

from tvm_ios.kernels.loops import allocated, sequence
from tvm_ios.relay.row_kernels.tensors import constant
from tvm_ios.relay.schedules.flat_axes import TILE

__all__ = ["transposed_in_tiles"]

MANY = 4
"""Tiles of which one may be computed twice, so that all others go by twos."""


def transposed_in_tiles(rows: tir.For, lanes: tir.For) -> tir.Stmt:
    """Loops over rows of an output and the elements of each, in tiles.

    Where they fill no tile, the last one computes again what fills it.
    """
    turned = _turned_loads(lanes.body, rows.loop_var, lanes.loop_var)
    if not turned or min(int(rows.extent), int(lanes.extent)) < TILE:
        return tir.For(rows.loop_var, 0, rows.extent, rows.kind, lanes)
    row_block, row_tile = (_variable(name, rows) for name in ("row_block", "row_tile"))
    lane_block, lane_tile = (_variable(name, lanes) for name in ("lane_block", "lane_tile"))
    some_rows, some_lanes = _together(rows, (2, 3)), _together(lanes, (2,))
    row_begin = _begin(row_block * some_rows + row_tile, rows)
    lane_begin = _begin(lane_block * some_lanes + lane_tile, lanes)
    nest = _tile(turned, rows, lanes, row_begin, lane_begin)
    serial = tir.ForKind.SERIAL
    nest = tir.For(lane_tile, 0, some_lanes, serial, nest)
    nest = tir.For(row_tile, 0, some_rows, serial, nest)
    nest = tir.For(lane_block, 0, -(-_tiles(lanes) // some_lanes), serial, nest)
    return tir.For(row_block, 0, -(-_tiles(rows) // some_rows), rows.kind, nest)


def _together(loop: tir.For, numbers: Sequence[int]) -> int:
    """Number of next tiles of a loop that are done one after another.

    So lines of cache, which are longer than a tile, are read and written while they are near.
    """
    tiles = _tiles(loop)
    return next((number for number in numbers if tiles % number == 0), 2 if tiles > MANY else 1)


def _tiles(loop: tir.For) -> int:
    return -(-int(loop.extent) // TILE)


def _begin(tile: tir.PrimExpr, loop: tir.For) -> tir.PrimExpr:
    """First iteration of a loop that a tile has."""
    extent = int(loop.extent)
    return tir.min(tile * TILE, extent - TILE)


def _turned_loads(store: tir.BufferStore, row: tir.Var, lane: tir.Var) -> list[tir.BufferLoad]:
    """Loads whose next element is that of the next row, each once."""
    found: list[tir.BufferLoad] = []

    def note(node: object) -> None:
        if not isinstance(node, tir.BufferLoad) or len(node.indices) != 1:
            return
        line = tvm.arith.detect_linear_equation(node.indices[0], [row, lane])
        is_turned = line and constant(line[0]) == 1 and constant(line[1]) not in (0, 1)
        if is_turned and not any(_is_same(node, other) for other in found):
            found.append(node)

    post_order_visit(store.value, note)
    return found


def _tile(
    turned: list[tir.BufferLoad],
    rows: tir.For,
    lanes: tir.For,
    row_begin: tir.PrimExpr,
    lane_begin: tir.PrimExpr,
) -> tir.Stmt:
    """Statement of one tile: loads of vectors along rows, turned, and used along lanes."""
    # Memory of the size of a vector each, which LLVM makes registers.
    held = [
        [tir.decl_buffer((TILE,), load.dtype, "column", scope="global") for _ in range(TILE)]
        for load in turned
    ]
    steps: list[tir.Stmt] = []
    for load, buffers in zip(turned, held, strict=True):
        index = load.indices[0]

        def vector(
            number: int, load: tir.BufferLoad = load, index: tir.PrimExpr = index
        ) -> tir.PrimExpr:
            begin = {rows.loop_var: row_begin, lanes.loop_var: lane_begin + number}
            return tir.BufferLoad(load.buffer, [tir.Ramp(substitute(index, begin), 1, TILE)])

        steps.append(_stored_transposed([vector(number) for number in range(TILE)], buffers))
    for number in range(TILE):
        lane = _variable("lane", lanes)
        places = {rows.loop_var: row_begin + number, lanes.loop_var: lane_begin + lane}
        columns = [buffers[number] for buffers in held]
        body = _with_loads(lanes.body, turned, columns, lane)
        body = substitute(body, places)
        steps.append(tir.For(lane, 0, TILE, tir.ForKind.VECTORIZED, body))
    return allocated([each for buffers in held for each in buffers], sequence(steps))


def _with_loads(
    store: tir.BufferStore,
    turned: list[tir.BufferLoad],
    columns: list[tir.Buffer],
    lane: tir.Var,
) -> tir.Stmt:
    """Statement with loads replaced by those of what was turned."""

    def replace(node: tir.BufferLoad) -> tir.PrimExpr | None:
        for load, column in zip(turned, columns, strict=True):
            if _is_same(node, load):
                return tir.BufferLoad(column, [lane])
        return None

    return ir_transform(store, None, replace, ["tir.BufferLoad"])


def _stored_transposed(vectors: list[tir.PrimExpr], buffers: list[tir.Buffer]) -> tir.Stmt:
    """Statement that stores the columns of a square of vectors.

    In each round pairs of vectors exchange the elements in which one bit of their number and of
    their place differ.
    """
    bound: list[tuple[tir.Var, tir.PrimExpr]] = []

    def bind(value: tir.PrimExpr) -> tir.Var:
        bound.append((tir.Var("turned", value.dtype), value))
        return bound[-1][0]

    current: list[tir.PrimExpr] = [bind(vector) for vector in vectors]
    bit = 1
    while bit < TILE:
        places = range(TILE)
        low = [TILE + place - bit if place & bit else place for place in places]
        high = [TILE + place if place & bit else place + bit for place in places]
        for number in (each for each in places if not each & bit):
            pair = [current[number], current[number + bit]]
            current[number] = bind(_shuffled(pair, low))
            current[number + bit] = bind(_shuffled(pair, high))
        bit *= 2
    everywhere = tir.Ramp(tir.IntImm("int32", 0), 1, TILE)
    stores = zip(buffers, current, strict=True)
    body = sequence([tir.BufferStore(buffer, value, [everywhere]) for buffer, value in stores])
    for variable, value in reversed(bound):
        body = tir.LetStmt(variable, value, body)
    return body


def _shuffled(pair: list[tir.PrimExpr], places: list[int]) -> tir.PrimExpr:
    return tir.Shuffle(pair, [tir.IntImm("int32", place) for place in places])


def _is_same(one: tir.BufferLoad, other: tir.BufferLoad) -> bool:
    # Structural equality of loads takes any buffer for any other of its shape.
    same_place = bool(tvm.ir.structural_equal(one.indices, other.indices))
    return bool(one.buffer.same_as(other.buffer)) and same_place


def _variable(name: str, loop: tir.For) -> tir.Var:
    return tir.Var(name, loop.loop_var.dtype)
