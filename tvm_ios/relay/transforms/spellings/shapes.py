"""Static shapes of typed expressions."""

from __future__ import annotations

import tvm
from tvm import relay

__all__ = ["shape_of"]


def shape_of(expression: relay.Expr) -> tuple[int, ...] | None:
    """Shape of a typed expression; None where it is no tensor of a static shape."""
    type_ = expression.checked_type
    if not isinstance(type_, tvm.ir.TensorType):
        return None
    if not all(isinstance(extent, tvm.tir.IntImm) for extent in type_.shape):
        return None
    return tuple(map(int, type_.shape))
