"""Arithmetic of kernels between numbers of float32 and whole numbers that stand for them."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tir

from tvm_ios.core.precision.stored_type import StoredType

__all__ = ["filled", "lanes_of", "like", "number_of", "steps_of"]

LAST = np.float32(1.5 * 2**23)
"""Number of float32 whose sums with small ones have no digits behind the point."""


def steps_of(number: tir.PrimExpr, stored: StoredType) -> tir.PrimExpr:
    """Steps from 0 to the nearest of the numbers that whole numbers stand for, as int32.

    Of two that are as near it is the even one. What is no number becomes the least one. Each value
    is read once: TVM's kernels compute what has several readers anew for each of them.
    """
    least, most = stored.steps
    inverse = filled(np.float32(1) / np.float32(stored.scale), "float32", number)
    bounded = tir.Max(number * inverse, filled(least, "float32", number))
    bounded = tir.Min(bounded, filled(most, "float32", number))
    # The bits of its sum count on from those of the constant; TVM would simplify a difference of
    # floats.
    whole = like("int32", number)
    bits = tir.reinterpret(whole, bounded + filled(LAST, "float32", number))
    return bits - filled(int(LAST.view("int32")), "int32", number)


def number_of(whole: tir.PrimExpr, stored: StoredType) -> tir.PrimExpr:
    """Number of float32 that a whole number stands for."""
    wide = tir.Cast(like("int32", whole), whole)
    if stored.zero_point:
        wide = wide - filled(stored.zero_point, "int32", whole)
    number = tir.Cast(like("float32", whole), wide)
    return number if stored.scale == 1 else number * filled(stored.scale, "float32", whole)


def like(dtype: str, number: tir.PrimExpr | tir.Buffer | tvm.ir.PrimType) -> str:
    """Data type with as many lanes as a number, an element of a buffer or a type has."""
    lanes = lanes_of(number)
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def lanes_of(number: tir.PrimExpr | tir.Buffer | tvm.ir.PrimType) -> int:
    """Number of lanes of a vector; 1 of a scalar."""
    return int(str(number.dtype).partition("x")[2] or 1)


def filled(value: float | np.float32, dtype: str, number: tir.PrimExpr) -> tir.PrimExpr:
    """Constant of a data type, in each lane that a number has."""
    one, lanes = tir.const(value, dtype), lanes_of(number)
    return one if lanes == 1 else tir.Broadcast(one, lanes)
