"""Two loops that read along one and write along the other, in tiles transposed in registers.

TVM reads each element by itself where it writes vectors. Here whole vectors are read and written;
between them the rows and columns of a tile change places by shuffles of two vectors each.
"""

from __future__ import annotations

import tvm
from tvm import tir
from tvm.tir.stmt_functor import ir_transform, post_order_visit, substitute

from tvm_ios.relay.row_kernels.loops import allocated, sequence
from tvm_ios.relay.row_kernels.tensors import constant
from tvm_ios.relay.schedules.flat_axes import TILE

__all__ = ["transposed_in_tiles"]


def transposed_in_tiles(rows: tir.For, lanes: tir.For) -> tir.Stmt:
    """Loops over rows of an output and the elements of each, in tiles.

    Elements that fill no tile are computed one by one.
    """
    store = lanes.body
    turned = _turned_loads(store, rows.loop_var, lanes.loop_var)
    row_tiles, rows_left = divmod(int(rows.extent), TILE)
    lane_tiles, lanes_left = divmod(int(lanes.extent), TILE)
    if not turned or not row_tiles or not lane_tiles:
        return tir.For(rows.loop_var, 0, rows.extent, rows.kind, lanes)
    row, lane = _variable("row", rows), _variable("lane", lanes)

    def at(row_index: tir.PrimExpr, lane_index: tir.PrimExpr) -> tir.Stmt:
        return substitute(store, {rows.loop_var: row_index, lanes.loop_var: lane_index})

    row_tile, lane_tile = _variable("row_tile", rows), _variable("lane_tile", lanes)
    serial = tir.ForKind.SERIAL
    tiles: list[tir.Stmt] = [
        tir.For(lane_tile, 0, lane_tiles, serial, _tile(turned, rows, lanes, row_tile, lane_tile))
    ]
    if lanes_left:
        one = at(row_tile * TILE + row, lane_tiles * TILE + lane)
        tiles.append(_twice(row, TILE, lane, lanes_left, one))
    parts = [tir.For(row_tile, 0, row_tiles, rows.kind, sequence(tiles))]
    if rows_left:
        row, lane = _variable("row", rows), _variable("lane", lanes)
        one = at(row_tiles * TILE + row, lane)
        parts.append(_twice(row, rows_left, lane, int(lanes.extent), one))
    return sequence(parts)


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
    row_tile: tir.Var,
    lane_tile: tir.Var,
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
            begin = {rows.loop_var: row_tile * TILE, lanes.loop_var: lane_tile * TILE + number}
            return tir.BufferLoad(load.buffer, [tir.Ramp(substitute(index, begin), 1, TILE)])

        steps.append(_stored_transposed([vector(number) for number in range(TILE)], buffers))
    for number in range(TILE):
        lane = _variable("lane", lanes)
        places = {rows.loop_var: row_tile * TILE + number, lanes.loop_var: lane_tile * TILE + lane}
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


def _twice(row: tir.Var, rows: int, lane: tir.Var, lanes: int, body: tir.Stmt) -> tir.Stmt:
    inner = tir.For(lane, 0, lanes, tir.ForKind.SERIAL, body)
    return tir.For(row, 0, rows, tir.ForKind.SERIAL, inner)


def _variable(name: str, loop: tir.For) -> tir.Var:
    return tir.Var(name, loop.loop_var.dtype)
