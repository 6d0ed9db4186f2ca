"""exp, sigmoid and tanh of float32 as arithmetic, at most 2 ulp from the exact value.

All take e^x as 2^n e^r, with n an integer and r at most ln(2)/2 (Cody and Waite, 1980).
"""

from __future__ import annotations

from tvm import tir

from tvm_ios.core.polynomials import (
    EXP,
    EXP_LEAST,
    EXP_MOST,
    EXPM1,
    LN2,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    TANH,
    TANH_FROM,
    TANH_ONE,
)
from tvm_ios.kernels.vector_math.steps import (
    Steps,
    chosen,
    float_bits,
    from_bits,
    horner,
    magnitude,
    with_sign_of,
)

__all__ = ["exp", "sigmoid", "small_exp", "tanh"]

ROUNDER = 1.5 * 2.0**23
"""Number whose sum with a smaller one is rounded to an integer, which its lowest bits then hold."""


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
