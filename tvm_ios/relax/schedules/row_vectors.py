"""Vectors along a row that a loop goes along, as code behind the loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.tiles import in_order, substituted

__all__ = ["Make", "Row", "stored"]

Make = Callable[[Value, Value], list[tirx.Stmt]]
"""Makes statements of a lane and of its place in the row."""


@dataclass(frozen=True, slots=True)
class Row:
    """Loop along a row, of which vectors of so many lanes are taken."""

    variable: tirx.Var
    extent: int
    lanes: int

    def vector(self, type_: str) -> tirx.Buffer:
        """Place for a value of each lane."""
        return tirx.decl_buffer((self.lanes,), type_, "parts", layout=None)

    def at(self, value: Value, place: Value) -> Value:
        """Value at a place of the row."""
        return substituted(value, [(self.variable, place)])

    def over(self, first: int, make: Make) -> tirx.Stmt:
        """Loop over the whole vectors of the row from one on."""
        chunk = tirx.Var("chunk", self.variable.ty.dtype)
        body = self.in_lanes(make, (chunk + first) * self.lanes)
        count = self.extent // self.lanes - first
        return tirx.For(chunk, 0, count, tirx.ForKind.SERIAL, body)

    def in_lanes(self, make: Make, first: Value | int) -> tirx.Stmt:
        """Statements for each lane of a vector that begins at a place of the row."""
        lane = tirx.Var("lane", self.variable.ty.dtype)
        body = in_order(make(lane, lane + first))
        kind = tirx.ForKind.VECTORIZED if self.lanes > 1 else tirx.ForKind.SERIAL
        return tirx.For(lane, 0, self.lanes, kind, body)

    def halved(self, halve: Make, go_on: Make | None = None) -> list[tirx.Stmt]:
        """Statements that leave one number of a vector, of a lane and of the one that comes to it.

        With ``go_on`` what the vectors have left of the row comes to the halves.
        """
        made, lanes, place = [], self.lanes, self.extent // self.lanes * self.lanes
        while lanes > 1:
            lanes //= 2
            half = Row(self.variable, self.extent, lanes)
            made.append(half.in_lanes(halve, lanes))
            if go_on is not None and self.extent & lanes:
                made.append(half.in_lanes(go_on, place))
                place += lanes
        return made


def stored(lane: Value, buffers: Sequence[tirx.Buffer], values: Sequence[Value]) -> list[tirx.Stmt]:
    """Statements that write values of a lane, one after another."""
    pairs = zip(buffers, values, strict=True)
    return [tirx.BufferStore(buffer, value, [lane]) for buffer, value in pairs]
