"""Elements of memory from a place on, which kernels load one by one or as vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_ios.kernels.loops import IS_NEW, Expression, Statement, elsewhere, placed, tir

__all__ = ["Elements", "ramp"]


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements from some place of a row of memory on; the place is kept as a pointer.

    With numbers of elements in place of a pointer LLVM would keep one for each load.
    """

    row: Any
    view: Any
    """Elements from the place on."""

    @classmethod
    def of(cls, row: Any, name: str) -> Elements:
        """Elements of a row, from a place on that :meth:`bound` says."""
        return cls(row, elsewhere(row.shape, str(row.dtype), name))

    def bound(self, begin: Expression, body: Statement) -> Statement:
        """Statement in which they begin at a place."""
        return placed(self.view, tir.address_of(tir.BufferLoad(self.row, [begin])), body)

    def element(self, place: Expression) -> Expression:
        """Element at a place, counted from the pointer."""
        return tir.BufferLoad(self.view, [place])

    def vector(self, place: Expression | int, lanes: int) -> Expression:
        """Elements side by side, as a vector."""
        return tir.BufferLoad(self.view, [ramp(place, lanes)])


def ramp(begin: Expression | int, lanes: int) -> Expression:
    """Numbers of elements side by side."""
    first = tir.const(begin, "int32") if isinstance(begin, int) else begin
    dtype = str(first.ty if IS_NEW else first.dtype)
    return tir.Ramp(first, tir.const(1, dtype), lanes)
