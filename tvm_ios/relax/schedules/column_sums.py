"""Partial sums of neighbouring columns in a vector register, as statements."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.gathered import Sum
from tvm_ios.relax.schedules.row_vectors import Row, stored

__all__ = ["ColumnSums"]


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """Partial sum in one vector register, of as many neighbouring columns as it has lanes."""

    row: Row
    first: Value
    sum: Sum
    start: Value
    part: tirx.Buffer

    def begun(self) -> tirx.Stmt:
        """Statements before the first row."""
        return self.row.in_lanes(lambda lane, _: stored(lane, [self.part], [self.start]), 0)

    def added(self) -> tirx.Stmt:
        """Statements of each row."""

        def add(lane: Value, place: Value) -> list[tirx.Stmt]:
            new = self.sum.combined(self.part[lane], self.row.at(self.sum.value.b, place))
            return stored(lane, [self.part], [new])

        return self.row.in_lanes(add, self.first)

    def written(self) -> tirx.Stmt:
        """Statements behind the last row."""

        def write(lane: Value, place: Value) -> list[tirx.Stmt]:
            indices = [self.row.at(each, place) for each in self.sum.indices]
            return [tirx.BufferStore(self.sum.buffer, self.part[lane], indices)]

        return self.row.in_lanes(write, self.first)
