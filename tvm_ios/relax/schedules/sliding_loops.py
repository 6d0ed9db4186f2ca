"""Loops of a window that slides along rows of an image.

Of a row of the result a tile is summed up in registers: each vector of data is loaded once for a
row of the window, and combined with all results it belongs to. Tiles at both ends of a row are code
of their own, in which taps beyond the data are left out; rows of the window beyond it are no
iterations. So nothing is padded. What follows (bias, activation, a residual) is computed on the
sums. Every element is summed in the order in which TVM sums it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.core.window_tiles import Axis, Tile, tiles_along
from tvm_ios.relax.schedules.arithmetic import calls_dear
from tvm_ios.relax.schedules.tiles import (
    LEAST_PARALLEL,
    Vectors,
    divisor,
    element_written,
    in_order,
    substituted,
    unfused,
    vectors_of,
)

__all__ = ["Slide", "Sliding", "emit"]

MOST_SUMS = {16: 14}
"""Results of a tile, by the elements of a vector register; 8 for shorter ones."""
NEAR_BYTES = 1 << 14
"""Bytes of data that one task reads for a row of the result: the next row reads most of them again,
from the nearest cache."""
BAND = 8
"""Most rows that one task computes, whose data stay in the nearest cache."""

Places = Sequence[tuple[tirx.Var, Value]]
"""Variables, and what stands for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """Axis along which a window slides."""

    axis: Axis
    tap: tirx.Var | None
    """Variable of the window along it; None where it has one element there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding:
    """Kernel with one window along rows of an image: its axes, sums, and what it writes."""

    results: tuple[tirx.Var, ...]
    """Variables of the result: the last but one counts columns, the last lies in vectors."""
    extents: tuple[int, ...]
    """Extents of these."""
    row: tirx.Var | None
    """Variable of the result that counts rows along which a window slides or data are padded."""
    slides: Mapping[tirx.Var, Slide]
    """Axes of the data by variables of the result."""
    inputs: Mapping[tirx.Var, int]
    """Variable over channels of the data that are summed up, if any, and its extent."""
    combine: Callable[[Value, Value], Value]
    """Sum or maximum."""
    first: float
    """Number that the sum or maximum begins with."""
    added: Value
    """Term of the sum or maximum, by the variables of result, window and inputs."""
    total: Any
    """Array of the sums, which the statement that writes results reads."""
    write: tirx.BufferStore
    """Statement that writes an element of the result."""
    named: tuple[tirx.Var, ...]
    """Names of the variables of the result in that statement."""


def emit(sliding: Sliding, lanes: int) -> tirx.Stmt | None:
    """Statement that computes a window; None where its results fill no vector."""
    vectors = vectors_of(sliding.extents[-1], lanes)
    if not vectors:
        return None
    return _Emitter(sliding, vectors, MOST_SUMS.get(lanes, 8)).statement()


@dataclass(frozen=True, slots=True)
class _Emitter:
    sliding: Sliding
    vectors: Sequence[Vectors]
    most_sums: int

    def statement(self) -> tirx.Stmt:
        """Loops over tasks, and in each over tiles and vectors."""
        sliding = self.sliding
        rows, extents = sliding.results[:-2], list(sliding.extents[:-2])
        chunks = self._chunks()
        parts = self.vectors[0].count // chunks
        task, row = self._variable("task"), self._variable("row")
        if sliding.row is None:
            *indices, part = unfused(task, (*extents, parts))
            tasks, count = math.prod(extents) * parts, 1
        else:
            # Lanes share rows, as who made the data did; those of one part follow each other.
            at = rows.index(sliding.row)
            height = 1 if parts == 1 else _height(extents[at])
            bands = -(-extents[at] // height)
            numbers = unfused(task, (*extents[:at], bands, parts, *extents[at + 1 :]))
            part = numbers.pop(at + 1)
            count = height
            if extents[at] % height:
                count = tirx.min(self._number(height), extents[at] - numbers[at] * height)
            indices = [*numbers[:at], numbers[at] * height + row, *numbers[at + 1 :]]
            tasks = math.prod(extents) // extents[at] * bands * parts
        places = list(zip(rows, indices, strict=True))
        tiles = [
            self._tiles(places, each, part, chunks)
            for each in tiles_along(self._slide.axis, self.most_sums)
        ]
        is_large = math.prod(sliding.extents) * self._taps() >= LEAST_PARALLEL and tasks > 1
        kind = tirx.ForKind.PARALLEL if is_large else tirx.ForKind.SERIAL
        body = tirx.For(row, 0, count, tirx.ForKind.SERIAL, in_order(tiles))
        return tirx.For(task, 0, tasks, kind, body)

    def _chunks(self) -> int:
        """Vectors side by side that one task computes.

        All where the last ones are shorter, or where most of what a narrow row reads are weights,
        which are fetched best in their order.
        """
        first, *others = self.vectors
        columns, row = self._slide.axis, self.sliding.row
        if others or 2 * columns.kernel > columns.extent:
            return first.count
        taps = 1 if row is None else self.sliding.slides[row].axis.kernel
        bytes_of_chunk = 4 * first.lanes * columns.extent * taps
        return divisor(first.count, max(1, NEAR_BYTES // bytes_of_chunk))

    @property
    def _slide(self) -> Slide:
        return self.sliding.slides[self.sliding.results[-2]]

    def _taps(self) -> int:
        kernels = [each.axis.kernel for each in self.sliding.slides.values()]
        return math.prod((*kernels, *self.sliding.inputs.values()))

    def _tiles(self, places: Places, tile: Tile, part: Value, chunks: int) -> tirx.Stmt:
        number = self._variable("tile")
        begin = number * tile.width + tile.begin
        steps = []
        for vectors in self.vectors:
            chunk, count = self._variable("chunk"), min(chunks, vectors.count)
            channel = (part * chunks + chunk) * vectors.lanes + vectors.begin
            body = self._tile(places, tile, begin, channel, vectors.lanes)
            steps.append(tirx.For(chunk, 0, count, tirx.ForKind.SERIAL, body))
        return tirx.For(number, 0, tile.count, tirx.ForKind.SERIAL, in_order(steps))

    def _tile(
        self,
        places: Places,
        tile: Tile,
        begin: Value,
        channel: Value,
        lanes: int,
    ) -> tirx.Stmt:
        """Sums of one tile, and what is made of them."""
        sums = [_buffer(lanes, f"sum{number}") for number in range(tile.width)]
        first = tirx.const(self.sliding.first, "float32")
        return in_order(
            [
                *map(tirx.AllocBuffer, sums),
                *(self._stored(each, 0, lanes, lambda _: first) for each in sums),
                self._window_rows(places, tile, begin, channel, sums),
                *self._written(places, begin, channel, sums),
            ]
        )

    def _window_rows(
        self,
        places: Places,
        tile: Tile,
        begin: Value,
        channel: Value,
        sums: Sequence[Any],
    ) -> tirx.Stmt:
        """Additions of all rows of the window that read data."""
        row = self.sliding.row
        if row is None:
            return self._additions(places, tile, begin, channel, sums)
        slide = self.sliding.slides[row]
        place = next(each for variable, each in places if variable.same_as(row))
        first, behind = self._taps_inside(slide.axis, place)
        number = self._variable("tap")
        here = [] if slide.tap is None else [(slide.tap, first + number)]
        body = self._additions([*places, *here], tile, begin, channel, sums)
        return tirx.For(number, 0, behind - first, tirx.ForKind.SERIAL, body)

    def _taps_inside(self, axis: Axis, result: Value) -> tuple[Value, Value]:
        """First tap that reads data for an element of the result, and the one behind the last."""
        first, behind = self._number(0), self._number(axis.kernel)
        if axis.has_border:
            begin = result * axis.stride - axis.before
            first = tirx.max(first, tirx.floordiv(axis.dilation - 1 - begin, axis.dilation))
            end = tirx.floordiv(axis.extent - begin + axis.dilation - 1, axis.dilation)
            behind = tirx.max(first, tirx.min(behind, end))
        return first, behind

    def _additions(
        self,
        places: Places,
        tile: Tile,
        begin: Value,
        channel: Value,
        sums: Sequence[Any],
    ) -> tirx.Stmt:
        """Additions of one row of the window: of each column of data to all that it belongs to."""
        *_, column, lane = self.sliding.results
        added = substituted(self.sliding.added, places)
        (variable, count), *_ = (*self.sliding.inputs.items(), (None, 1))
        steps = []
        for _, pairs in tile.reads(self._slide.axis):
            for number in range(count):
                for at, tap in pairs:
                    here = [(column, begin + at)]
                    if self._slide.tap is not None:
                        here.append((self._slide.tap, self._number(tap)))
                    if variable is not None:
                        here.append((variable, self._number(number)))
                    value = substituted(added, here)
                    steps.append(self._add(sums[at], value, lane, channel))
        return in_order(steps) if steps else tirx.Evaluate(0)

    def _add(self, total: Any, value: Value, lane: tirx.Var, channel: Value) -> tirx.Stmt:
        def combined(at: tirx.Var) -> Value:
            return self.sliding.combine(total[at], substituted(value, [(lane, channel + at)]))

        return self._stored(total, 0, int(total.shape[0]), combined)

    def _written(
        self,
        places: Places,
        begin: Value,
        channel: Value,
        sums: Sequence[Any],
    ) -> list[tirx.Stmt]:
        """Statements that make results of sums."""
        lanes = int(sums[0].shape[0])

        def written(total: Any, first: Value | int, number: Value | int) -> tirx.Stmt:
            rows = [place for _, place in places]

            def one(lane: tirx.Var) -> tirx.Stmt:
                here = [*rows, begin + number, channel + lane]
                named = list(zip(self.sliding.named, here, strict=True))
                sums = self.sliding.total
                return element_written(self.sliding.write, sums, total[lane + first], named)

            return self._vector(lanes, one)

        if not calls_dear(self.sliding.write.value):
            return [written(each, 0, number) for number, each in enumerate(sums)]
        # Sums themselves would leave their registers, if a loop chose among them.
        kept = _buffer(len(sums) * lanes, "kept")
        number = self._variable("number")
        return [
            tirx.AllocBuffer(kept),
            *(
                self._stored(kept, n * lanes, lanes, total.__getitem__)
                for n, total in enumerate(sums)
            ),
            tirx.For(
                number, 0, len(sums), tirx.ForKind.SERIAL, written(kept, number * lanes, number)
            ),
        ]

    def _stored(
        self, buffer: Any, first: int, lanes: int, value: Callable[[tirx.Var], Value]
    ) -> tirx.Stmt:
        """Statement that stores a vector of values in a buffer."""
        return self._vector(lanes, lambda at: tirx.BufferStore(buffer, value(at), [at + first]))

    def _vector(self, lanes: int, make: Callable[[tirx.Var], tirx.Stmt]) -> tirx.Stmt:
        lane = self._variable("lane")
        return tirx.For(lane, 0, lanes, tirx.ForKind.VECTORIZED, make(lane))

    def _variable(self, name: str) -> tirx.Var:
        return tirx.Var(name, self.sliding.results[-1].ty.dtype)

    def _number(self, number: int) -> Value:
        return tirx.const(number, self.sliding.results[-1].ty.dtype)


def _height(rows: int) -> int:
    """Rows of a band, which one task computes: equally many in each where that is possible."""
    height = divisor(rows, BAND)
    if BAND // 2 <= height < rows:
        return height
    return -(-rows // max(2, -(-rows // BAND)))


def _buffer(elements: int, name: str) -> Any:
    return tirx.decl_buffer((elements,), "float32", name, layout=None)
