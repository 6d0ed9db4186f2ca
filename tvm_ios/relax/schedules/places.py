"""Places of the largest or least elements of rows, as NumPy finds them.

Goes behind the loops. TVM forgets a NaN that other numbers follow, and finds no place in a row of
nothing but -inf.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.tirx import Expr as Value
from tvm.tirx import Select

from tvm_ios.relax.schedules.arithmetic import INFINITY, REST, bits_of, special
from tvm_ios.relax.schedules.row_vectors import Row, stored

__all__ = ["place_in"]


def place_in(row: Row, step: tirx.Stmt) -> tirx.Stmt | None:
    """Search along a row in vectors, from a step of TVM's; None if the step is another one."""
    extreme = _extreme(step, row.variable)
    return None if extreme is None else _place_of(row, extreme)


@dataclass(frozen=True, slots=True)
class _Extreme:
    """Statement that keeps the larger one, or the smaller one, of two numbers, and its place."""

    place: tirx.BufferStore
    number: tirx.BufferStore
    element: Value
    """Number that comes to it, which depends on the loop's variable."""
    is_least: bool


def _extreme(body: tirx.Stmt, variable: tirx.Var) -> _Extreme | None:
    """The search for the first largest or least float32 that a statement is a step of, if any."""
    steps = list(body.seq) if isinstance(body, tirx.SeqStmt) else []
    if [type(each) for each in steps] != [tirx.Bind] * 2 + [tirx.BufferStore] * 2:
        return None
    (place, number), stores = (each.value for each in steps[:2]), steps[2:]
    if not isinstance(place, Select) or not isinstance(number, Select):
        return None
    kind, either = type(number.condition), place.condition
    if kind not in (tirx.GT, tirx.LT) or str(number.ty) != "float32":
        return None
    if not isinstance(either, tirx.Or) or not isinstance(either.b, tirx.And):
        return None
    first = either.b.b
    is_first = isinstance(first, tirx.LT) and first.b.same_as(place.false_value)
    moved = place.false_value
    moved = moved.value if isinstance(moved, tirx.Cast) else moved
    if not is_first or not moved.same_as(variable):
        return None
    return _Extreme(stores[0], stores[1], number.false_value, kind is tirx.LT)


def _place_of(row: Row, extreme: _Extreme) -> tirx.Stmt:
    """Vectors of numbers and of their places; the first NaN comes before all numbers.

    The last vector overlaps the one before, and elements that come again change nothing.
    """
    best, places, unordered, keys = map(row.vector, ("float32", "int32", "int32", "int64"))
    infinity = special(INFINITY)

    def begin(lane: Value, place: Value) -> list[tirx.Stmt]:
        values = -infinity, place.astype("int32"), tirx.const(REST, "int32")
        return stored(lane, (best, places, unordered), values)

    def go_on(lane: Value, place: Value) -> list[tirx.Stmt]:
        element, there = row.at(extreme.element, place), place.astype("int32")
        new = -element if extreme.is_least else element
        first = tirx.Min(unordered[lane], there)
        # Comparisons are false for NaN, which so is never the best.
        values = (
            Select(new > best[lane], there, places[lane]),
            Select(new <= infinity, unordered[lane], first),
            Select(new > best[lane], new, best[lane]),
        )
        return stored(lane, (places, unordered, best), values)

    def key(lane: Value, place: Value) -> list[tirx.Stmt]:  # noqa: ARG001 - a Make
        bits, is_number = bits_of(best[lane]), unordered[lane].equal(REST)
        size = bits & REST
        order = Select(is_number, Select(bits < 0, -size, size), REST)
        there = Select(is_number, places[lane], unordered[lane])
        value = order.astype("int64") * 2**32 + (REST - there).astype("int64")
        return stored(lane, (keys,), (value,))

    def larger(lane: Value, other: Value) -> list[tirx.Stmt]:
        return stored(lane, (keys,), (tirx.Max(keys[lane], keys[other]),))

    place = REST - (keys[0] & REST).astype(row.variable.ty.dtype)
    rest = row.extent % row.lanes
    stores = ((extreme.place, place), (extreme.number, row.at(extreme.element, place)))
    return tirx.SeqStmt(
        [
            *map(tirx.AllocBuffer, (best, places, unordered, keys)),
            row.in_lanes(begin, 0),
            row.over(0, go_on),
            *([row.in_lanes(go_on, row.extent - row.lanes)] if rest else []),
            row.in_lanes(key, 0),
            *row.halved(larger),
            *(
                tirx.BufferStore(each.buffer, value.astype(str(each.value.ty)), each.indices)
                for each, value in stores
            ),
        ]
    )
