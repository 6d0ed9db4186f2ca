"""Loops of a depthwise or grouped convolution.

Lanes share rows and ranges of channels. Of a row of the result a tile is summed up in registers:
each vector of data is loaded once for a row of the kernel, and added to all results it belongs to.
Where a tile reads beyond the data, taps are left out when the kernel is made: nothing is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tir

from tvm_ios.core.window_tiles import Axis, Tile
from tvm_ios.kernels.elements import Elements, ramp
from tvm_ios.kernels.loops import allocated, loop, sequence, vector
from tvm_ios.relay.grouped.geometry import Geometry
from tvm_ios.relay.grouped.loads import value_of_groups

__all__ = ["Finish", "emit"]

BAND = 8
"""Rows of a block of channels that one task computes: data they share stay in the nearest cache."""
ENOUGH_TASKS = 32
"""Tasks that lanes can share evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Statements that make an element of the result of a sum."""

    write: Callable[[tir.PrimExpr, list[tir.PrimExpr]], tir.Stmt]
    """Function from a sum and the indices of its element to a statement that writes the result."""
    is_long: bool
    """True if it is so much code that it should be there once a tile, not once a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Place of a vector of results, but for its column."""

    image: tir.PrimExpr
    block: tir.PrimExpr
    channel: tir.PrimExpr
    row: tir.PrimExpr


def emit(shape: Geometry, data: tir.Buffer, weight: tir.Buffer, finish: Finish) -> tir.Stmt:
    """Statement that computes a convolution, and all that follows by ``finish``.

    ``data`` and ``weight`` are rows of elements.
    """
    return _Emitter(shape, data, weight, finish).statement()


@dataclass(frozen=True, slots=True)
class _Emitter:
    shape: Geometry
    data: tir.Buffer
    weight: tir.Buffer
    finish: Finish

    def statement(self) -> tir.Stmt:
        """Loops over tasks, and in each over rows, tiles and vectors of channels."""
        shape, rows = self.shape, self.shape.rows.result
        # Beside each other lie all channels of a pixel, or the rows of a block.
        height = min(rows, BAND) if shape.data.block else 1
        bands = -(-rows // height)
        tasks = shape.batch * shape.blocks * bands
        chunks = shape.chunks // min(shape.chunks, -(-ENOUGH_TASKS // tasks))
        parts = -(-shape.chunks // chunks)
        task, row, chunk = (tir.Var(name, "int32") for name in ("task", "row", "chunk"))
        image, block, band, part = _unfused(task, (shape.batch, shape.blocks, bands, parts))
        place = _Place(
            image=image,
            block=block,
            # What is last begins earlier, and computes some results again.
            channel=tir.min((part * chunks + chunk) * shape.vector, shape.channels - shape.vector),
            row=tir.min(band * height, rows - height) + row,
        )
        tiles = [self._tiles(place, tile, chunk, chunks) for tile in shape.tiles()]
        body = tir.For(row, 0, height, tir.ForKind.SERIAL, sequence(tiles))
        return tir.For(task, 0, tasks * parts, tir.ForKind.PARALLEL, body)

    def _tiles(self, place: _Place, tile: Tile, chunk: tir.Var, chunks: int) -> tir.Stmt:
        number = tir.Var("tile", "int32")
        body = self._tile(place, tile, tile.begin + number * tile.width)
        for name, count in ((chunk, chunks), (number, tile.count)):
            body = tir.For(name, 0, count, tir.ForKind.SERIAL, body)
        return body

    def _tile(self, place: _Place, tile: Tile, begin: tir.PrimExpr) -> tir.Stmt:
        """Sums of one tile, and what is made of them."""
        lanes = self.shape.vector
        sums = [_buffer(lanes, f"sum{number}") for number in range(tile.width)]
        zero = tir.Broadcast(tir.const(0, "float32"), lanes)
        zeros = [tir.BufferStore(each, zero, [ramp(0, lanes)]) for each in sums]
        added = self._kernel_rows(place, tile, begin, sums)
        written = self._written(place, begin, sums)
        fetched = self._fetched(place, tile, begin) if self.shape.is_far else []
        return allocated(sums, sequence([*fetched, *zeros, added, *written]))

    def _written(
        self, place: _Place, begin: tir.PrimExpr, sums: Sequence[tir.Buffer]
    ) -> list[tir.Stmt]:
        """Statements that make results of sums."""
        lanes = self.shape.vector

        def written(
            total: tir.Buffer, first: tir.PrimExpr | int, number: tir.PrimExpr | int
        ) -> tir.Stmt:
            image = [place.image, place.block] if self.shape.data.block else [place.image]

            def one(lane: tir.PrimExpr) -> tir.Stmt:
                indices = [*image, place.row, begin + number, place.channel + lane]
                return self.finish.write(total[first + lane], indices)

            return vector(lanes, one)

        if not self.finish.is_long:
            return [written(each, 0, number) for number, each in enumerate(sums)]
        # Sums themselves would leave their registers, if a loop chose among them.
        kept = _buffer(len(sums) * lanes, "kept")
        copies = [
            tir.BufferStore(kept, tir.BufferLoad(each, [ramp(0, lanes)]), [ramp(n * lanes, lanes)])
            for n, each in enumerate(sums)
        ]
        results = loop(len(sums), lambda number: written(kept, number * lanes, number))
        return [allocated([kept], sequence([*copies, results]))]

    def _fetched(self, place: _Place, tile: Tile, begin: tir.PrimExpr) -> list[tir.Stmt]:
        """Statements that have data fetched which this tile of the next row is the first to read.

        Processors foresee no columns far apart.
        """
        shape, rows, step = self.shape, self.shape.rows, self.shape.columns.stride
        last = rows.place(1, rows.kernel - 1)
        elements = [
            shape.data_place(
                place.image,
                place.block,
                place.row * rows.stride + last - back,
                begin * step + column,
                place.channel,
            )
            for back in range(min(rows.stride, rows.kernel))
            for column in range(tile.width * step)
        ]
        return [tir.Evaluate(_fetch(tir.BufferLoad(self.data, [each]))) for each in elements]

    def _kernel_rows(
        self, place: _Place, tile: Tile, begin: tir.PrimExpr, sums: Sequence[tir.Buffer]
    ) -> tir.Stmt:
        """Additions of all rows of the kernel that read data."""
        shape = self.shape
        number = tir.Var("tap", "int32")
        first, last = _taps_inside(shape.rows, place.row)
        # Code generation takes loops from 0 only.
        tap = first + number
        line = place.row * shape.rows.stride + tap * shape.rows.dilation - shape.rows.before
        column = begin * shape.columns.stride - shape.columns.before
        data, weights = Elements.of(self.data, "line"), Elements.of(self.weight, "taps")
        body = self._inputs(tile, data, weights, sums)
        body = weights.bound(shape.weight_place(place.block, tap, place.channel), body)
        body = data.bound(
            shape.data_place(place.image, place.block, line, column, place.channel), body
        )
        return tir.For(number, 0, last - first, tir.ForKind.SERIAL, body)

    def _inputs(
        self, tile: Tile, data: Elements, weights: Elements, sums: Sequence[tir.Buffer]
    ) -> tir.Stmt:
        """Additions of one row of the kernel, one channel of the groups after the other."""
        count = self.shape.group_inputs

        def of_input(number: tir.PrimExpr | int) -> tir.Stmt:
            return self._additions(tile, data, weights, number, sums)

        if self.shape.fills_vectors:
            return loop(count, of_input)
        return sequence([of_input(number) for number in range(count)])

    def _additions(
        self,
        tile: Tile,
        data: Elements,
        weights: Elements,
        number: tir.PrimExpr | int,
        sums: Sequence[tir.Buffer],
    ) -> tir.Stmt:
        """Additions of one row of the kernel and one channel of each group."""
        shape, dtype = self.shape, f"float32x{self.shape.vector}"
        held = [tir.Var(f"weight{tap}", dtype) for tap in range(shape.columns.kernel)]
        statements = []
        used: set[int] = set()
        for offset, pairs in tile.reads(shape.columns):
            value = tir.Var("value", dtype)
            load = value_of_groups(shape, data, offset * shape.data.column, number)
            adds = [_add(sums[at], held[tap], value) for at, tap in pairs]
            statements.append(tir.LetStmt(value, load, sequence(adds)))
            used.update(tap for _, tap in pairs)
        body = sequence(statements) if statements else tir.Evaluate(0)
        for tap in sorted(used):
            place = number * shape.weight_input + tap * shape.weight_tap
            body = tir.LetStmt(held[tap], weights.vector(place, shape.vector), body)
        return body


def _buffer(elements: int, name: str) -> tir.Buffer:
    # Of any other scope TVM would take it from its pool, which takes as long as a tile.
    return tir.decl_buffer((elements,), "float32", name, scope="global")


def _fetch(element: tir.PrimExpr) -> tir.PrimExpr:
    """Call that has data brought to the second cache, to be read."""
    return tir.call_intrin("int32", "tir.prefetch", tir.address_of(element), 0, 2, 1)


def _unfused(task: tir.Var, extents: Sequence[int]) -> list[tir.PrimExpr]:
    """Indices of loops of some extents that are one loop, the innermost last."""
    found: list[tir.PrimExpr] = []
    rest: tir.PrimExpr = task
    for extent in reversed(extents):
        found.insert(0, tir.indexmod(rest, extent))
        rest = tir.indexdiv(rest, extent)
    return found


def _add(total: tir.Buffer, weight: tir.Var, value: tir.Var) -> tir.Stmt:
    place = [ramp(0, int(total.shape[0]))]
    return tir.BufferStore(total, tir.BufferLoad(total, place) + value * weight, place)


def _taps_inside(axis: Axis, result: tir.PrimExpr) -> tuple[tir.PrimExpr, tir.PrimExpr]:
    """First tap that reads data for an element of the result, and the one behind the last."""
    first, last = tir.const(0, "int32"), tir.const(axis.kernel, "int32")
    if axis.has_border:
        begin = result * axis.stride - axis.before
        first = tir.max(first, tir.indexdiv(axis.dilation - 1 - begin, axis.dilation))
        behind = tir.indexdiv(axis.extent - begin + axis.dilation - 1, axis.dilation)
        last = tir.max(first, tir.min(last, behind))
    return first, last
