"""Attention of a fused function: where its operands lie, and what becomes of scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tir

__all__ = ["Attention", "Digit", "Operand", "ScoreStep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digit:
    """Digit of the number of a head, such as that of the window, or of the head in it."""

    divisor: int
    """Product of the extents of all lower digits."""
    extent: int
    stride: int
    """Elements between operands of two heads whose digits differ by 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A matrix for each head, whose elements lie in a tensor at fixed strides."""

    buffer: tir.Buffer
    """The tensor as one row of elements."""
    begin: int
    digits: tuple[Digit, ...]
    rows: int
    """Elements between two rows."""
    columns: int
    """Elements between two columns."""

    def place(self, head: tir.PrimExpr, row: tir.PrimExpr, column: tir.PrimExpr) -> tir.PrimExpr:
        """Place of an element in the tensor."""
        place = self.begin + row * self.rows + column * self.columns
        for digit in self.digits:
            number = tir.indexmod(tir.indexdiv(head, digit.divisor), digit.extent)
            place = place + number * digit.stride
        return place

    def element(self, head: tir.PrimExpr, row: tir.PrimExpr, column: tir.PrimExpr) -> tir.PrimExpr:
        """Element of the tensor."""
        return tir.BufferLoad(self.buffer, [self.place(head, row, column)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreStep:
    """A function of each score, and of an element of other matrices."""

    operands: tuple[Operand, ...]
    function: Callable[..., tir.PrimExpr]
    """Function from the score and the elements of the operands to the new score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax of the steps of query times key, along keys, times value, for each head."""

    heads: int
    """Number of heads of all sequences or windows."""
    queries: int
    keys: int
    depth: int
    """Columns of query and key."""
    width: int
    """Columns of value and result."""
    query: Operand
    key: Operand
    value: Operand
    """Matrix with a row for each key."""
    result: Operand
    steps: tuple[ScoreStep, ...]
    parameters: tuple[tir.Buffer, ...]
    """Buffers of the function's arguments and result, with their own shapes."""
