"""Vectors along a row that a loop goes along, as code behind the loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        """Statements for each lane of a vector that begins at a place of the row, one by one."""
        kind = tirx.ForKind.VECTORIZED if self.lanes > 1 else tirx.ForKind.SERIAL
        lane = tirx.Var("lane", self.variable.ty.dtype)
        made = []
        for statement in make(lane, lane + first):
            own = tirx.Var("lane", self.variable.ty.dtype)
            body = substituted(statement, [(lane, own)])
            made.append(tirx.For(own, 0, self.lanes, kind, body))
        return in_order(made)

    def halves(self) -> Iterator[tuple[Row, int | None]]:
        """The row in vectors of half as many lanes each, and where one of what is left begins."""
        lanes, place = self.lanes, self.extent // self.lanes * self.lanes
        while lanes > 1:
            lanes //= 2
            is_left = bool(self.extent & lanes)
            yield Row(self.variable, self.extent, lanes), place if is_left else None
            place += lanes if is_left else 0

    def halved(self, halve: Make, go_on: Make | None = None) -> list[tirx.Stmt]:
        """Statements that leave one number of a vector, of a lane and of the one that comes to it.

        With ``go_on`` what the vectors have left of the row comes to the halves.
        """
        made = []
        for half, place in self.halves():
            made.append(half.in_lanes(halve, half.lanes))
            if go_on is not None and place is not None:
                made.append(half.in_lanes(go_on, place))
        return made

    def whole(self, make: Make) -> tirx.Stmt:
        """Statements for the whole row: vectors, and shorter ones of what these leave."""
        rest = [half.in_lanes(make, place) for half, place in self.halves() if place is not None]
        return in_order([self.over(0, make), *rest])


def stored(lane: Value, buffers: Sequence[tirx.Buffer], values: Sequence[Value]) -> list[tirx.Stmt]:
    """Statements that write values of a lane, one after another."""
    pairs = zip(buffers, values, strict=True)
    return [tirx.BufferStore(buffer, value, [lane]) for buffer, value in pairs]
