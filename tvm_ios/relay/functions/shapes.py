"""Shapes of typed expressions, and the operators that change nothing but a shape."""

from __future__ import annotations

import tvm
from tvm import relay

__all__ = ["RESHAPES", "shape_of", "static_shape"]

RESHAPES = ("expand_dims", "reshape", "squeeze")
"""Operators whose result has the elements of their operand, in the same order."""


def shape_of(expression: relay.Expr) -> tuple[int, ...]:
    """Shape of a typed tensor, all of whose extents are known."""
    return tuple(map(int, expression.checked_type.shape))


def static_shape(expression: relay.Expr) -> tuple[int, ...] | None:
    """Shape of a typed expression; None where it is no tensor of a static shape."""
    type_ = expression.checked_type
    if not isinstance(type_, tvm.ir.TensorType):
        return None
    static = all(isinstance(extent, tvm.tir.IntImm) for extent in type_.shape)
    return shape_of(expression) if static else None
