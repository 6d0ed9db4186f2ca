"""Loops of an attention kernel: scores of a few rows at a time, which stay in the nearest cache.

Heads are split over lanes, and rows of a head where there are few heads. A task lays out the keys
and values of its head, then computes scores, shares and results of a few rows after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tvm import tir

from tvm_ios.kernels.loops import allocated, loop, sequence, vector
from tvm_ios.relay.attention.tiles import product_tile
from tvm_ios.relay.attention.values import Attention
from tvm_ios.relay.schedules.tiles import transposed_in_tiles

__all__ = ["Emitter", "rows_at_once"]

AVX2 = 8
"""Float32 in a vector of processors that have 16 such vectors; others have 32."""
ENOUGH_TASKS = 8
"""Tasks that lanes can share evenly."""
ROWS_WORTH_A_TASK = 48
"""Fewest rows of a task, as each lays out all keys and values of its head."""
SERIAL, PARALLEL = tir.ForKind.SERIAL, tir.ForKind.PARALLEL
NONE, LEAST = tir.const(0.0, "float32"), tir.min_value("float32")
NO_KEY = tir.const(-math.inf, "float32")
"""Score where there is no key; masks may make the least finite number of one that there is."""


def rows_at_once(rows: int, most: int) -> int:
    """Number of rows of a tile with which the fewest are computed twice, the largest such one."""
    least = min(rows, -(-most // 2))
    return min(range(least, min(rows, most) + 1), key=lambda each: (-rows % each, -each))


class Emitter:
    """Loops of one kernel, for processors with so many float32 in a vector."""

    def __init__(self, attention: Attention, lanes: int) -> None:
        self.attention, self.lanes = attention, lanes
        self.wide = -(-attention.width // lanes)
        """Vectors of a row of the result."""
        self.long = -(-attention.keys // lanes)
        """Vectors of a row of scores."""
        self.vectors, most = (2, 5) if lanes == AVX2 else (3, 8)
        """Vectors of a tile, and most rows of one, whose sums fill the registers."""
        self.rows = rows_at_once(attention.queries, most)
        self.blocks = -(-attention.queries // self.rows)
        self.parts = 1
        while (
            attention.heads * self.parts < ENOUGH_TASKS
            and attention.queries >= (self.parts + 1) * ROWS_WORTH_A_TASK
        ):
            self.parts += 1
        tiles = -(-self.long // self.vectors)
        self.key = _buffer("keys", tiles * self.vectors * lanes * attention.depth)
        self.value = _buffer("values", self.wide * lanes * attention.keys)
        self.scores = [_buffer("scores", self.long * lanes) for _ in range(self.rows)]
        self.most = [_buffer("most", lanes) for _ in range(self.rows)]
        self.total = [_buffer("total", lanes) for _ in range(self.rows)]
        self.head, self.begin = tir.Var("head", "int32"), tir.Var("begin", "int32")
        """Head, and first of the rows that are computed at once."""

    def statement(self) -> tir.Stmt:
        """Statement that computes the function."""
        task, block = tir.Var("task", "int32"), tir.Var("block", "int32")
        each = -(-self.blocks // self.parts)
        first = (tir.indexmod(task, self.parts) * each + block) * self.rows
        # The last rows at once begin earlier, and compute some of the rows before them again.
        begin = tir.min(first, self.attention.queries - self.rows)
        rows = sequence([*self._scores(), *self._shares(), *self._results()])
        blocks = tir.For(block, 0, each, SERIAL, tir.LetStmt(self.begin, begin, rows))
        body = sequence([*self._keys(), *self._values(), blocks])
        body = tir.LetStmt(self.head, tir.indexdiv(task, self.parts), body)
        kept = [self.key, self.value, *self.scores, *self.most, *self.total]
        return tir.For(task, 0, self.attention.heads * self.parts, PARALLEL, allocated(kept, body))

    def _keys(self) -> list[tir.Stmt]:
        """Statements that lay out keys, those of a tile side by side, and zeros behind the last."""
        attention, columns = self.attention, self.vectors * self.lanes
        whole, rest = divmod(attention.keys, columns)
        at = tir.Var("at", "int32")

        def tile(number: tir.PrimExpr, columns: int) -> tir.Stmt:
            column = tir.Var("column", "int32")
            key = number * (self.vectors * self.lanes) + column
            found = attention.key.element(self.head, key, at)
            store = tir.BufferStore(self.key, found, [self._place_of_key(number, at) + column])
            return transposed_in_tiles(
                tir.For(at, 0, attention.depth, SERIAL, tir.Evaluate(0)),
                tir.For(column, 0, columns, SERIAL, store),
            )

        laid_out = [loop(whole, lambda number: tile(number, columns))] if whole else []
        if rest:
            last = tir.const(whole, "int32")
            laid_out.append(tile(last, rest))
            begin = self._place_of_key(last, at) + rest
            laid_out.append(self._zeros(self.key, at, attention.depth, begin, -rest % self.lanes))
        return laid_out

    def _place_of_key(self, tile: tir.PrimExpr, at: tir.PrimExpr) -> tir.PrimExpr:
        return (tile * self.attention.depth + at) * (self.vectors * self.lanes)

    def _values(self) -> list[tir.Stmt]:
        """Statements that lay out values, rows of whole vectors."""
        attention, lanes = self.attention, self.lanes
        row = tir.Var("row", "int32")
        begin = row * (self.wide * lanes)

        def copied(first: int, lane: tir.PrimExpr) -> tir.Stmt:
            element = attention.value.element(self.head, row, first + lane)
            return tir.BufferStore(self.value, element, [begin + first + lane])

        columns = range(0, attention.width, lanes)
        copies = [
            vector(min(lanes, attention.width - first), partial(copied, first)) for first in columns
        ]
        zeros = self._zeros(
            self.value, row, attention.keys, begin + attention.width, -attention.width % lanes
        )
        return [tir.For(row, 0, attention.keys, SERIAL, sequence(copies)), zeros]

    @staticmethod
    def _zeros(
        buffer: tir.Buffer, row: tir.Var, rows: int, begin: tir.PrimExpr, columns: int
    ) -> tir.Stmt:
        """Statement that clears some columns of all rows, from a place in each."""
        if not columns:
            return tir.Evaluate(0)
        cleared = vector(columns, lambda lane: tir.BufferStore(buffer, NONE, [begin + lane]))
        return tir.For(row, 0, rows, SERIAL, cleared)

    def _scores(self) -> list[tir.Stmt]:
        """Statements that compute scores, also where there is no key."""
        keys, lanes = self.attention.keys, self.lanes

        def padded(scores: tir.Buffer) -> tir.Stmt:
            return vector(
                -keys % lanes, lambda lane: tir.BufferStore(scores, NO_KEY, [keys + lane])
            )

        whole, rest = divmod(self.long, self.vectors)
        # A vector that keys do not fill needs a tile of its own.
        if keys % lanes and not rest:
            whole, rest = whole - 1, self.vectors
        statements = [padded(scores) for scores in self.scores] if keys % lanes else []
        if whole:
            statements.append(loop(whole, lambda tile: self._score_tile(tile, self.vectors, lanes)))
        if rest:
            tile = tir.const(whole, "int32")
            statements.append(self._score_tile(tile, rest, keys - (self.long - 1) * lanes))
        return statements

    def _score_tile(self, tile: tir.PrimExpr, vectors: int, last: int) -> tir.Stmt:
        """Statement that computes vectors of scores, so many elements of the last one."""
        attention, lanes = self.attention, self.lanes

        def left(row: int, at: tir.PrimExpr) -> tir.PrimExpr:
            return attention.query.element(self.head, self.begin + row, at)

        def right(at: tir.PrimExpr, number: int, lane: tir.PrimExpr) -> tir.PrimExpr:
            return self.key[self._place_of_key(tile, at) + number * lanes + lane]

        def store(row: int, number: int, sums: tir.Buffer) -> tir.Stmt:
            def one(lane: tir.PrimExpr) -> tir.Stmt:
                column = (tile * self.vectors + number) * lanes + lane
                score = self._after_steps(sums[lane], self.begin + row, column)
                return tir.BufferStore(self.scores[row], score, [column])

            return vector(last if number == vectors - 1 else lanes, one)

        return product_tile((self.rows, vectors, attention.depth), lanes, left, right, store)

    def _after_steps(
        self, score: tir.PrimExpr, row: tir.PrimExpr, column: tir.PrimExpr
    ) -> tir.PrimExpr:
        for step in self.attention.steps:
            operands = [each.element(self.head, row, column) for each in step.operands]
            score = step.function(score, *operands)
        return score

    def _shares(self) -> list[tir.Stmt]:
        """Statements that make shares of scores, and what they are to be multiplied with."""
        lanes, at, rows = self.lanes, tir.Var("at", "int32"), range(self.rows)

        def of_rows(make: Callable[[int, tir.PrimExpr], tir.Stmt]) -> tir.Stmt:
            return sequence([vector(lanes, partial(make, row)) for row in rows])

        def set_to(buffers: list[tir.Buffer], number: tir.PrimExpr) -> tir.Stmt:
            return of_rows(lambda row, lane: tir.BufferStore(buffers[row], number, [lane]))

        def most(row: int, lane: tir.PrimExpr) -> tir.Stmt:
            larger = tir.max(self.most[row][lane], self.scores[row][at * lanes + lane])
            return tir.BufferStore(self.most[row], larger, [lane])

        def share(row: int, lane: tir.PrimExpr) -> tir.Stmt:
            off = self.scores[row][at * lanes + lane] - self.most[row][0]
            return tir.BufferStore(self.scores[row], tir.exp(off), [at * lanes + lane])

        def add(row: int, lane: tir.PrimExpr) -> tir.Stmt:
            total = self.total[row][lane] + self.scores[row][at * lanes + lane]
            return tir.BufferStore(self.total[row], total, [lane])

        def along(body: tir.Stmt) -> tir.Stmt:
            return tir.For(at, 0, self.long, SERIAL, body)

        one = tir.const(1.0, "float32")
        return [
            set_to(self.most, LEAST),
            along(of_rows(most)),
            *(self._folded(buffer, tir.max) for buffer in self.most),
            set_to(self.total, NONE),
            along(sequence([of_rows(share), of_rows(add)])),
            *(self._folded(buffer, tir.Add) for buffer in self.total),
            *(tir.BufferStore(buffer, one / buffer[0], [0]) for buffer in self.total),
        ]

    def _folded(self, buffer: tir.Buffer, both: Callable[..., tir.PrimExpr]) -> tir.Stmt:
        """Statement that combines the elements of a vector into its first one."""

        def fold(half: int, lane: tir.PrimExpr) -> tir.Stmt:
            return tir.BufferStore(buffer, both(buffer[lane], buffer[lane + half]), [lane])

        halves = [1 << power for power in reversed(range(self.lanes.bit_length() - 1))]
        return sequence([vector(half, partial(fold, half)) for half in halves])

    def _results(self) -> list[tir.Stmt]:
        """Statements that compute and write some rows of the result."""
        return [
            self._result_tile(first, min(self.vectors, self.wide - first))
            for first in range(0, self.wide, self.vectors)
        ]

    def _result_tile(self, first: int, vectors: int) -> tir.Stmt:
        attention, lanes = self.attention, self.lanes

        def right(at: tir.PrimExpr, number: int, lane: tir.PrimExpr) -> tir.PrimExpr:
            return self.value[(at * self.wide + first + number) * lanes + lane]

        def store(row: int, number: int, sums: tir.Buffer) -> tir.Stmt:
            begin = (first + number) * lanes

            def one(lane: tir.PrimExpr) -> tir.Stmt:
                place = attention.result.place(self.head, self.begin + row, begin + lane)
                share = sums[lane] * self.total[row][0]
                return tir.BufferStore(attention.result.buffer, share, [place])

            return vector(min(lanes, attention.width - begin), one)

        shape = (self.rows, vectors, attention.keys)
        return product_tile(shape, lanes, lambda row, at: self.scores[row][at], right, store)


def _buffer(name: str, length: int) -> tir.Buffer:
    return tir.decl_buffer((length,), "float32", name, scope="global")
