"""Loops of a product of a few rows by weights of bytes, which become numbers in registers.

Lanes share panels of columns. Each vector of weights is loaded and widened once for a tile of rows,
whose sums stay in registers all the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from tvm.target.codegen import target_has_features

from tvm_ios.kernels.elements import Elements, ramp
from tvm_ios.kernels.loops import (
    IS_NEW,
    Expression,
    Statement,
    allocated,
    bound,
    loop,
    registers,
    sequence,
    tir,
    vector,
)

__all__ = ["Packing", "Product", "Tile", "tile_for"]

MOST_VECTORS, LEAST_VECTORS = 8, 2
"""Vectors of columns in a tile; powers of two."""
ENOUGH_PANELS = 8
"""Panels that lanes can share evenly."""
FETCHED = 1 << 10
"""Bytes of weights that are fetched ahead."""
PREFETCH = f"{tir.__name__.removeprefix('tvm.')}.prefetch"
"""Name of the intrinsic that fetches."""
LINE = 64
"""Bytes that processors fetch at once."""
WIDE = "avx512f"
"""LLVM's name of what processors have that compute with vectors of 16 numbers, in 32 registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Order of weights in memory, and the blocks that share a scale."""

    outputs: int
    """Columns of the result."""
    panel: int
    """Columns whose weights lie side by side; the last panel is filled up with zeros."""
    block: int
    """Elements of a row of data whose weights for one column share a scale; the last block may be
    shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Rows and vectors of columns whose sums are held in registers together."""

    rows: int
    vectors: int
    lanes: int
    """Elements of a vector."""

    @classmethod
    def of(cls, rows: int, outputs: int, lanes: int, registers: int) -> Tile:
        """Tile for a result of rows and columns: many sums hide how long an addition takes.

        Few rows lie in the nearest cache together, even if they are apart by a power of two. Narrow
        results have narrow tiles, which lanes share.
        """
        height = -(-rows // -(-rows * 4 // registers))
        vectors = MOST_VECTORS
        while vectors * height > registers * 5 // 8:
            vectors //= 2
        while vectors > LEAST_VECTORS and vectors * lanes * ENOUGH_PANELS > outputs:
            vectors //= 2
        return cls(rows=height, vectors=vectors, lanes=lanes)

    @property
    def panel(self) -> int:
        """Columns of the tile."""
        return self.vectors * self.lanes


def tile_for(rows: int, outputs: int, target: tvm.target.Target) -> Tile:
    """Tile of a product of some rows and columns, by the vectors of a target."""
    lanes, registers = (16, 32) if target_has_features(WIDE, target) else (8, 16)
    return Tile.of(rows, outputs, lanes, registers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product of rows, and what is made of each sum."""

    rows: int
    inputs: int
    packing: Packing
    tile: Tile
    data: Any
    weight: Any
    scales: Any
    zeros: Any | None
    """Elements of all four, one behind the other; zero points are None where all are 0."""
    write: Callable[[Expression, Expression, Expression], Statement]
    """Function from a sum, its row and its column to a statement that writes the result."""
    index: str = "int32"
    """Type of places."""

    def statement(self) -> Statement:
        """Loops over panels, and in each over tiles of rows."""
        panel, number = tir.Var("panel", self.index), tir.Var("tile", self.index)
        tiles = -(-self.rows // self.tile.rows)
        # What is last begins earlier, and computes some results again.
        row = tir.min(number * self.tile.rows, self.rows - self.tile.rows)
        body = self._tile(panel, row if tiles > 1 else tir.const(0, self.index))
        if tiles > 1:
            body = tir.For(number, 0, tiles, tir.ForKind.SERIAL, body)
        panels = -(-self.packing.outputs // self.packing.panel)
        return tir.For(panel, 0, panels, tir.ForKind.PARALLEL, body)

    def _tile(self, panel: Any, row: Expression) -> Statement:
        """Sums of one tile, and what is made of them."""
        lanes = self.tile.lanes
        totals = self._buffers("total")
        kept = registers(len(totals) * lanes, "kept")
        whole, rest = divmod(self.inputs, self.packing.block)
        statements = [_assign(each, _zero(lanes)) for each in totals]
        statements.append(
            loop(
                whole,
                lambda block: self._block(panel, row, block, self.packing.block, totals),
                dtype=self.index,
            )
        )
        if rest:
            statements.append(self._block(panel, row, tir.const(whole, self.index), rest, totals))
        # Sums themselves would leave their registers, if a loop chose among them.
        statements += [
            tir.BufferStore(kept, _value(each), [ramp(n * lanes, lanes)])
            for n, each in enumerate(totals)
        ]
        statements.append(self._written(panel, row, kept))
        return allocated([*totals, kept], sequence(statements))

    def _buffers(self, name: str) -> list[Any]:
        """Buffers of a vector each, those of one row behind each other."""
        count = self.tile.rows * self.tile.vectors
        return [registers(self.tile.lanes, f"{name}{number}") for number in range(count)]

    def _block(
        self,
        panel: Any,
        row: Expression,
        block: Expression,
        length: int,
        totals: Sequence[Any],
    ) -> Statement:
        """Sums of all terms that share scales, which are added to the totals."""
        size, lanes, vectors = self.packing.panel, self.tile.lanes, self.tile.vectors
        begin = block * self.packing.block
        width = -(-self.packing.outputs // size) * size
        places = [block * width + panel * size + number * lanes for number in range(vectors)]
        weights, data = Elements.of(self.weight, "weights"), Elements.of(self.data, "rows")
        term, sums = tir.Var("term", self.index), self._buffers("sum")
        zeros = [tir.Var(f"zero{number}", f"float32x{lanes}") for number in range(vectors)]
        body = self._term(weights, data, term, zeros, sums)
        body = tir.For(term, 0, length, tir.ForKind.SERIAL, body)
        if self.zeros is not None:
            for variable, place in zip(zeros, places, strict=True):
                body = bound(variable, tir.BufferLoad(self.zeros, [ramp(place, lanes)]), body)
        scales = [tir.BufferLoad(self.scales, [ramp(place, lanes)]) for place in places]
        added = [
            _assign(total, _value(total) + _value(each) * scales[number % vectors])
            for number, (total, each) in enumerate(zip(totals, sums, strict=True))
        ]
        body = sequence([*(_assign(each, _zero(lanes)) for each in sums), body, *added])
        body = weights.bound((panel * self.inputs + begin) * size, allocated(sums, body))
        return data.bound(row * self.inputs + begin, body)

    def _term(
        self,
        weights: Elements,
        data: Elements,
        term: Any,
        zeros: Sequence[Any],
        sums: Sequence[Any],
    ) -> Statement:
        """Additions of one element of each row, times its weights."""
        size, lanes, vectors = self.packing.panel, self.tile.lanes, self.tile.vectors
        wide = [tir.Var(f"weight{number}", f"float32x{lanes}") for number in range(vectors)]
        statements: list[Statement] = [
            _fetch(tir.BufferLoad(weights.view, [term * size + FETCHED + ahead]))
            for ahead in range(0, size, LINE)
        ]
        for number in range(self.tile.rows):
            value = tir.Var("value", f"float32x{lanes}")
            element = data.element(number * self.inputs + term)
            row_sums = sums[number * vectors : (number + 1) * vectors]
            added = [
                _assign(total, _value(total) + value * weight)
                for total, weight in zip(row_sums, wide, strict=True)
            ]
            statements.append(bound(value, tir.Broadcast(element, lanes), sequence(added)))
        body = sequence(statements)
        for number, variable in enumerate(wide):
            step = weights.vector(term * size + number * lanes, lanes).astype(f"float32x{lanes}")
            if self.zeros is not None:
                step = step - zeros[number]
            body = bound(variable, step, body)
        return body

    def _written(self, panel: Any, row: Expression, kept: Any) -> Statement:
        """Statements that make results of sums."""
        lanes, vectors, outputs = self.tile.lanes, self.tile.vectors, self.packing.outputs

        def of_vector(place: Expression, number: Expression) -> Statement:
            first = (place * vectors + number) * lanes
            column = panel * self.packing.panel + number * lanes

            def one(lane: Expression) -> Statement:
                return self.write(kept[first + lane], row + place, column + lane)

            whole = vector(lanes, one, self.index)
            if outputs % lanes:
                single = tir.Var("lane", self.index)
                few = tir.For(
                    single, 0, tir.max(0, outputs - column), tir.ForKind.SERIAL, one(single)
                )
                return tir.IfThenElse(column + lanes <= outputs, whole, few)
            if outputs % self.packing.panel:
                return tir.IfThenElse(column < outputs, whole, None)
            return whole

        return loop(
            self.tile.rows,
            lambda place: loop(vectors, partial(of_vector, place), dtype=self.index),
            dtype=self.index,
        )


def _fetch(element: Expression) -> Statement:
    """Statement that has a line brought to the nearest cache, to be read."""
    address = tir.address_of(element)
    return tir.Evaluate(tir.call_intrin("void" if IS_NEW else "int32", PREFETCH, address, 0, 3, 1))


def _zero(lanes: int) -> Expression:
    return tir.Broadcast(tir.const(0, "float32"), lanes)


def _value(vector_of: Any) -> Expression:
    return tir.BufferLoad(vector_of, [ramp(0, int(vector_of.shape[0]))])


def _assign(vector_of: Any, value: Expression) -> Statement:
    return tir.BufferStore(vector_of, value, [ramp(0, int(vector_of.shape[0]))])
