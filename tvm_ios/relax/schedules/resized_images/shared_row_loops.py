"""Loops over rows of the result, each of which is made of rows of a ring that are computed once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.strides import Axis
from tvm_ios.relax.schedules.tiles import (
    PLACES,
    in_order,
    loads_of,
    over_tasks,
    stored_in_vectors,
    substituted,
    unfused,
    uses,
)

__all__ = ["SharedRowLoops", "SharedRows"]

TASKS = 8
"""Tasks of a kernel at least; images have parts where there are fewer."""
LINE = 16
"""Elements of a line of cache."""
WRITTEN_OUT = 64
"""Most places of an axis for each of which there is code, in place of tables."""
GROUP, RING = 16, 4096
"""Most rows of the result in a group, and most elements of a ring for a group of several."""


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Elements that are computed of single rows of an image."""

    element: Value
    source: tirx.Var
    """The row that an element is computed of."""
    rows: Sequence[Value]
    """Rows of which a row of the result is made, by its number."""
    value: Value
    """Element of the result, in which those of the rows are variables."""
    parts: Sequence[tirx.Var]
    first: Sequence[int]
    last: Sequence[int]
    """First and last row that each row of the result is made of."""
    ends: tuple[int, int]
    """Numbers of the first and of the last one in ``rows``."""

    def length(self, group: int) -> int:
        """Rows that so many rows of the result are made of at most, or more: a power of 2."""
        ends = zip(self.first, self.last[group - 1 :], strict=False)
        return 1 << max(last - first for first, last in ends).bit_length()


@dataclass(frozen=True, slots=True)
class SharedRowLoops:
    """Loops over groups of rows of the result, behind those that fill the ring for a group."""

    store: tirx.BufferStore
    shared: SharedRows
    images: Sequence[Axis]
    row: Axis
    inner: Sequence[Axis]
    lanes: int

    def all(self) -> tirx.Stmt:
        """Tables, and the loop over images or their parts."""
        images, type_ = [axis.extent for axis in self.images], self.row.variable.ty.dtype
        parts = min(self.row.extent, -(-TASKS // math.prod(images)))
        count, parts = _even(self.row.extent, parts)
        size = math.prod(axis.extent for axis in self.inner)
        fitting = (each for each in range(min(GROUP, count), 1, -1) if self._fits(each, size))
        group, groups = _even(count, -(-count // next(fitting, 1)))
        task, step = tirx.Var("task", type_), tirx.Var("step", type_)
        *numbers, part = unfused(task, [*images, parts])
        # The last ones end where all ends, and write some rows once more.
        first = tirx.min(part * count, self.row.extent - count)
        first += tirx.min(step * group, count - group)
        tables = _Tables(self.lanes)
        *between, width = (axis.extent for axis in self.inner)
        # Rows begin where lines of cache do.
        shape = (self.shared.length(group), *between, -(-width // LINE) * LINE)
        ring = tirx.decl_buffer(shape, str(self.shared.element.ty), "ring", layout=None)
        done = tirx.decl_buffer((1,), type_, "done", layout=None)
        variables = [axis.variable for axis in self.images]
        body = substituted(
            in_order(self._group(tables, first, group, ring, done)),
            list(zip(variables, numbers, strict=True)),
        )
        steps = [
            tirx.AllocBuffer(done),
            tirx.AllocBuffer(ring),
            tirx.BufferStore(done, tirx.const(0, type_), [0]),
            tirx.For(step, 0, groups, tirx.ForKind.SERIAL, body),
        ]
        size *= math.prod([*images, self.row.extent])
        loop = over_tasks(task, math.prod(images) * parts, tirx.SeqStmt(steps), size)
        return tirx.SeqStmt([*tables.steps, loop])

    def _fits(self, group: int, size: int) -> bool:
        return self.shared.length(group) * size <= RING

    def _group(
        self, tables: _Tables, begin: Value, count: int, ring: tirx.Buffer, done: tirx.Buffer
    ) -> list[tirx.Stmt]:
        """Statements that write rows from one on, behind those that fill the ring."""
        shared, inner = self.shared, [axis.variable for axis in self.inner]
        rows = [tables.of(each, self.row) for each in shared.rows]
        first = tirx.max(rows[shared.ends[0]][begin], done[0])
        end = rows[shared.ends[1]][begin + (count - 1)] + 1
        element = shared.element
        for axis in self.inner[:-1]:
            if axis.extent > WRITTEN_OUT:
                element = tables.within(element, axis)
        filled = tirx.BufferStore(ring, element, [shared.source % ring.shape[0], *inner])
        step = tirx.Var("step", self.row.variable.ty.dtype)
        read = [ring[row[self.row.variable] % ring.shape[0], *inner] for row in rows]
        value = tables.within(shared.value, self.row)
        value = substituted(value, list(zip(shared.parts, read, strict=True)))
        written = tirx.BufferStore(self.store.buffer, value, self.store.indices)
        written = substituted(written, [(self.row.variable, begin + step)])
        serial = tirx.ForKind.SERIAL
        return [
            tirx.For(shared.source, first, end - first, serial, self._over(filled, WRITTEN_OUT)),
            tirx.BufferStore(done, end, [0]),
            tirx.For(step, 0, count, serial, self._over(written, 0)),
        ]

    def _over(self, store: tirx.BufferStore, written_out: int) -> tirx.Stmt:
        """Loops over a row; those between it and its elements are written out if they are short."""
        *between, along = self.inner
        indices = [index for load in loads_of(store.value) for index in load.indices]
        variable = along.variable
        if all(each.same_as(variable) or not uses(each, variable) for each in indices):
            body = in_order(
                stored_in_vectors(store, along.variable, range(along.extent), self.lanes)
            )
        else:
            body = _over_axis(along, store, tirx.ForKind.SERIAL, {PLACES: 1})
        for axis in reversed(between):
            is_short = axis.extent <= written_out
            kind = tirx.ForKind.UNROLLED if is_short else tirx.ForKind.SERIAL
            body = _over_axis(axis, body, kind, {})
        return body


@dataclass(frozen=True, slots=True)
class _Tables:
    """Numbers that depend on the place along one axis alone: computed once, in vectors."""

    lanes: int
    steps: list[tirx.Stmt] = field(default_factory=list)
    known: list[tuple[Value, tirx.Buffer]] = field(default_factory=list)

    def of(self, value: Value, axis: Axis) -> tirx.Buffer:
        """Table of a value of an axis."""
        for other, buffer in self.known:
            if tvm_ffi.structural_equal(value, other):
                return buffer
        buffer = tirx.decl_buffer((axis.extent,), str(value.ty), "table", layout=None)
        store = tirx.BufferStore(buffer, value, [axis.variable])
        self.known.append((value, buffer))
        self.steps.append(tirx.AllocBuffer(buffer))
        self.steps.extend(stored_in_vectors(store, axis.variable, range(axis.extent), self.lanes))
        return buffer

    def within(self, value: Value, axis: Axis) -> Value:
        """Value in which those of an axis alone are looked up."""

        def looked_up(part: Value) -> Value:
            if isinstance(part, tirx.Var | tvm.ir.Op):
                return part
            variables = tirx.analysis.undefined_vars(part, [])
            if not variables or not all(each.same_as(axis.variable) for each in variables):
                return part
            return self.of(part, axis)[axis.variable]

        return tvm_ffi.structural_map(value, (Value, looked_up), order="pre")


def _even(count: int, parts: int) -> tuple[int, int]:
    """Length of parts that differ little, and how many there are."""
    length = -(-count // parts)
    return length, -(-count // length)


def _over_axis(
    axis: Axis, body: tirx.Stmt, kind: tirx.ForKind, annotations: dict[str, int]
) -> tirx.For:
    variable = tirx.Var("at", axis.variable.ty.dtype)
    body = substituted(body, [(axis.variable, variable)])
    return tirx.For(variable, 0, axis.extent, kind, body, annotations=annotations)
