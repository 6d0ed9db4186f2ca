"""Loops of a window along rows that lie together in memory, as in NCHW.

Vectors are neighbouring results of a row. Windows of single channels (depthwise convolutions,
pools) have a tile of several rows in registers, and each vector of data is loaded once for all rows
that read it. Windows over all channels have a tile of several channels of the result. Strided data
are shuffled from whole vectors, and what is beyond the ends of a row is masked, so nothing is
padded. Every element is summed in the order in which TVM sums it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.core.window_tiles import RowVectors, Tile, row_vectors, tiles_along
from tvm_ios.relax.schedules.tiles import (
    LEAST_LANES,
    divisor,
    in_order,
    substituted,
    unfused,
    vectors_of,
)
from tvm_ios.relax.schedules.windows.row_loads import RowLoads
from tvm_ios.relax.schedules.windows.window_sums import (
    Places,
    Sliding,
    WindowSums,
    lanes_in_registers,
)

__all__ = ["emit_rows"]

ROWS, TOGETHER = 4, 2
"""Rows of a tile of single channels, and vectors of each, which share weights. With more of both,
LLVM reads ahead until its registers no longer hold the sums."""
MOST_TERMS = 200
"""Terms of a tile of single channels, each of which is code of its own."""
CHANNELS = 8
"""Channels of a tile, all with one vector of a row."""


def emit_rows(sliding: Sliding, lanes: int) -> tirx.Stmt | None:
    """Statement that computes a window; None where its results fill no vector."""
    if sliding.extents[-1] < LEAST_LANES:
        return None
    columns = sliding.slides[sliding.results[-1]].axis
    shared = [each for each in sliding.results if each not in sliding.slides]
    together, across = 1, CHANNELS
    if not shared:
        together, across = TOGETHER, max(1, min(ROWS, MOST_TERMS // (TOGETHER * sliding.taps)))
    groups = list(row_vectors(columns, lanes, LEAST_LANES, together))
    return _Emitter(sliding, groups, across).statement()


@dataclass(frozen=True, slots=True)
class _Emitter:
    sliding: Sliding
    groups: Sequence[RowVectors]
    most_across: int
    """Most rows, or channels of the result, of a tile."""

    def statement(self) -> tirx.Stmt:
        """Loops over tasks, and in each over tiles."""
        sliding, across = self.sliding, self._across
        extents = list(sliding.extents[:-1])
        tiles = self._tiles()
        is_task = len(tiles) == tiles[0].count == 1
        extents[across] = extents[across] // tiles[0].width if is_task else 1
        task = self._sums.variable("task")
        numbers = unfused(task, extents)
        steps = []
        for tile in tiles:
            number = self._sums.variable("tile")
            places = list(zip(sliding.results, numbers, strict=False))
            first = (numbers[across] + number) * tile.width + tile.begin
            rows = [
                [*places[:across], (places[across][0], first + n), *places[across + 1 :]]
                for n in range(tile.width)
            ]
            body = in_order([self._group(rows, tile, each) for each in self.groups])
            steps.append(tirx.For(number, 0, tile.count, tirx.ForKind.SERIAL, body))
        return self._sums.shared(task, math.prod(extents), in_order(steps))

    @property
    def _sums(self) -> WindowSums:
        return WindowSums(self.sliding)

    def _tiles(self) -> list[Tile]:
        """Tiles of rows or channels; one tile where all are alike, and each is a task."""
        extent, row = self.sliding.extents[self._across], self.sliding.row
        if row is not None and not self._is_alike:
            return list(tiles_along(self.sliding.slides[row].axis, self.most_across))
        width = divisor(extent, self.most_across)
        if 2 * width > min(extent, self.most_across):
            return [Tile(begin=0, width=width)]
        width = -(-extent // -(-extent // self.most_across))
        whole, rest = divmod(extent, width)
        return [Tile(begin=0, width=width, count=whole), Tile(begin=extent - rest, width=rest)]

    @property
    def _across(self) -> int:
        """Number of the variable of the result of which a tile has several."""
        sliding, others = self.sliding, self.sliding.results[:-1]
        shared = [at for at, each in enumerate(others) if each not in sliding.slides]
        if shared:
            return shared[0]
        return len(others) - 1 if sliding.row is None else others.index(sliding.row)

    @property
    def _is_alike(self) -> bool:
        """True if all rows or channels of a tile read the same data."""
        variable = self.sliding.results[self._across]
        return self.most_across == 1 or variable not in self.sliding.slides

    def _group(self, rows: Sequence[Places], tile: Tile, group: RowVectors) -> tirx.Stmt:
        """Sums of the vectors of one tile, and what is made of them."""
        number = self._sums.variable("group")
        begin = number * group.width + group.begin
        sums = [
            [lanes_in_registers(each.lanes, f"sum{at}") for each in group.vectors]
            for at in range(tile.width)
        ]
        body = in_order(
            [
                *self._sums.started([one for each in sums for one in each]),
                self._additions(rows, tile, group, begin, sums),
                *self._written(rows, group, begin, sums),
            ]
        )
        return tirx.For(number, 0, group.count, tirx.ForKind.SERIAL, body)

    def _additions(
        self,
        rows: Sequence[Places],
        tile: Tile,
        group: RowVectors,
        begin: Value,
        sums: Sequence[Sequence[Any]],
    ) -> tirx.Stmt:
        """Additions of all that a tile reads."""
        sliding = self.sliding
        inputs = [(each, self._sums.variable("input")) for each in sliding.inputs]
        if self._is_alike:
            body = self._alike_added(rows, inputs, group, begin, sums)
        else:
            slide, steps = sliding.slides[sliding.results[self._across]], []
            for _, pairs in tile.reads(slide.axis):
                readers = []
                for at, tap in pairs:
                    here = [] if slide.tap is None else [(slide.tap, self._sums.number(tap))]
                    readers.append((sums[at], [*rows[at], *inputs, *here]))
                steps.append(self._row_added(group, begin, readers))
            body = in_order(steps) if steps else tirx.Evaluate(0)
        for (_, number), extent in zip(inputs, sliding.inputs.values(), strict=True):
            body = tirx.For(number, 0, extent, tirx.ForKind.SERIAL, body)
        return body

    def _alike_added(
        self,
        rows: Sequence[Places],
        inputs: Places,
        group: RowVectors,
        begin: Value,
        sums: Sequence[Sequence[Any]],
    ) -> tirx.Stmt:
        """Additions of all rows of the window that read data, which all of a tile read."""
        row, here, behind = self.sliding.row, list(inputs), None
        if row is not None:
            slide, number = self.sliding.slides[row], self._sums.variable("tap")
            place = next(each for variable, each in rows[0] if variable.same_as(row))
            first, behind = self._sums.taps_inside(slide.axis, place)
            here += [] if slide.tap is None else [(slide.tap, first + number)]
        readers = [(each, [*places, *here]) for each, places in zip(sums, rows, strict=True)]
        body = self._row_added(group, begin, readers)
        if row is None:
            return body
        return tirx.For(number, 0, behind - first, tirx.ForKind.SERIAL, body)

    def _row_added(
        self,
        group: RowVectors,
        begin: Value,
        readers: Sequence[tuple[Sequence[Any], Places]],
    ) -> tirx.Stmt:
        """Additions of one row of data to the sums that read it."""
        sliding = self.sliding
        slide = sliding.slides[sliding.results[-1]]
        steps: list[tirx.Stmt] = []
        loads = RowLoads(sliding, group, begin, readers[0][1], steps)
        if sliding.added.same_as(sliding.element) and sliding.combine is tirx.Max:
            largest = self._largest(loads, steps)
            for sums, _ in readers:
                for total, row in zip(sums, largest, strict=True):
                    steps.append(self._add(total, sliding.element, row))
            return in_order(steps)
        for tap in range(slide.axis.kernel):
            here = [] if slide.tap is None else [(slide.tap, self._sums.number(tap))]
            terms = [substituted(sliding.added, [*places, *here]) for _, places in readers]
            for number, vector in enumerate(group.vectors):
                data = loads.vector(vector, tap)
                for (sums, _), term in zip(readers, terms, strict=True):
                    steps.append(self._add(sums[number], term, data))
        return in_order(steps)

    def _largest(self, loads: RowLoads, steps: list[tirx.Stmt]) -> list[Any]:
        """Buffers of the largest elements of a row of the window, for all rows that read it.

        The last one of equal zeros stays, as if all were compared one after another.
        """
        vectors = loads.group.vectors
        largest = [lanes_in_registers(each.lanes, "largest") for each in vectors]
        steps += map(tirx.AllocBuffer, largest)
        for tap in range(self.sliding.slides[self.sliding.results[-1]].axis.kernel):
            for total, vector in zip(largest, vectors, strict=True):
                data = loads.vector(vector, tap)
                if tap == 0:
                    steps.append(self._sums.stored(total, 0, vector.lanes, data.__getitem__))
                else:
                    steps.append(self._add(total, self.sliding.element, data))
        return largest

    def _add(self, total: Any, term: Value, data: Any) -> tirx.Stmt:
        element = self.sliding.element
        return self._sums.added(total, lambda at: substituted(term, [(element, data[at])]))

    def _written(
        self,
        rows: Sequence[Places],
        group: RowVectors,
        begin: Value,
        sums: Sequence[Sequence[Any]],
    ) -> list[tirx.Stmt]:
        """Statements that make results of sums."""
        first, across = [place for _, place in rows[0]], self._across
        steps: list[tirx.Stmt] = []
        for at, vector in enumerate(group.vectors):
            for piece in vectors_of(vector.results, vector.lanes):
                column = begin + (vector.offset + piece.begin)

                def place(
                    number: Value | int, lane: tirx.Var, column: Value = column
                ) -> list[Value]:
                    here = [*first[:across], first[across] + number, *first[across + 1 :]]
                    return [*here, column + lane]

                totals = [each[at] for each in sums]
                steps += self._sums.all_written(totals, piece.begin, piece.lanes, place)
        return steps
