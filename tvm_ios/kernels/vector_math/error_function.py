"""erf of float32 as arithmetic, at most 2 ulp from the exact value.

Near zero a polynomial, else 1 - e^p with a polynomial p. Both are computed for every element, since
a vector cannot branch.
"""

from __future__ import annotations

from tvm import tir

from tvm_ios.kernels.vector_math.exponentials import small_exp
from tvm_ios.kernels.vector_math.steps import Steps, chosen, horner, magnitude, with_sign_of

__all__ = ["erf"]

NEAR = 0.927734375
"""Argument up to which erf is computed as |x| + |x| q(x^2)."""
NEAR_ZERO = (
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
)
FARTHER = (
    -1.72853470e-5,
    3.83197126e-4,
    -3.88396438e-3,
    2.42546219e-2,
    -1.06777877e-1,
    -6.34846687e-1,
    -1.28717512e-1,
)
"""Coefficients of p in log(1 - erf(t)) = t p(t) - t."""
ONE = 4.0
"""Argument from which on erf rounds to 1; 3.92 is the first one."""


def erf(steps: Steps, x: tir.PrimExpr) -> tir.PrimExpr:
    """Error function: 1 of inf, -1 of -inf, NaN of NaN, -0.0 of -0.0."""
    x = steps.let("x", x)
    size = steps.let("size", magnitude(x))
    t = steps.let("t", chosen(size > ONE, ONE, size, x))
    exponent = steps.let("exponent", horner(t, FARTHER) * t - t)
    scale, power = small_exp(steps, exponent)
    far = 1.0 - scale * power
    square = steps.let("square", t * t)
    near = horner(square, NEAR_ZERO) * t + t
    return with_sign_of(x, chosen(size > NEAR, far, near, x))
