"""Arithmetic that frameworks define and Relay has otherwise: rounding, and extremes of nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relay

__all__ = ["extreme", "limited_steps", "round_to_even", "whole_of_small"]

_MOST_STEPS = 2.0**17
"""Steps from zero at which every type of at most 16 bits has ended, whatever its zero point."""


def round_to_even(value: relay.Expr, dtype: str) -> relay.Expr:
    """The nearest whole numbers, of two that are as near the even one; Relay's are away from zero.

    Values are of floating point, of the data type ``dtype``; what is infinite stays so.
    """
    half, two = relay.const(0.5, dtype), relay.const(2, dtype)
    is_tie = relay.equal(relay.abs(value - relay.trunc(value)), half)
    return relay.where(is_tie, two * relay.round(value * half), relay.round(value))


def whole_of_small(value: relay.Expr) -> relay.Expr:
    """The nearest whole numbers in int32, of two the even one, of float32 below 2**22.

    It reads each value once. In a fused kernel each reader computes a value anew: with several
    readers at each step, a chain of steps would be code of exponential size.
    """
    # Its sums with such values have no digits behind the point, and its bits count on from there.
    # TVM would simplify the difference of floats, not that of bits.
    last = np.float32(1.5 * 2**23)
    bits = relay.reinterpret(value + relay.const(last), "int32")
    return bits - relay.const(int(last.view("int32")), "int32")


def limited_steps(
    steps: relay.Expr, zero: relay.Expr, limits: tuple[int, int], dtype: str
) -> relay.Expr:
    """Whole numbers of a type of at most 16 bits: rounded steps from a zero point, within limits.

    Steps are float32. What is no number becomes the least one, as in onnxruntime.
    """
    least, most = (relay.const(sign * _MOST_STEPS, "float32") for sign in (-1, 1))
    bounded = relay.minimum(relay.maximum(steps, least), most)  # in this order
    whole = whole_of_small(bounded) + relay.cast(zero, "int32")
    return relay.cast(relay.clip(whole, *limits), dtype)


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
