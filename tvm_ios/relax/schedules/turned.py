"""Loops of kernels that read along one axis and write along another: transposes.

Tried before other loops. Whole vectors are read and written. Between them the rows and columns of a
tile change places by shuffles of two vectors each. What follows is computed in the same vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import tvm
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.injective import inlined
from tvm_ios.relax.schedules.strides import Access, Turn, turn_of, turns
from tvm_ios.relax.schedules.tiles import over_tasks, unfused, with_loops

__all__ = ["turned"]

LINE, SHORTEST = 16, 4
"""Elements of a line of cache, and of the shortest row of a tile."""


def turned(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc | None:
    """Kernel that reads along another axis than it writes, in tiles; None for others."""
    block = inlined(function)
    turn = None if block is None else turn_of(block)
    if turn is None:
        return None
    is_short = min(turn.row.extent, turn.column.extent) < SHORTEST
    loops = _interleaved(turn, lanes) if is_short else _loops(turn, lanes)
    if loops is None:
        return None
    return with_loops(function, loops)


def _loops(turn: Turn, lanes: int) -> tirx.Stmt:
    """Loops over blocks of a line by a line of cache, in which tiles are."""
    outer, inner = (turn.row, turn.column) if _reads_on(turn) else (turn.column, turn.row)
    tile = min(lanes, _block(outer.extent), _block(inner.extent))
    names = ("task", "block", "outer", "inner")
    task, block, *parts = (tirx.Var(name, "int64") for name in names)
    counts = [*(axis.extent for axis in turn.others), _blocks(outer.extent)]
    *numbers, number = unfused(task, counts)
    places = dict(zip((axis.variable for axis in turn.others), numbers, strict=True))
    for axis, at, part in zip((outer, inner), (number, block), parts, strict=True):
        # The last block ends where the axis ends, and writes some elements once more.
        begin = tirx.min(at * _block(axis.extent), axis.extent - _block(axis.extent))
        places[axis.variable] = begin + part * tile
    body: tirx.Stmt = tirx.SeqStmt(_tile(turn, places, tile))
    for part, axis in ((parts[1], inner), (parts[0], outer)):
        body = tirx.For(part, 0, _block(axis.extent) // tile, tirx.ForKind.SERIAL, body)
    body = tirx.For(block, 0, _blocks(inner.extent), tirx.ForKind.SERIAL, body)
    size = math.prod(axis.extent for axis in (turn.row, turn.column, *turn.others))
    return over_tasks(task, math.prod(counts), body, size)


def _reads_on(turn: Turn) -> bool:
    """True if reading goes on along a line, and writing jumps from line to line.

    Jumps are to whole lines of cache if they can be, and rather to near ones than to far ones.
    """
    strides = [each.strides[turn.row.variable] for each in turn.read]
    reading = min(stride for stride in strides if turns(stride))
    writing = turn.written.strides[turn.column.variable]
    return (writing % LINE > 0, writing) < (reading % LINE > 0, reading)


def _tile(turn: Turn, places: Mapping[tirx.Var, Value], size: int) -> list[tirx.Stmt]:
    """Statements for the tile that begins at some places."""
    row, column = turn.row.variable, turn.column.variable
    steps: list[tirx.Stmt] = []
    buffers = []
    for access in turn.read:
        vectors = []
        for at in range(size) if turns(access.strides[row]) else ():
            *zeros, begin = access.indices({**places, row: places[row] + at})
            place = [*zeros, tirx.Ramp(begin, 1, size)]
            vectors.append(_bound(tirx.BufferLoad(access.array, place), steps))
        buffers.append([_kept(each, steps) for each in _transposed(vectors, steps)])
    for at in range(size):
        lane = tirx.Var("lane", "int64")
        here = {**places, row: places[row] + lane, column: places[column] + at}
        elements = [
            tirx.BufferLoad(vectors[at], [lane])
            if vectors
            else tirx.BufferLoad(access.array, access.indices(here))
            for access, vectors in zip(turn.read, buffers, strict=True)
        ]
        value = turn.value_of(elements)
        body = tirx.BufferStore(turn.store.buffer, value, turn.written.indices(here))
        steps.append(tirx.For(lane, 0, size, tirx.ForKind.VECTORIZED, body))
    return steps


def _interleaved(turn: Turn, lanes: int) -> tirx.Stmt | None:
    """Loop over vectors of 2 or 3 arrays, such as colours, that become one, or that one becomes.

    None for what is computed with them, and where elements of the one do not lie side by side.
    """
    few, many = sorted((turn.row, turn.column), key=lambda axis: axis.extent)
    count, read = few.extent, turn.read[0]
    joined = turn.written if few is turn.row else read
    is_copy = isinstance(turn.store.value, tvm.ir.TensorLoad)
    if not is_copy or joined.strides[many.variable] != count or many.extent < SHORTEST:
        return None
    size = min(lanes, 1 << many.extent.bit_length() - 1)
    counts = [*(axis.extent for axis in turn.others), -(-many.extent // size)]
    task = tirx.Var("task", "int64")
    *numbers, block = unfused(task, counts)
    places = dict(zip((axis.variable for axis in turn.others), numbers, strict=True))
    places[many.variable] = tirx.min(block * size, many.extent - size)

    def vectors(access: Access) -> list[list[Value]]:
        """Indices of a vector of each array, or of as many side by side."""
        found = []
        for at in range(count):
            array, after = (0, at * size) if access is joined else (at, 0)
            *zeros, begin = access.indices({**places, few.variable: tirx.const(array, "int64")})
            found.append([*zeros, tirx.Ramp(begin + after, 1, size)])
        return found

    steps: list[tirx.Stmt] = []
    loaded = [_bound(tirx.BufferLoad(read.array, at), steps) for at in vectors(read)]
    order = [number + at * count for number in range(count) for at in range(size)]
    if joined is not read:
        order = [order.index(at) for at in range(count * size)]
    for number, at in enumerate(vectors(turn.written)):
        chosen = order[number * size : (number + 1) * size]
        steps.append(tirx.BufferStore(turn.store.buffer, tirx.Shuffle(loaded, chosen), at))
    tasks = math.prod(counts)
    return over_tasks(task, tasks, tirx.SeqStmt(steps), tasks * count * size)


def _block(extent: int) -> int:
    """Elements of a block along an axis: a line, or half of one where little would be left."""
    if extent < LINE // 2:
        return SHORTEST
    return LINE if -extent % LINE <= extent // 10 else LINE // 2


def _blocks(extent: int) -> int:
    return -(-extent // _block(extent))


def _bound(vector: Value, steps: list[tirx.Stmt]) -> tirx.Var:
    """Name of a vector from the next statement on."""
    steps.append(tirx.Bind(tirx.Var("vector", vector.ty), vector))
    return steps[-1].var


def _kept(vector: tirx.Var, steps: list[tirx.Stmt]) -> tirx.Buffer:
    """Place of a vector whose elements are read one by one, as vectors are made of."""
    lanes = tirx.Ramp(0, 1, vector.ty.dtype.lanes)
    buffer = tirx.decl_buffer((lanes.lanes,), "float32", "turned", layout=None)
    steps += [tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, vector, [lanes])]
    return buffer


def _transposed(rows: Sequence[Value], steps: list[tirx.Stmt]) -> list[Value]:
    """Columns of rows that have as many elements: first of every four, then of such fours."""
    size = len(rows)

    def columns(vectors: Sequence[Value], grain: int, within: int) -> Sequence[Value]:
        """Columns of parts of so many elements, in vectors or in pieces of them."""
        if len(vectors) == 1:
            return vectors
        halves = []
        for odd in (0, grain):
            chosen = [
                vector + begin + part + at
                for begin in range(0, size, within)
                for vector in (0, size)
                for part in range(odd, within, 2 * grain)
                for at in range(grain)
            ]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            mixed = [_bound(tirx.Shuffle(list(pair), chosen), steps) for pair in pairs]
            halves.append(columns(mixed, grain, within))
        return [each for both in zip(*halves, strict=True) for each in both]

    fours = [columns(rows[begin : begin + 4], 1, 4) for begin in range(0, size, 4)]
    parts = [columns(each, 4, size) for each in zip(*fours, strict=True)]
    return [each for four in zip(*parts, strict=True) for each in four]
