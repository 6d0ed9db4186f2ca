"""Recognises GELU by a hyperbolic tangent, however a network spells it. No TVM.

``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, of GPT-2 and others (Hendrycks and Gimpel,
2016): powers and factors come in many orders, so each value is read as polynomials of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, pi, sqrt

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall

__all__ = ["read_tanh_gelu"]

PRECISION = 1e-6
"""Relative error allowed in a coefficient: networks round theirs to float32."""
INSIDE = (0.0, sqrt(2 / pi), 0.0, 0.044715 * sqrt(2 / pi))
MOST_POWER = 3

_Polynomial = tuple[float, ...]
"""Coefficients of a polynomial, of the power 0 first; empty for 0."""


@dataclass(frozen=True, slots=True)
class _Curve:
    """``plain + factor * tanh(inside)``, with three polynomials of x."""

    plain: _Polynomial
    factor: _Polynomial = ()
    inside: _Polynomial = ()


def read_tanh_gelu(function: FusedFunction, value: int) -> tuple[float, int] | None:
    """Scale s and value that is s times GELU of the value given; None where there is none.

    No other calls may read the values in between.
    """
    known = {value: _Curve((0.0, 1.0))}
    origins: dict[int, set[int]] = {value: set()}
    for number, call in enumerate(function.calls):
        curves = [_operand(function, known, operand) for operand in call.operands]
        made = [operand for operand in call.operands if operand in known]
        if not made or None in curves:
            continue
        curve = _result(call, [each for each in curves if each is not None])
        if curve is None:
            continue
        result = function.result_of(number)
        known[result] = curve
        origins[result] = set(made).union(*(origins[each] for each in made))
        scale = _gelus(curve)
        if scale is not None and _is_closed(function, origins[result], result):
            return scale, result
    return None


def _operand(function: FusedFunction, known: dict[int, _Curve], operand: int) -> _Curve | None:
    """Curve of an operand that is made of the value or is one number; None for others."""
    if operand in known:
        return known[operand]
    if operand < len(function.parameters):
        return None
    call = function.calls[operand - len(function.parameters)]
    number = call.attribute("value") if call.operator == "constant" else None
    return _Curve((float(number),)) if isinstance(number, int | float) else None


def _result(call: PrimitiveCall, operands: Sequence[_Curve]) -> _Curve | None:
    first, last = operands[0], operands[-1]
    number = last.plain[0] if len(last.plain) == 1 and not last.factor else 0.0
    match call.operator:
        case "add":
            return _sum(first, last, 1.0)
        case "subtract":
            return _sum(first, last, -1.0)
        case "multiply":
            return _product(first, last)
        case "divide" if number:
            return _product(first, _Curve((1 / number,)))
        case "power" if number in (2.0, 3.0):
            square = _product(first, first)
            return square if number == 2.0 or square is None else _product(square, first)
        case "tanh" if not first.factor:
            return _Curve((), (1.0,), first.plain)
        case _:
            return None


def _sum(left: _Curve, right: _Curve, sign: float) -> _Curve | None:
    if left.factor and right.factor:
        return None
    scaled = _Curve(*(tuple(sign * each for each in part) for part in (right.plain, right.factor)))
    size = max(len(left.plain), len(right.plain))
    plain = map(sum, zip(_padded(left.plain, size), _padded(scaled.plain, size), strict=True))
    return _Curve(tuple(plain), left.factor or scaled.factor, left.inside or right.inside)


def _product(left: _Curve, right: _Curve) -> _Curve | None:
    if left.factor and right.factor:
        return None
    bent, straight = (left, right) if left.factor else (right, left)
    plain, factor = (_multiplied(each, straight.plain) for each in (bent.plain, bent.factor))
    if max(len(plain), len(factor)) > MOST_POWER + 1:
        return None
    return _Curve(plain, factor, bent.inside)


def _multiplied(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    if not left or not right:
        return ()
    found = [0.0] * (len(left) + len(right) - 1)
    for power, one in enumerate(left):
        for other_power, other in enumerate(right):
            found[power + other_power] += one * other
    return tuple(found)


def _gelus(curve: _Curve) -> float | None:
    """Factor s of a curve that is s times GELU; None for other curves."""
    scale = 2 * curve.factor[1] if len(curve.factor) > 1 else 0.0
    half = (0.0, scale / 2)
    fits = _near(curve.factor, half) and _near(curve.plain, half) and _near(curve.inside, INSIDE)
    return scale if scale and fits else None


def _near(found: _Polynomial, wanted: _Polynomial) -> bool:
    size = max(len(found), len(wanted))
    pairs = zip(_padded(found, size), _padded(wanted, size), strict=True)
    return all(isclose(one, other, rel_tol=PRECISION, abs_tol=1e-9) for one, other in pairs)


def _padded(polynomial: _Polynomial, size: int) -> _Polynomial:
    return (*polynomial, *(0.0,) * (size - len(polynomial)))


def _is_closed(function: FusedFunction, inner: set[int], result: int) -> bool:
    """True if only the result is made of its inner values."""
    return all(
        function.result_of(number) in inner or function.result_of(number) == result
        for number, call in enumerate(function.calls)
        if inner & set(call.operands)
    )
