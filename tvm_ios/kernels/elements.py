"""Elements of memory from a place on, which kernels load one by one or as vectors."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tir

__all__ = ["Elements", "ramp"]


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements from some place of a row of memory on; the place is kept as a pointer.

    With numbers of elements in place of a pointer LLVM would keep one for each load.
    """

    row: tir.Buffer
    view: tir.Buffer
    """Elements from the place on."""

    @classmethod
    def of(cls, row: tir.Buffer, name: str) -> Elements:
        """Elements of a row, from a place on that :meth:`bound` says."""
        pointer = tir.Var(name, tvm.ir.PointerType(tvm.ir.PrimType(row.dtype)))
        return cls(row, tir.decl_buffer(row.shape, row.dtype, name, data=pointer))

    def bound(self, begin: tir.PrimExpr, body: tir.Stmt) -> tir.Stmt:
        """Statement in which they begin at a place."""
        address = tir.address_of(tir.BufferLoad(self.row, [begin]))
        return tir.LetStmt(self.view.data, address, body)

    def element(self, place: tir.PrimExpr) -> tir.PrimExpr:
        """Element at a place, counted from the pointer."""
        return tir.BufferLoad(self.view, [place])

    def vector(self, place: tir.PrimExpr | int, lanes: int) -> tir.PrimExpr:
        """Elements side by side, as a vector."""
        return tir.BufferLoad(self.view, [ramp(place, lanes)])


def ramp(begin: tir.PrimExpr | int, lanes: int) -> tir.PrimExpr:
    """Numbers of elements side by side."""
    first = tvm.runtime.convert(begin)
    return tir.Ramp(first, tir.const(1, first.dtype), lanes)
