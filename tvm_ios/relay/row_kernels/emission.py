"""Loops of a row kernel: each row is reduced and written while it lies in the nearest cache.

Rows are split over lanes. Where the innermost axis is reduced, vectors lie along a row, and sums
are kept in several of them, since LLVM does not reorder sums of floats by itself; else they lie
across rows, and each element belongs to another one. What does not fill a vector is computed by a
vector that overlaps the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import tir

from tvm_ios.kernels.loops import ENOUGH_TASKS, allocated, loop, sequence, vector
from tvm_ios.relay.row_kernels.costs import is_dear, passes_of, readers_of
from tvm_ios.relay.row_kernels.values import Computation, Value

__all__ = ["Emitter", "Point"]

VECTOR = 16
"""Most elements of a vector; compilers split it where registers are shorter."""
SUMS = 4
"""Vectors that a reduction is summed up in, so that additions need not wait for each other."""
TURNS = range(1, 9)
"""Numbers of rows, one after the other, for which buffers may be allocated together: TVM takes
those above 1024 bytes from its pool, which may take as long as a row."""
NEAR_BYTES = 32 << 10
"""Bytes of the nearest cache, which rows that are computed at once should fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Place of an element, all of whose vector is computed in one statement."""

    at: Mapping[tir.Var, tir.PrimExpr]
    """Index along each axis."""
    lane: tir.PrimExpr
    """Place in the vector."""
    slot: tir.PrimExpr
    """Number of its row among those computed at once."""


Make = Callable[[Point, tir.PrimExpr, int], tir.Stmt]
"""Function from a point, the sum it belongs to, and the number of elements at the begin of its
vector that were counted already, to a statement."""


class Emitter:
    """Loops of one kernel, in which rows are split over lanes."""

    def __init__(self, computation: Computation) -> None:
        self.values, self.place = computation.values, computation.place
        self.result = computation.result
        self.extent = dict(zip(computation.axes, computation.extents, strict=True))
        flags = list(zip(computation.axes, computation.reduced, strict=True))
        self.rows = [axis for axis, reduced in flags if not reduced]
        self.inner = [axis for axis, reduced in flags if reduced]
        self.last = computation.axes[-1]
        self.along = computation.reduced[-1]
        """True if vectors lie along rows, False if across them."""
        self.width = min(VECTOR, 1 << (self.extent[self.last].bit_length() - 1))
        self.blocks = 1 if self.along else self._blocks()
        self.at_once = 1 if self.along else self.blocks * self.width
        """Rows that are computed at once."""
        self.slots = self.at_once
        """Rows whose values are kept at once."""
        self.begin: dict[tir.Var, tir.PrimExpr] = {}
        """Indices of the first row along the axes of rows, and of where it begins along others."""
        self.slot: tir.PrimExpr = tir.const(0, "int32")
        """Place of the first row in buffers of rows."""
        self.buffers: list[tir.Buffer] = []
        self.of_row: dict[Value, tir.Buffer] = {}
        """Values of the rows that were computed so far."""
        self.scratch: dict[Value, tir.Buffer] = {}
        """Values of all elements of the rows that were kept so far."""
        self.filled: frozenset[Value] = frozenset()
        """Values that earlier passes kept for all elements, and this pass may read."""
        self.readers = readers_of(self.values)
        self.passes = passes_of(self.values)

    def _blocks(self) -> int:
        """Number of vectors across rows."""
        blocks = 1
        bytes_of = 4 * self.width * math.prod(self.extent[axis] for axis in self.inner)
        while (
            blocks < SUMS
            and 2 * blocks * self.width <= self.extent[self.last]
            and 2 * blocks * bytes_of <= NEAR_BYTES
        ):
            blocks *= 2
        return blocks

    def statement(self) -> tir.Stmt:
        """Statement that computes the function."""
        row, task = tir.Var("row", "int32"), tir.Var("task", "int32")
        count = self.begin_at(row)
        passes = sequence(self._passes())
        step = max(n for n in TURNS if count % n == 0 and (n == 1 or count >= n * ENOUGH_TASKS))
        turns = loop(
            step,
            lambda turn: tir.stmt_functor.substitute(passes, {row: task * step + turn}),
        )
        return tir.For(task, 0, count // step, tir.ForKind.PARALLEL, allocated(self.buffers, turns))

    def begin_at(self, row: tir.PrimExpr) -> int:
        """Number of rows, or of times that rows are computed at once; ``row`` is one of them."""
        count = 1
        for axis in reversed(self.rows):
            step = 1 if axis is not self.last else self.at_once
            extent = -(-self.extent[axis] // step)
            index = tir.indexmod(tir.indexdiv(row, count), extent) * step
            # The last rows at once begin earlier, and compute some of the rows before them again.
            self.begin[axis] = index if step == 1 else tir.min(index, self.extent[axis] - step)
            count *= extent
        return count

    def _passes(self) -> list[tir.Stmt]:
        statements: list[tir.Stmt] = []
        for value in self.values:
            if value.combiner is not None:
                statements += self.reduction(value, value.combiner)
                self.filled = frozenset(self.scratch)
            elif value.on_row and not value.is_simple:
                statements += self.on_rows(value)
        return [*statements, *self.written()]

    def written(self) -> list[tir.Stmt]:
        """Statements that write the result."""
        result = self.values[-1]

        def store(point: Point, _sum: tir.PrimExpr, _skipped: int) -> tir.Stmt:
            place = tir.stmt_functor.substitute(self.place, dict(point.at))
            return self._statement(
                result, point, lambda found: tir.BufferStore(self.result, found, [place])
            )

        return self.sweep(store, 1)

    def on_rows(self, value: Value) -> list[tir.Stmt]:
        """Statements that compute a value once for each row."""
        buffer = self.buffer(self.slots, value)

        def keep(point: Point, _sum: tir.PrimExpr, _skipped: int) -> tir.Stmt:
            return self._statement(
                value, point, lambda found: tir.BufferStore(buffer, found, [point.slot])
            )

        statements = self._over_rows(keep)
        self.of_row[value] = buffer
        return statements

    def reduction(self, value: Value, combiner: tir.CommReducer) -> list[tir.Stmt]:
        """Statements that reduce a value over each row."""
        identity = combiner.identity_element[0]
        sums, length = SUMS // self.blocks, self.blocks * self.width
        partial = self.buffer(sums * length, value)

        def add_up(place: tir.PrimExpr, new: tir.PrimExpr) -> tir.Stmt:
            operands = {combiner.lhs[0]: partial[place], combiner.rhs[0]: new}
            both = tir.stmt_functor.substitute(combiner.result[0], operands)
            return tir.BufferStore(partial, both, [place])

        def add(point: Point, number: tir.PrimExpr, skipped: int) -> tir.Stmt:
            def masked(found: tir.PrimExpr) -> tir.Stmt:
                counts = point.lane >= skipped
                own = tir.Select(counts, found, identity) if skipped else found
                return add_up(number * length + (point.lane if self.along else point.slot), own)

            return self._statement(value, point, masked)

        def zero(begin: int) -> tir.Stmt:
            return vector(
                self.width, lambda lane: tir.BufferStore(partial, identity, [begin + lane])
            )

        def fold(to: int, begin: int, count: int) -> tir.Stmt:
            return vector(count, lambda lane: add_up(to + lane, partial[begin + lane]))

        begins = range(0, sums * length, self.width)
        zeros = [zero(begin) for begin in begins]
        swept = self.sweep(add, sums)
        folds = [fold(begin % length, begin, self.width) for begin in begins if begin >= length]
        half = self.width // 2 if self.along else 0
        while half:
            folds.append(fold(0, half, half))
            half //= 2
        self.of_row[value] = partial
        return [*zeros, *swept, *folds]

    def _over_rows(self, make: Make) -> list[tir.Stmt]:
        """Statement for each of the rows that are computed at once."""
        zero = tir.const(0, "int32")
        if self.along:
            return [make(Point(at=self.begin, lane=zero, slot=self.slot), zero, 0)]
        return [self._across(self.begin, lambda point: make(point, zero, 0))]

    def _across(
        self, at: Mapping[tir.Var, tir.PrimExpr], make: Callable[[Point], tir.Stmt]
    ) -> tir.Stmt:
        """Statement for each row at some place along the reduced axes."""

        def block(number: tir.PrimExpr) -> tir.Stmt:
            def one(lane: tir.PrimExpr) -> tir.Stmt:
                slot = number * self.width + lane
                here = {**at, self.last: at[self.last] + slot}
                return make(Point(at=here, lane=lane, slot=slot))

            return vector(self.width, one)

        return loop(self.blocks, block, tir.ForKind.UNROLLED)

    def sweep(self, make: Make, sums: int) -> list[tir.Stmt]:
        """Statements for every element of the rows; ``make`` is told which sum it belongs to."""
        if not self.inner:
            return self._over_rows(make)
        *outer, axis = self.inner
        names = [tir.Var(each.name, "int32") for each in outer]
        at = dict(self.begin)
        for each, name in zip(outer, names, strict=True):
            at[each] = self.begin.get(each, 0) + name

        def step(index: tir.PrimExpr, number: tir.PrimExpr, skipped: int = 0) -> tir.Stmt:
            if not self.along:
                here = {**at, axis: index}
                return self._across(here, lambda point: make(point, number, 0))

            def one(lane: tir.PrimExpr) -> tir.Stmt:
                here = {**at, axis: self.begin.get(axis, 0) + index + lane}
                return make(Point(at=here, lane=lane, slot=self.slot), number, skipped)

            return vector(self.width, one)

        stride = self.width if self.along else 1
        count, rest = divmod(self.extent[axis], stride)
        rounds, more = divmod(count, sums)
        statements = [
            loop(
                rounds,
                lambda turn: loop(
                    sums, lambda n: step((turn * sums + n) * stride, n), tir.ForKind.UNROLLED
                ),
            ),
            loop(more, lambda n: step((rounds * sums + n) * stride, n), tir.ForKind.UNROLLED),
        ]
        if rest:
            begin = tir.const(self.extent[axis] - stride, "int32")
            statements.append(step(begin, tir.const(more, "int32"), stride - rest))
        whole = sequence(statements)
        for old, name in reversed(list(zip(outer, names, strict=True))):
            whole = tir.For(name, 0, self.extent[old], tir.ForKind.SERIAL, whole)
        return [whole]

    def _statement(
        self, value: Value, point: Point, use: Callable[[tir.PrimExpr], tir.Stmt]
    ) -> tir.Stmt:
        """Statement that computes a value at a point, and uses it."""
        around: list[Callable[[tir.Stmt], tir.Stmt]] = []
        known: dict[Value, tir.PrimExpr] = {}

        def read(value: Value) -> tir.PrimExpr:
            if value not in known:
                kept = self._kept(value, point)
                known[value] = found(value) if kept is None else kept
            return known[value]

        def found(value: Value) -> tir.PrimExpr:
            made = self._with_reads(value, point, read)
            if value.on_row or value.is_simple or self.readers[value] < 2:
                return made
            name = tir.Var("once", made.dtype)
            around.append(lambda rest: tir.LetStmt(name, made, rest))
            if self.passes[value] > 1 and is_dear(value):
                store = tir.BufferStore(self._scratch(value), name, [self._place(point)])
                around.append(lambda rest: tir.SeqStmt([store, rest]))
            return name

        kept = self._kept(value, point)
        statement = use(self._with_reads(value, point, read) if kept is None else kept)
        for each in reversed(around):
            statement = each(statement)
        return statement

    def _kept(self, value: Value, point: Point) -> tir.PrimExpr | None:
        """Value that was computed before, read from where it was kept."""
        if value in self.of_row:
            return self.of_row[value][point.slot]
        return self.scratch[value][self._place(point)] if value in self.filled else None

    def _with_reads(
        self, value: Value, point: Point, read: Callable[[Value], tir.PrimExpr]
    ) -> tir.PrimExpr:
        operands = {each.name: read(each) for each in value.reads}
        return tir.stmt_functor.substitute(value.expression, {**operands, **point.at})

    def _place(self, point: Point) -> tir.PrimExpr:
        """Place of an element in buffers that hold the rows computed at once."""
        place: tir.PrimExpr = tir.const(0, "int32")
        for axis in self.inner:
            place = place * self.extent[axis] + point.at[axis]
        return place * self.at_once + point.slot

    def _scratch(self, value: Value) -> tir.Buffer:
        if value not in self.scratch:
            length = self.at_once * math.prod(self.extent[axis] for axis in self.inner)
            self.scratch[value] = self.buffer(length, value)
        return self.scratch[value]

    def buffer(self, length: int, value: Value) -> tir.Buffer:
        """New buffer for so many results of a value."""
        name = f"kept{len(self.buffers)}"
        buffer = tir.decl_buffer((length,), value.expression.dtype, name, scope="global")
        self.buffers.append(buffer)
        return buffer
