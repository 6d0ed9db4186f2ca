"""Powers of float32 by constant exponents as products, quotients and square roots."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tir

from tvm_ios.kernels.vector_math.steps import INFINITY, chosen, magnitude, special

__all__ = ["POWERS", "rsqrt"]


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
