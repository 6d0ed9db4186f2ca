"""Arithmetic that frameworks define and Relay has otherwise: rounding, and extremes of nothing."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relay

__all__ = ["extreme", "round_to_even"]


def round_to_even(value: relay.Expr, dtype: str) -> relay.Expr:
    """The nearest whole numbers, of two that are as near the even one; Relay's are away from zero.

    Values are of floating point, of the data type ``dtype``; what is infinite stays so.
    """
    half, two = relay.const(0.5, dtype), relay.const(2, dtype)
    is_tie = relay.equal(relay.abs(value - relay.trunc(value)), half)
    return relay.where(is_tie, two * relay.round(value * half), relay.round(value))


def extreme(
    reduce: Callable[[relay.Expr], relay.Expr], value: relay.Expr, dtype: str
) -> relay.Expr:
    """The greatest or the least value, which may be infinite: as of a row that is masked whole.

    TVM begins with the last finite number; values are halved before and doubled after, so twice
    that number is infinite. Exact, but for the last bit of the smallest numbers there are.
    """
    if not dtype.startswith("float"):
        return reduce(value)
    return reduce(value * relay.const(0.5, dtype)) * relay.const(2, dtype)
