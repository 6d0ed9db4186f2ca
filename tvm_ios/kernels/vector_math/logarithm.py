"""log of float32 as arithmetic, at most 2 ulp from the exact value."""

from __future__ import annotations

from tvm import tir

from tvm_ios.core.polynomials import LN2_HIGH, LN2_LOW, LOG1P
from tvm_ios.kernels.vector_math.steps import (
    INFINITY,
    NAN,
    Steps,
    chosen,
    float_bits,
    from_bits,
    horner,
    special,
)

__all__ = ["log"]

TWO_THIRDS = 0x3F2AAAAB
"""Bits of 2/3, the least mantissa; the greatest is 4/3."""
EXPONENT = -(1 << 23)
"""Bits of a float32 that are its sign and exponent, as an int32."""
LEAST_NORMAL, SHIFT = 2.0**-126, 23


def log(steps: Steps, x: tir.PrimExpr) -> tir.PrimExpr:
    """Natural logarithm: -inf of zeros, NaN below and of NaN, inf of inf; exact for subnormals."""
    x = steps.let("x", x)
    small = x < LEAST_NORMAL
    scaled = steps.let("scaled", chosen(small, x * 2.0**SHIFT, x, x))
    bits = steps.let("bits", (float_bits(scaled) - TWO_THIRDS) & EXPONENT)
    f = steps.let("f", from_bits(float_bits(scaled) - bits) - 1.0)
    exponent = tir.Cast(x.dtype, bits >> SHIFT)
    n = steps.let("n", exponent - chosen(small, float(SHIFT), 0.0, x))
    square = steps.let("square", f * f)
    curve = horner(f, LOG1P) * (square * f) + n * LN2_LOW - 0.5 * square
    value = steps.let("value", n * LN2_HIGH + (curve + f))
    infinity = special(INFINITY, x)
    value = chosen(x < infinity, value, x, x)
    # Last, since both comparisons are false for NaN.
    not_positive = chosen(x.equal(0.0), -infinity, special(NAN, x), x)
    return chosen(x > 0.0, value, not_positive, x)
