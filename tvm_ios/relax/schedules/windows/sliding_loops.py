"""Loops of a window that slides along rows of an image.

Of a row of the result a tile is summed up in registers: each vector of data is loaded once for a
row of the window, and combined with all results it belongs to. Tiles at both ends of a row are code
of their own, in which taps beyond the data are left out; rows of the window beyond it are no
iterations. So nothing is padded. What follows (bias, activation, a residual) is computed on the
sums. Every element is summed in the order in which TVM sums it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.core.window_tiles import Tile, tiles_along
from tvm_ios.relax.schedules.tiles import (
    Vectors,
    divisor,
    in_order,
    substituted,
    unfused,
    vectors_of,
)
from tvm_ios.relax.schedules.windows.window_sums import (
    Places,
    Slide,
    Sliding,
    WindowSums,
    lanes_in_registers,
)

__all__ = ["emit"]

MOST_SUMS = {16: 14}
"""Results of a tile, by the elements of a vector register; 8 for shorter ones."""
NEAR_BYTES = 1 << 14
"""Bytes of data that one task reads for a row of the result: the next row reads most of them again,
from the nearest cache."""
BAND = 8
"""Most rows that one task computes, whose data stay in the nearest cache."""


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
        task, row = self._sums.variable("task"), self._sums.variable("row")
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
                count = tirx.min(self._sums.number(height), extents[at] - numbers[at] * height)
            indices = [*numbers[:at], numbers[at] * height + row, *numbers[at + 1 :]]
            tasks = math.prod(extents) // extents[at] * bands * parts
        places = list(zip(rows, indices, strict=True))
        tiles = [
            self._tiles(places, each, part, chunks)
            for each in tiles_along(self._slide.axis, self.most_sums)
        ]
        body = tirx.For(row, 0, count, tirx.ForKind.SERIAL, in_order(tiles))
        return self._sums.shared(task, tasks, body)

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

    @property
    def _sums(self) -> WindowSums:
        return WindowSums(self.sliding)

    def _tiles(self, places: Places, tile: Tile, part: Value, chunks: int) -> tirx.Stmt:
        number = self._sums.variable("tile")
        begin = number * tile.width + tile.begin
        steps = []
        for vectors in self.vectors:
            chunk, count = self._sums.variable("chunk"), min(chunks, vectors.count)
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
        sums = [lanes_in_registers(lanes, f"sum{number}") for number in range(tile.width)]
        return in_order(
            [
                *self._sums.started(sums),
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
        first, behind = self._sums.taps_inside(slide.axis, place)
        number = self._sums.variable("tap")
        here = [] if slide.tap is None else [(slide.tap, first + number)]
        body = self._additions([*places, *here], tile, begin, channel, sums)
        return tirx.For(number, 0, behind - first, tirx.ForKind.SERIAL, body)

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
        sliding = self.sliding
        whole = substituted(sliding.added, [(sliding.element, sliding.data)])
        added = substituted(whole, places)
        (variable, count), *_ = (*self.sliding.inputs.items(), (None, 1))
        steps = []
        for _, pairs in tile.reads(self._slide.axis):
            for number in range(count):
                for at, tap in pairs:
                    here = [(column, begin + at)]
                    if self._slide.tap is not None:
                        here.append((self._slide.tap, self._sums.number(tap)))
                    if variable is not None:
                        here.append((variable, self._sums.number(number)))
                    value = substituted(added, here)
                    steps.append(self._add(sums[at], value, lane, channel))
        return in_order(steps) if steps else tirx.Evaluate(0)

    def _add(self, total: Any, value: Value, lane: tirx.Var, channel: Value) -> tirx.Stmt:
        return self._sums.added(total, lambda at: substituted(value, [(lane, channel + at)]))

    def _written(
        self,
        places: Places,
        begin: Value,
        channel: Value,
        sums: Sequence[Any],
    ) -> list[tirx.Stmt]:
        """Statements that make results of sums."""
        rows = [place for _, place in places]
        return self._sums.all_written(
            sums,
            0,
            int(sums[0].shape[0]),
            lambda number, lane: [*rows, begin + number, channel + lane],
        )


def _height(rows: int) -> int:
    """Rows of a band, which one task computes: equally many in each where that is possible."""
    height = divisor(rows, BAND)
    if BAND // 2 <= height < rows:
        return height
    return -(-rows // max(2, -(-rows // BAND)))
