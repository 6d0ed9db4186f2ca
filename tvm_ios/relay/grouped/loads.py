"""Loads of vectors for a depthwise or grouped convolution: of data and of weights."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tir

from tvm_ios.relay.grouped.geometry import Geometry

__all__ = ["Elements", "ramp", "value_of_groups"]


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


def value_of_groups(
    shape: Geometry, data: Elements, place: int, number: tir.PrimExpr | int
) -> tir.PrimExpr:
    """Input channel of some number in its group, for each element of a vector of results."""
    lanes = shape.vector
    if shape.is_depthwise:
        return data.vector(place, lanes)
    if shape.fills_vectors:
        return tir.Broadcast(data.element(place + number), lanes)
    span = lanes // shape.group_outputs * shape.group_inputs
    chosen = [
        tir.const(lane // shape.group_outputs * shape.group_inputs + int(number), "int32")
        for lane in range(lanes)
    ]
    # TVM shuffles no vector into a longer one.
    return tir.Shuffle([data.vector(place, span)] * -(-lanes // span), chosen)


def ramp(begin: tir.PrimExpr | int, lanes: int) -> tir.PrimExpr:
    """Numbers of elements side by side."""
    first = tvm.runtime.convert(begin)
    return tir.Ramp(first, tir.const(1, first.dtype), lanes)
