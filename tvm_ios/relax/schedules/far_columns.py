"""Loops that sum down columns of what lies beyond the nearest caches, such as large weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.column_sums import ColumnSums
from tvm_ios.relax.schedules.gathered import Sum
from tvm_ios.relax.schedules.row_vectors import Row, stored
from tvm_ios.relax.schedules.tiles import in_order, substituted

__all__ = ["FarColumns"]

MOST_COLUMNS = 512
"""Most columns of a task, whose rows are read as they lie."""
ROWS_AT_ONCE = 8
"""Rows that are read side by side."""


@dataclass(frozen=True, slots=True)
class FarColumns:
    """Sums of columns of what lies far away: of a few rows at a time, which are read as they lie.

    Partial sums of a task's columns stay in the nearest cache. Tiles in registers read a short
    piece of each row, and no processor foresees where the next one lies.
    """

    loop: tirx.For
    row: tirx.For
    sum: Sum
    start: Value
    lanes: int
    kind: tirx.ForKind
    """Kind of the loop over tasks."""

    def statement(self) -> tirx.Stmt:
        """Loop over tasks, an even number of them that are alike but for the last one."""
        extent, type_ = int(self.loop.extent), self.loop.loop_var.ty.dtype
        vectors = -(-extent // (2 * -(-extent // (2 * MOST_COLUMNS)) * self.lanes))
        width, row = vectors * self.lanes, Row(self.loop.loop_var, extent, self.lanes)
        task, tasks = tirx.Var("task", type_), -(-extent // width)
        begin = (tasks - 1) * width
        rest = [(half, at - begin) for half, at in row.halves() if at is not None]
        body = self._task(task * width, width, (extent - begin) // self.lanes, rest)
        if begin + width != extent and tasks > 1:
            body = tirx.IfThenElse(
                task < tasks - 1, self._task(task * width, width, vectors, []), body
            )
        return tirx.For(task, 0, tasks, self.kind, body)

    def _task(
        self, begin: Value, width: int, vectors: int, rest: Sequence[tuple[Row, int]]
    ) -> tirx.Stmt:
        """Sums of so many vectors of columns, and of shorter ones behind them."""
        type_, index = str(self.sum.value.ty), self.loop.loop_var.ty.dtype
        sums = tirx.decl_buffer((width,), type_, "sums")

        def over(steps: Callable[[ColumnSums, Value], list[tirx.Stmt]]) -> list[tirx.Stmt]:
            """Steps of each piece, which has a place among the sums."""

            def of(row: Row, place: Value) -> tirx.Stmt:
                piece = ColumnSums(row, begin + place, self.sum, self.start, row.vector(type_))
                return tirx.SeqStmt([tirx.AllocBuffer(piece.part), *steps(piece, place)])

            number = tirx.Var("vector", index)
            whole = of(
                Row(self.loop.loop_var, int(self.loop.extent), self.lanes), number * self.lanes
            )
            ends = [of(row, tirx.const(place, index)) for row, place in rest]
            return [tirx.For(number, 0, vectors, tirx.ForKind.SERIAL, whole), *ends]

        def got(piece: ColumnSums, place: Value) -> tirx.Stmt:
            return piece.row.in_lanes(
                lambda lane, at: stored(lane, [piece.part], [sums[at]]), place
            )

        def put(piece: ColumnSums, place: Value) -> tirx.Stmt:
            return piece.row.in_lanes(
                lambda lane, at: [tirx.BufferStore(sums, piece.part[lane], [at])], place
            )

        def added(rows: Sequence[Value]) -> list[tirx.Stmt]:
            def steps(piece: ColumnSums, place: Value) -> list[tirx.Stmt]:
                each = piece.added()
                all_of_it = [substituted(each, [(self.row.loop_var, row)]) for row in rows]
                return [got(piece, place), *all_of_it, put(piece, place)]

            return over(steps)

        band, height = tirx.Var("band", self.row.loop_var.ty.dtype), int(self.row.extent)
        whole = in_order(added([band * ROWS_AT_ONCE + number for number in range(ROWS_AT_ONCE)]))
        left = [
            tirx.const(n, band.ty.dtype)
            for n in range(height // ROWS_AT_ONCE * ROWS_AT_ONCE, height)
        ]
        return tirx.SeqStmt(
            [
                tirx.AllocBuffer(sums),
                *over(lambda piece, place: [piece.begun(), put(piece, place)]),
                tirx.For(band, 0, height // ROWS_AT_ONCE, tirx.ForKind.SERIAL, whole),
                *(added(left) if left else []),
                *over(lambda piece, place: [got(piece, place), piece.written()]),
            ]
        )
