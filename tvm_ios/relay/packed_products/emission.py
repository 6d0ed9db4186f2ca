"""Loops of a product of a few rows by weights of bytes, which become numbers in registers.

Lanes share panels of columns. Each vector of weights is loaded and widened once for a tile of rows,
whose sums stay in registers all the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import tir

from tvm_ios.relay.functions.packed_product import Packing
from tvm_ios.relay.grouped.loads import Elements, ramp
from tvm_ios.relay.row_kernels.loops import allocated, loop, sequence, vector

__all__ = ["Product", "Tile"]

MOST_VECTORS = 8
"""Vectors of columns in a tile; a power of two."""
FEW_SUMS = 4
"""Sums of which an addition to one takes as long as the additions to all others."""
ENOUGH_PANELS = 8
"""Panels that lanes can share evenly."""
FETCHED = 1 << 10
"""Bytes of weights that are fetched ahead."""
LINE = 64
"""Bytes that processors fetch at once."""


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
        height = -(-rows // -(-4 * rows // registers))
        vectors = MOST_VECTORS
        while vectors * height > registers * 5 // 8:
            vectors //= 2
        while vectors * height > FEW_SUMS and vectors * lanes * ENOUGH_PANELS > outputs:
            vectors //= 2
        return cls(rows=height, vectors=vectors, lanes=lanes)

    @property
    def panel(self) -> int:
        """Columns of the tile."""
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product of rows, and what is made of each sum."""

    rows: int
    inputs: int
    packing: Packing
    tile: Tile
    data: tir.Buffer
    weight: tir.Buffer
    scales: tir.Buffer
    zeros: tir.Buffer | None
    """Elements of all four, one behind the other; zero points are None where all are 0."""
    write: Callable[[tir.PrimExpr, tir.PrimExpr, tir.PrimExpr], tir.Stmt]
    """Function from a sum, its row and its column to a statement that writes the result."""

    def statement(self) -> tir.Stmt:
        """Loops over panels, and in each over tiles of rows."""
        panel, number = tir.Var("panel", "int32"), tir.Var("tile", "int32")
        tiles = -(-self.rows // self.tile.rows)
        # What is last begins earlier, and computes some results again.
        row = tir.min(number * self.tile.rows, self.rows - self.tile.rows)
        body = self._tile(panel, row if tiles > 1 else tir.const(0, "int32"))
        if tiles > 1:
            body = tir.For(number, 0, tiles, tir.ForKind.SERIAL, body)
        panels = -(-self.packing.outputs // self.packing.panel)
        return tir.For(panel, 0, panels, tir.ForKind.PARALLEL, body)

    @property
    def _blocks(self) -> int:
        return -(-self.inputs // self.packing.block)

    def _tile(self, panel: tir.Var, row: tir.PrimExpr) -> tir.Stmt:
        """Sums of one tile, and what is made of them."""
        lanes = self.tile.lanes
        sums = [
            [_buffer(lanes, f"sum{r}_{v}") for v in range(self.tile.vectors)]
            for r in range(self.tile.rows)
        ]
        every = [each for row_sums in sums for each in row_sums]
        zero = tir.Broadcast(tir.const(0, "float32"), lanes)
        kept = _buffer(len(every) * lanes, "kept")
        statements = [tir.BufferStore(each, zero, [ramp(0, lanes)]) for each in every]
        whole, rest = divmod(self.inputs, self.packing.block)
        block = tir.Var("block", "int32")
        if whole:
            body = self._block(panel, row, block, self.packing.block, sums)
            if whole == 1:
                body = tir.stmt_functor.substitute(body, {block: tir.const(0, "int32")})
                statements.append(body)
            else:
                statements.append(tir.For(block, 0, whole, tir.ForKind.SERIAL, body))
        if rest:
            statements.append(self._block(panel, row, tir.const(whole, "int32"), rest, sums))
        scaled = self._scaled(panel) if self._blocks == 1 else (lambda value, _: value)
        # Sums themselves would leave their registers, if a loop chose among them.
        statements += [
            tir.BufferStore(
                kept,
                scaled(tir.BufferLoad(each, [ramp(0, lanes)]), n % self.tile.vectors),
                [ramp(n * lanes, lanes)],
            )
            for n, each in enumerate(every)
        ]
        statements.append(self._written(panel, row, kept))
        return allocated([*every, kept], sequence(statements))

    def _scaled(self, panel: tir.Var) -> Callable[[tir.PrimExpr, int], tir.PrimExpr]:
        def scaled(value: tir.PrimExpr, number: int) -> tir.PrimExpr:
            place = panel * self.packing.panel + number * self.tile.lanes
            return value * tir.BufferLoad(self.scales, [ramp(place, self.tile.lanes)])

        return scaled

    def _block(
        self,
        panel: tir.Var,
        row: tir.PrimExpr,
        block: tir.PrimExpr,
        length: int,
        sums: Sequence[Sequence[tir.Buffer]],
    ) -> tir.Stmt:
        """Additions of all terms that share scales."""
        size, lanes = self.packing.panel, self.tile.lanes
        begin = block * self.packing.block
        weights, data = Elements.of(self.weight, "weights"), Elements.of(self.data, "rows")
        term = tir.Var("term", "int32")
        held = {
            name: [tir.Var(f"{name}{v}", f"float32x{lanes}") for v in range(self.tile.vectors)]
            for name, known in (("scale", self._blocks > 1), ("zero", self.zeros is not None))
            if known
        }
        body = self._term(weights, data, term, held, sums)
        body = tir.For(term, 0, length, tir.ForKind.SERIAL, body)
        for name, variables in held.items():
            source = self.scales if name == "scale" else self.zeros
            width = -(-self.packing.outputs // size) * size
            for number, variable in enumerate(variables):
                place = block * width + panel * size + number * lanes
                load = tir.BufferLoad(source, [ramp(place, lanes)])
                body = tir.LetStmt(variable, load, body)
        body = weights.bound((panel * self.inputs + begin) * size, body)
        return data.bound(row * self.inputs + begin, body)

    def _term(
        self,
        weights: Elements,
        data: Elements,
        term: tir.Var,
        held: dict[str, list[tir.Var]],
        sums: Sequence[Sequence[tir.Buffer]],
    ) -> tir.Stmt:
        """Additions of one element of each row, times its weights."""
        size, lanes = self.packing.panel, self.tile.lanes
        wide = [tir.Var(f"weight{v}", f"float32x{lanes}") for v in range(self.tile.vectors)]
        statements: list[tir.Stmt] = [
            _fetch(tir.BufferLoad(weights.view, [term * size + FETCHED + ahead]))
            for ahead in range(0, size, LINE)
        ]
        for number, row_sums in enumerate(sums):
            value = tir.Var("value", f"float32x{lanes}")
            element = data.element(number * self.inputs + term)
            added = [_add(total, w, value) for total, w in zip(row_sums, wide, strict=True)]
            statements.append(
                tir.LetStmt(value, tir.Broadcast(element, lanes), sequence(added))
            )
        body = sequence(statements)
        for number, variable in enumerate(wide):
            load = weights.vector(term * size + number * lanes, lanes)
            if "zero" in held:
                load = load - held["zero"][number]
            if "scale" in held:
                load = load * held["scale"][number]
            body = tir.LetStmt(variable, load, body)
        return body

    def _written(self, panel: tir.Var, row: tir.PrimExpr, kept: tir.Buffer) -> tir.Stmt:
        """Statements that make results of sums."""
        lanes, vectors, outputs = self.tile.lanes, self.tile.vectors, self.packing.outputs

        def of_vector(place: tir.PrimExpr, number: tir.PrimExpr) -> tir.Stmt:
            first = (place * vectors + number) * lanes
            column = panel * self.packing.panel + number * lanes

            def one(lane: tir.PrimExpr) -> tir.Stmt:
                return self.write(kept[first + lane], row + place, column + lane)

            whole = vector(lanes, one)
            if outputs % lanes:
                single = tir.Var("lane", "int32")
                few = tir.For(
                    single, 0, tir.max(0, outputs - column), tir.ForKind.SERIAL, one(single)
                )
                return tir.IfThenElse(column + lanes <= outputs, whole, few)
            if outputs % self.packing.panel:
                return tir.IfThenElse(column < outputs, whole, None)
            return whole

        return loop(self.tile.rows, lambda place: loop(vectors, partial(of_vector, place)))


def _buffer(elements: int, name: str) -> tir.Buffer:
    # Of any other scope TVM would take it from its pool, which takes as long as a tile.
    return tir.decl_buffer((elements,), "float32", name, scope="global")


def _fetch(element: tir.PrimExpr) -> tir.Stmt:
    """Statement that has a line brought to the nearest cache, to be read."""
    address = tir.address_of(element)
    return tir.Evaluate(tir.call_intrin("int32", "tir.prefetch", address, 0, 3, 1))


def _add(total: tir.Buffer, weight: tir.Var, value: tir.Var) -> tir.Stmt:
    place = [ramp(0, int(total.shape[0]))]
    return tir.BufferStore(total, tir.BufferLoad(total, place) + value * weight, place)
