"""Arithmetic between numbers of float32 and what they are in memory, as TE."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tirx, topi

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.kernels.packed_products import Packing
from tvm_ios.relax.schedules.rounding import widened

__all__ = ["looked_up", "number", "rounded", "unpacked", "written"]

LAST = np.float32(1.5 * 2**23)
"""Number of float32 whose sums with small ones have no digits behind the point."""


def number(values: te.Tensor, stored: StoredType) -> te.Tensor:
    """Numbers of float32 that are in memory in another type."""
    if not stored.is_whole:
        return te.compute(values.shape, lambda *place: widened(values(*place)), "widened")
    scale = tirx.const(np.float32(stored.scale), FLOAT32)

    def element(*place: Any) -> Any:
        wide = values(*place).astype("int32") - tirx.const(stored.zero_point, "int32")
        return wide.astype(FLOAT32) * scale

    return te.compute(values.shape, element, "numbers")


def written(values: te.Tensor, stored: StoredType) -> te.Tensor:
    """Values in memory for numbers of float32: the nearest, the even one of two."""
    if not stored.is_whole:
        return topi.cast(values, stored.dtype)

    def element(*place: Any) -> Any:
        whole = _steps(values(*place), stored) + tirx.const(stored.zero_point, "int32")
        return whole.astype(stored.dtype)

    return te.compute(values.shape, element, "whole_numbers")


def looked_up(values: te.Tensor, table: te.Tensor) -> te.Tensor:
    """Elements of a table at the places that bytes tell."""
    return te.compute(
        values.shape, lambda *place: table[values(*place).astype("int32")], "looked_up"
    )


def unpacked(
    steps: te.Tensor,
    scales: te.Tensor,
    zeros: te.Tensor | None = None,
    *,
    packing: Packing,
    inputs: int,
) -> te.Tensor:
    """Weights ``(inputs, outputs)`` of float32, from packed bytes and scales of their blocks."""

    def element(row: Any, column: Any) -> Any:
        wide = steps[column // packing.panel, row, column % packing.panel].astype(FLOAT32)
        block = row // packing.block
        wide = wide if zeros is None else wide - zeros[block, column]
        return wide * scales[block, column]

    return te.compute((inputs, packing.outputs), element, "weights")


def rounded(values: te.Tensor, stored: StoredType) -> te.Tensor:
    """Numbers of float32 nearest to those given that whole numbers stand for."""
    scale = tirx.const(np.float32(stored.scale), FLOAT32)
    return te.compute(
        values.shape,
        lambda *place: _steps(values(*place), stored).astype(FLOAT32) * scale,
        "rounded",
    )


def _steps(value: Any, stored: StoredType) -> Any:
    """Steps from 0 to the nearest of the numbers that whole numbers stand for, as int32."""
    least, most = (tirx.const(each, FLOAT32) for each in stored.steps)
    inverse = tirx.const(np.float32(1) / np.float32(stored.scale), FLOAT32)
    bounded = tirx.min(tirx.max(value * inverse, least), most)
    # The bits of its sum count on from those of the constant; TVM would simplify a difference of
    # floats.
    bits = tirx.reinterpret("int32", bounded + tirx.const(LAST, FLOAT32))
    return bits - tirx.const(int(LAST.view("int32")), "int32")
