"""Loops of a row kernel for a few long rows, each of which is split over lanes.

Every pass over the rows is a parallel loop of its own: parts of rows are reduced first, then their
results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial

from tvm import tir

from tvm_ios.kernels.loops import allocated, sequence
from tvm_ios.relay.row_kernels.emission import Emitter
from tvm_ios.relay.row_kernels.values import Computation, Value

__all__ = ["SplitEmitter", "parts_of_rows"]

FEW = 8
"""Number of rows from which on lanes find enough to do."""
LONG = 1 << 15
"""Elements of a row from which on it is split."""
MOST_PARTS = 16


def parts_of_rows(computation: Computation) -> int:
    """Number of parts of each row; 1 where rows are many, short, or cannot be split evenly."""
    sizes = list(zip(computation.extents, computation.reduced, strict=True))
    rows = math.prod(extent for extent, reduced in sizes if not reduced)
    inner = [extent for extent, reduced in sizes if reduced]
    if not computation.reduced[-1] or rows >= FEW or math.prod(inner) < LONG:
        return 1
    return max(parts for parts in range(1, MOST_PARTS + 1) if inner[0] % parts == 0)


class SplitEmitter(Emitter):
    """Loops of one kernel, in which parts of rows are split over lanes."""

    def __init__(self, computation: Computation, parts: int) -> None:
        super().__init__(computation)
        self.parts = parts
        self.extent[self.inner[0]] //= parts
        self.slots = math.prod(self.extent[axis] for axis in self.rows)
        # What one pass keeps for all elements lies in buffers of one part, which the next has not.
        self.passes = Counter()

    def statement(self) -> tir.Stmt:
        """Statement that computes the function."""
        statements: list[tir.Stmt] = []
        whole: list[tir.Buffer] = []
        for value in self.values:
            if value.combiner is not None:
                statements += self._reduced(value, value.combiner, whole)
            elif value.on_row and not value.is_simple:
                statements.append(self._for_rows(partial(self._on_row, value)))
                whole += self.buffers
        statements.append(self._for_parts(lambda _: self.written()))
        return allocated(whole, sequence(statements))

    def _on_row(self, value: Value, _row: tir.PrimExpr) -> list[tir.Stmt]:
        return self.on_rows(value)

    def _reduced(
        self, value: Value, combiner: tir.CommReducer, whole: list[tir.Buffer]
    ) -> list[tir.Stmt]:
        """Statements that reduce parts of rows, then rows; their buffers go into ``whole``."""
        parts = self.buffer(self.slots * self.parts, value)

        def reduced(part: tir.PrimExpr) -> list[tir.Stmt]:
            statements = self.reduction(value, combiner)
            found = self.of_row[value][0]
            return [*statements, tir.BufferStore(parts, found, [part])]

        def joined(row: tir.PrimExpr) -> list[tir.Stmt]:
            total = parts[row * self.parts]
            for part in range(1, self.parts):
                both = {combiner.lhs[0]: total, combiner.rhs[0]: parts[row * self.parts + part]}
                total = tir.stmt_functor.substitute(combiner.result[0], both)
            return [tir.BufferStore(rows, total, [row])]

        by_parts = self._for_parts(reduced)
        rows = self.buffer(self.slots, value)
        whole += [parts, rows]
        self.of_row[value] = rows
        return [by_parts, self._for_rows(joined)]

    def _for_parts(self, make: Callable[[tir.PrimExpr], list[tir.Stmt]]) -> tir.Stmt:
        part = tir.Var("part", "int32")
        first = self.inner[0]
        self.begin_at(tir.indexdiv(part, self.parts))
        self.begin[first] = tir.indexmod(part, self.parts) * self.extent[first]
        self.slot = tir.indexdiv(part, self.parts)
        self.buffers = []
        body = sequence(make(part))
        body = allocated(self.buffers, body)
        return tir.For(part, 0, self.slots * self.parts, tir.ForKind.PARALLEL, body)

    def _for_rows(self, make: Callable[[tir.PrimExpr], list[tir.Stmt]]) -> tir.Stmt:
        row = tir.Var("row", "int32")
        self.begin_at(row)
        self.slot = row
        self.buffers = []
        return tir.For(row, 0, self.slots, tir.ForKind.SERIAL, sequence(make(row)))
