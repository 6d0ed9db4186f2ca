"""Functions of float32 as arithmetic, at most 2 ulp from the exact value.

All but log and powers take e^x as 2^n e^r, with n an integer and r at most ln(2)/2 (Cody and Waite,
1980).
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tir

from tvm_ios.core.polynomials import (
    ERF_FAR,
    ERF_FROM,
    ERF_NEAR,
    ERF_ONE,
    EXP,
    EXP_LEAST,
    EXP_MOST,
    EXPM1,
    LN2,
    LN2_HIGH,
    LN2_LOW,
    LOG1P,
    LOG2_E,
    TANH,
    TANH_FROM,
    TANH_ONE,
)
from tvm_ios.kernels.vector_math.steps import (
    INFINITY,
    NAN,
    Steps,
    chosen,
    float_bits,
    from_bits,
    horner,
    magnitude,
    special,
    with_sign_of,
)

__all__ = ["POWERS", "erf", "exp", "log", "rsqrt", "sigmoid", "small_exp", "tanh"]

ROUNDER = 1.5 * 2.0**23
"""Number whose sum with a smaller one is rounded to an integer, which its lowest bits then hold."""
TWO_THIRDS = 0x3F2AAAAB
"""Bits of 2/3, the least mantissa; the greatest is 4/3."""
EXPONENT = -(1 << 23)
"""Bits of a float32 that are its sign and exponent, as an int32."""
LEAST_NORMAL, SHIFT = 2.0**-126, 23


def exp(steps: Steps, x: tir.PrimExpr) -> tir.PrimExpr:
    """Exponential: 0 of -inf, inf of inf and above 88.7, NaN of NaN, subnormal below -87.3."""
    return _exp(steps, steps.let("x", x))


def sigmoid(steps: Steps, x: tir.PrimExpr) -> tir.PrimExpr:
    """Logistic function, by the exponential of -|x|, which does not overflow."""
    x = steps.let("x", x)
    e = steps.let("e", _exp(steps, -magnitude(x), careful=True))
    below = steps.let("below", e + 1.0)
    # Written so that NaN is divided, too.
    value = steps.let("value", chosen(x < 0.0, e, 1.0, x) / below)
    lost = e - (below - 1.0)
    return value - value * lost


def tanh(steps: Steps, x: tir.PrimExpr) -> tir.PrimExpr:
    """Hyperbolic tangent: a polynomial near zero, and 1 - 2 / (e^(2|x|) + 1) elsewhere."""
    x = steps.let("x", x)
    size = steps.let("size", magnitude(x))
    t = steps.let("t", chosen(size > TANH_ONE, TANH_ONE, size, x))
    scale, power = small_exp(steps, 2.0 * t)
    far = 1.0 - 2.0 / (scale * power + 1.0)
    square = steps.let("square", t * t)
    near = horner(square, TANH) * (square * t) + t
    return with_sign_of(x, chosen(size > TANH_FROM, far, near, x))


def small_exp(steps: Steps, x: tir.PrimExpr) -> tuple[tir.PrimExpr, tir.PrimExpr]:
    """Two factors of an exponential of -87 to 88, which nobody checks, to one part in 10^7."""
    shifted = steps.let("shifted", x * LOG2_E + ROUNDER)
    r = steps.let("r", x - (shifted - ROUNDER) * LN2)
    whole = float_bits(shifted) - float_bits(tir.const(ROUNDER, "float32"))
    return _power(whole), horner(r, EXP)


def _exp(steps: Steps, x: tir.PrimExpr, *, careful: bool = False) -> tir.PrimExpr:
    # Comparisons that are false for NaN, which so goes through.
    x = steps.let("x", chosen(x > EXP_MOST, EXP_MOST, x, x))
    x = steps.let("x", chosen(x < EXP_LEAST, EXP_LEAST, x, x))
    whole, rest = _reduced(steps, x, careful=careful)
    # In two steps: 2^n alone would be no normal number near either end.
    half = steps.let("half", whole >> 1)
    scale = steps.let("scale", _power(half))
    return (rest * scale + scale) * _power(whole - half)


def _reduced(
    steps: Steps, x: tir.PrimExpr, *, careful: bool = False
) -> tuple[tir.PrimExpr, tir.PrimExpr]:
    """The integer n, and e^r - 1; if careful, with what r loses to rounding."""
    shifted = steps.let("shifted", x * LOG2_E + ROUNDER)
    n = steps.let("n", shifted - ROUNDER)
    most = steps.let("most", x - n * LN2_HIGH)
    r = steps.let("r", most - n * LN2_LOW)
    curve = horner(r, EXPM1) * (r * r)
    if careful:
        curve = curve + ((most - r) - n * LN2_LOW)
    rest = steps.let("rest", curve + r)
    whole = float_bits(shifted) - float_bits(tir.const(ROUNDER, "float32"))
    return steps.let("whole", whole), rest


def _power(n: tir.PrimExpr) -> tir.PrimExpr:
    """2^n for exponents of normal numbers."""
    return from_bits((n + 127) << 23)


def erf(steps: Steps, x: tir.PrimExpr) -> tir.PrimExpr:
    """Error function: 1 of inf, -1 of -inf, NaN of NaN, -0.0 of -0.0.

    Near zero a polynomial, else 1 - e^p with a polynomial p: both are computed for every element,
    since a vector cannot branch.
    """
    x = steps.let("x", x)
    size = steps.let("size", magnitude(x))
    t = steps.let("t", chosen(size > ERF_ONE, ERF_ONE, size, x))
    exponent = steps.let("exponent", horner(t, ERF_FAR) * t - t)
    scale, power = small_exp(steps, exponent)
    far = 1.0 - scale * power
    square = steps.let("square", t * t)
    near = horner(square, ERF_NEAR) * t + t
    return with_sign_of(x, chosen(size > ERF_FROM, far, near, x))


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


def rsqrt(x: tir.PrimExpr) -> tir.PrimExpr:
    """Inverse of the square root, as TVM itself computes it, in operators that it vectorises."""
    return 1.0 / tir.sqrt(x)


def _root(x: tir.PrimExpr) -> tir.PrimExpr:
    """Power of 1/2: unlike the square root, 0 of -0.0 and inf of -inf."""
    infinity = special(INFINITY, x)
    return chosen(x.equal(-infinity), infinity, magnitude(tir.sqrt(x)), x)


def _one_and_a_half(x: tir.PrimExpr) -> tir.PrimExpr:
    return magnitude(x) * _root(x)


POWERS: dict[float, Callable[[tir.PrimExpr], tir.PrimExpr]] = {
    -1.0: lambda x: 1.0 / x,
    -0.5: lambda x: 1.0 / _root(x),
    0.5: _root,
    1.5: _one_and_a_half,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    4.0: lambda x: (x * x) * (x * x),
}
"""Functions by exponents. Their argument is read several times. Those of more products would be off
by more than 2 ulp."""
