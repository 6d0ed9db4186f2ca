"""erf of float32 as arithmetic, at most 2 ulp from the exact value.

Near zero a polynomial, else 1 - e^p with a polynomial p. Both are computed for every element, since
a vector cannot branch.
"""

from __future__ import annotations

from tvm import tir

from tvm_ios.core.polynomials import ERF_FAR, ERF_FROM, ERF_NEAR, ERF_ONE
from tvm_ios.kernels.vector_math.exponentials import small_exp
from tvm_ios.kernels.vector_math.steps import Steps, chosen, horner, magnitude, with_sign_of

__all__ = ["erf"]


def erf(steps: Steps, x: tir.PrimExpr) -> tir.PrimExpr:
    """Error function: 1 of inf, -1 of -inf, NaN of NaN, -0.0 of -0.0."""
    x = steps.let("x", x)
    size = steps.let("size", magnitude(x))
    t = steps.let("t", chosen(size > ERF_ONE, ERF_ONE, size, x))
    exponent = steps.let("exponent", horner(t, ERF_FAR) * t - t)
    scale, power = small_exp(steps, exponent)
    far = 1.0 - scale * power
    square = steps.let("square", t * t)
    near = horner(square, ERF_NEAR) * t + t
    return with_sign_of(x, chosen(size > ERF_FROM, far, near, x))
