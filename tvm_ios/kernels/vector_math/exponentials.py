"""exp, sigmoid and tanh of float32 as arithmetic, at most 2 ulp from the exact value.

All take e^x as 2^n e^r, with n an integer and r at most ln(2)/2 (Cody and Waite, 1980). Where the
result hangs on the last bit of e^x, e^r - 1 is a polynomial, a minimax fit relative to e^r - 1.
"""

from __future__ import annotations

from tvm import tir

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

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""ln(2) in two parts. The first has so few bits that its products with integers are exact."""
ROUNDER = 1.5 * 2.0**23
"""Number whose sum with a smaller one is rounded to an integer, which its lowest bits then hold."""
EXPM1 = (
    0.0013882509665563703,
    0.008366580121219158,
    0.04166720062494278,
    0.1666654348373413,
    0.4999999701976776,
)
"""Coefficients of q in e^r - 1 = r + r^2 q(r)."""
EXP = (
    0.008319866843521595,
    0.04188201203942299,
    0.16666992008686066,
    0.4999929368495941,
    1.0,
    1.0,
)
"""Coefficients of e^r to one part in 10^7: a minimax fit in which r below 0.27 count more, where
tanh and erf need it."""
TANH = (
    -0.006179815623909235,
    0.021007463335990906,
    -0.053837429732084274,
    0.1333245187997818,
    -0.3333331346511841,
)
"""Coefficients of q in tanh(x) = x + x^3 q(x^2), up to :data:`NEAR`."""
NEAR, ALMOST_ONE = 0.5625, 10.0
"""Argument up to which tanh is a polynomial, and one whose tanh rounds to 1."""
LEAST, MOST = -104.0, 89.0
"""Arguments beyond which exp is 0 and infinity."""


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
    t = steps.let("t", chosen(size > ALMOST_ONE, ALMOST_ONE, size, x))
    scale, power = small_exp(steps, 2.0 * t)
    far = 1.0 - 2.0 / (scale * power + 1.0)
    square = steps.let("square", t * t)
    near = horner(square, TANH) * (square * t) + t
    return with_sign_of(x, chosen(size > NEAR, far, near, x))


def small_exp(steps: Steps, x: tir.PrimExpr) -> tuple[tir.PrimExpr, tir.PrimExpr]:
    """Two factors of an exponential of -87 to 88, which nobody checks, to one part in 10^7."""
    shifted = steps.let("shifted", x * LOG2_E + ROUNDER)
    r = steps.let("r", x - (shifted - ROUNDER) * LN2)
    whole = float_bits(shifted) - float_bits(tir.const(ROUNDER, "float32"))
    return _power(whole), horner(r, EXP)


def _exp(steps: Steps, x: tir.PrimExpr, *, careful: bool = False) -> tir.PrimExpr:
    # Comparisons that are false for NaN, which so goes through.
    x = steps.let("x", chosen(x > MOST, MOST, x, x))
    x = steps.let("x", chosen(x < LEAST, LEAST, x, x))
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
