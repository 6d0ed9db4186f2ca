"""Places of the largest or least elements of rows, as NumPy finds them.

Goes behind the loops. TVM forgets a NaN that other numbers follow, and finds no place in a row of
nothing but -inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from tvm import tirx
from tvm.tirx import Expr as Value
from tvm.tirx import Select

from tvm_ios.relax.schedules.arithmetic import INFINITY, NAN, REST, special
from tvm_ios.relax.schedules.row_vectors import Make, Row, stored

__all__ = ["places_in"]

LONGEST = 8
"""Most vectors of a block."""


def places_in(row: Row, step: tirx.Stmt) -> list[tirx.Stmt]:
    """Search along a row in vectors, from a step of TVM's; none if the step is another one.

    First the best number and the block of a few vectors that has it, then the place in there, or in
    the whole row for a NaN. Each waits for its last vectors, so several rows do the one before any
    does the other.
    """
    extreme = _extreme(step, row.variable)
    return [] if extreme is None else [_best_of(row, extreme), _place_of(row, extreme)]


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


def _best_of(row: Row, extreme: _Extreme) -> tirx.Stmt:
    """Best number of a row, and the first block that has it; a negative one if there is a NaN.

    The last block may overlap the one before: elements that come again change nothing.
    """
    best, most, among, blocks = map(row.vector, ("float32", "float32", "float32", "int32"))
    block = tirx.Var("block", row.variable.ty.dtype)
    better, choose = (tirx.LT, tirx.Min) if extreme.is_least else (tirx.GT, tirx.Max)
    worst = special(INFINITY) if extreme.is_least else -special(INFINITY)

    def go_on(lane: Value, place: Value) -> list[tirx.Stmt]:
        several = range(_vectors_of_block(row))
        elements = [row.at(extreme.element, place + number * row.lanes) for number in several]
        # Comparisons are false for NaN, so once it is the best it stays that.
        best_of_all = choose(among[lane], best[lane])
        values = (
            reduce(lambda chosen, new: choose(new, chosen), elements),
            Select(better(among[lane], best[lane]), block.astype("int32"), blocks[lane]),
            Select(reduce(tirx.And, map(_is_number, elements)), best_of_all, special(NAN)),
        )
        return stored(lane, (among, blocks, best), values)

    def choose_one(lane: Value, other: Value) -> list[tirx.Stmt]:
        return stored(lane, (most,), (choose(most[lane], most[other]),))

    def first(lane: Value, place: Value) -> list[tirx.Stmt]:  # noqa: ARG001 - a Make
        has_best = Select(best[lane].equal(most[0]), blocks[lane], _int32(REST))
        return stored(lane, (blocks,), (Select(_is_number(best[lane]), has_best, _int32(-1)),))

    return tirx.SeqStmt(
        [
            *map(tirx.AllocBuffer, (best, most, among, blocks)),
            row.in_lanes(lambda lane, _: stored(lane, (best, blocks), (worst, _int32(0))), 0),
            _loop(block, _blocks(row), row.in_lanes(go_on, _begin_of(row, block))),
            row.in_lanes(lambda lane, _: stored(lane, (most,), (best[lane],)), 0),
            *row.halved(choose_one),
            row.in_lanes(first, 0),
            *row.halved(_least_of(blocks)),
            _kept(extreme.number, most[0]),
            _kept(extreme.place, blocks[0]),
        ]
    )


def _place_of(row: Row, extreme: _Extreme) -> tirx.Stmt:
    """First place of the best number of a row, or of a NaN."""
    type_ = row.variable.ty.dtype
    best, block = (
        tirx.BufferLoad(each.buffer, each.indices) for each in (extreme.number, extreme.place)
    )
    places, numbers, wanted = map(row.vector, ("int32", "int32", "float32"))
    is_ordered, number = block >= 0, tirx.Var("number", type_)
    begin = Select(is_ordered, _begin_of(row, block.astype(type_)), tirx.const(0, type_))
    begin = tirx.Min(begin + number * row.lanes, tirx.const(row.extent - row.lanes, type_))
    vectors = (_vectors_of_block(row), -(-row.extent // row.lanes))
    several = Select(is_ordered, *(tirx.const(each, type_) for each in vectors))

    def look(lane: Value, place: Value) -> list[tirx.Stmt]:
        value, here = row.at(extreme.element, place), begin.astype("int32") + numbers[lane]
        found = Select(_is_number(value), _int32(REST), here)
        found = Select(value.equal(wanted[lane]), here, found)
        return stored(lane, (places,), (tirx.Min(places[lane], found),))

    def start(lane: Value, place: Value) -> list[tirx.Stmt]:  # noqa: ARG001 - a Make
        # TVM makes a vector of lane after lane where these begin at a number that is not known.
        values = _int32(REST), Select(is_ordered, best, special(NAN)), lane.astype("int32")
        return stored(lane, (places, wanted, numbers), values)

    return tirx.SeqStmt(
        [
            *map(tirx.AllocBuffer, (places, numbers, wanted)),
            row.in_lanes(start, 0),
            _loop(number, several, row.in_lanes(look, begin)),
            *row.halved(_least_of(places)),
            _kept(extreme.number, row.at(extreme.element, places[0].astype(type_))),
            _kept(extreme.place, places[0]),
        ]
    )


def _kept(store: tirx.BufferStore, value: Value) -> tirx.Stmt:
    return tirx.BufferStore(store.buffer, value.astype(str(store.value.ty)), store.indices)


def _is_number(value: Value) -> Value:
    return value <= special(INFINITY)


def _begin_of(row: Row, block: Value) -> Value:
    """First place of a block."""
    extent = _vectors_of_block(row) * row.lanes
    return tirx.Min(block * extent, tirx.const(row.extent - extent, block.ty.dtype))


def _blocks(row: Row) -> int:
    return -(-row.extent // (_vectors_of_block(row) * row.lanes))


def _vectors_of_block(row: Row) -> int:
    """Vectors of a block, such that blocks cover the row and few of them are read twice."""
    vectors = -(-row.extent // row.lanes)
    blocks = -(-vectors // LONGEST)
    return -(-vectors // (2 if blocks == 1 and row.extent % row.lanes else blocks))


def _least_of(buffer: tirx.Buffer) -> Make:
    return lambda lane, other: stored(lane, (buffer,), (tirx.Min(buffer[lane], buffer[other]),))


def _loop(variable: tirx.Var, extent: Value | int, body: tirx.Stmt) -> tirx.Stmt:
    return tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, body)


def _int32(number: int) -> Value:
    return tirx.const(number, "int32")
