"""Loops of kernels that read along one axis and write along another: transposes.

Tried before other loops. Whole vectors are read and written. Between them the rows and columns of a
tile change places by shuffles of two vectors each. What follows is computed in the same vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.injective import inlined
from tvm_ios.relax.schedules.strides import Access, Axis, access_of, merged_axes
from tvm_ios.relax.schedules.tiles import LEAST_PARALLEL, loads_of, unfused, uses

__all__ = ["turned"]

LINE, SHORTEST = 16, 4
"""Elements of a line of cache, and of the shortest row of a tile."""


def turned(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc | None:
    """Kernel that reads along another axis than it writes, in tiles; None for others."""
    block = inlined(function)
    turn = None if block is None else _turn(block)
    if turn is None:
        return None
    root = s_tir.SBlock([], [], [], "root", turn.loops(lanes))
    return function.with_body(s_tir.SBlockRealize([], True, root))


@dataclass(frozen=True, slots=True)
class _Turn:
    """Block that writes along rows, and reads some arrays along columns."""

    store: tirx.BufferStore
    loads: Sequence[tvm.ir.TensorLoad]
    written: Access
    read: Sequence[Access]
    """Element of each load."""
    row: Axis
    column: Axis
    others: Sequence[Axis]

    def loops(self, lanes: int) -> tirx.Stmt:
        """Loops over blocks of a line by a line of cache, in which tiles are."""
        outer, inner = (self.row, self.column) if self._reads_on() else (self.column, self.row)
        tile = min(lanes, _block(outer.extent), _block(inner.extent))
        names = ("task", "block", "outer", "inner")
        task, block, *parts = (tirx.Var(name, "int64") for name in names)
        counts = [*(axis.extent for axis in self.others), _blocks(outer.extent)]
        *numbers, number = unfused(task, counts)
        places = dict(zip((axis.variable for axis in self.others), numbers, strict=True))
        for axis, at, part in zip((outer, inner), (number, block), parts, strict=True):
            # The last block ends where the axis ends, and writes some elements once more.
            begin = tirx.min(at * _block(axis.extent), axis.extent - _block(axis.extent))
            places[axis.variable] = begin + part * tile
        body: tirx.Stmt = tirx.SeqStmt(self._tile(places, tile))
        for part, axis in ((parts[1], inner), (parts[0], outer)):
            body = tirx.For(part, 0, _block(axis.extent) // tile, tirx.ForKind.SERIAL, body)
        body = tirx.For(block, 0, _blocks(inner.extent), tirx.ForKind.SERIAL, body)
        size = math.prod(axis.extent for axis in (self.row, self.column, *self.others))
        kind = tirx.ForKind.PARALLEL if size >= LEAST_PARALLEL else tirx.ForKind.SERIAL
        return tirx.For(task, 0, math.prod(counts), kind, body)

    def _reads_on(self) -> bool:
        """True if reading goes on along a line, and writing jumps from line to line.

        Jumps are to whole lines of cache if they can be, and rather to near ones than to far ones.
        """
        strides = [each.strides[self.row.variable] for each in self.read]
        reading = min(stride for stride in strides if _turns(stride))
        writing = self.written.strides[self.column.variable]
        return (writing % LINE > 0, writing) < (reading % LINE > 0, reading)

    def _tile(self, places: Mapping[tirx.Var, Value], size: int) -> list[tirx.Stmt]:
        """Statements for the tile that begins at some places."""
        row, column = self.row.variable, self.column.variable
        steps: list[tirx.Stmt] = []
        buffers = []
        for access in self.read:
            vectors = []
            for at in range(size) if _turns(access.strides[row]) else ():
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
                for access, vectors in zip(self.read, buffers, strict=True)
            ]
            value = _with_elements(self.store.value, self.loads, elements)
            body = tirx.BufferStore(self.store.buffer, value, self.written.indices(here))
            steps.append(tirx.For(lane, 0, size, tirx.ForKind.VECTORIZED, body))
        return steps


def _turn(block: s_tir.SBlock) -> _Turn | None:
    """What a block turns; None if that is nothing."""
    store, variables = block.body, [each.var for each in block.iter_vars]
    if not isinstance(store, tirx.BufferStore):
        return None
    loads = loads_of(store.value)
    found = [access_of(each, variables) for each in (store, *loads)]
    accesses = [each for each in found if each is not None]
    zeros = [tirx.const(0, load.ty.dtype) for load in loads]
    outside = _with_elements(store.value, loads, zeros)
    if len(accesses) < len(found) or any(uses(outside, each) for each in variables):
        return None
    written, *read = accesses
    axes = merged_axes(block, accesses)
    rows = [axis for axis in axes if written.strides[axis.variable] == 1]
    turning = [each for each in read if rows and _turns(each.strides[rows[0].variable])]
    columns = [
        axis
        for axis in axes
        if turning and all(each.strides[axis.variable] == 1 for each in turning)
    ]
    if not columns or min(rows[0].extent, columns[0].extent) < SHORTEST:
        return None
    if any(str(each.array.ty.dtype) != "float32" for each in turning):
        return None
    others = [axis for axis in axes if axis not in (rows[0], columns[0])]
    return _Turn(store, loads, written, read, rows[0], columns[0], others)


def _turns(stride: int) -> bool:
    """True for an array of which elements of a written row are apart."""
    return stride not in (0, 1)


def _with_elements(
    value: Value, loads: Sequence[tvm.ir.TensorLoad], elements: Sequence[Value]
) -> Value:
    """Value with others in the place of what it loads."""
    pairs = list(zip(loads, elements, strict=True))

    def element(load: tvm.ir.TensorLoad) -> Value:
        return next(new for old, new in pairs if tvm_ffi.structural_equal(load, old))

    return tvm_ffi.structural_map(value, (tvm.ir.TensorLoad, element), order="post")


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
