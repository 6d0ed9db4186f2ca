"""Sums in a form that TVM fuses, and compiles, with everything around them.

TVM schedules at most one reduction in a function, and knows no schedule for most of what may follow
it. It takes ``einsum`` for an element-wise operator, so a function of such sums compiles anywhere.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

from tvm import relay

__all__ = ["SUMS", "as_einsum", "reduced_axes"]

SUMS = ("mean", "sum", "variance")
"""Operators that have such a form."""


def as_einsum(call: relay.Call, arguments: Sequence[relay.Expr]) -> relay.Expr:
    """Sum, mean or variance as the sum of a product."""
    shape = [int(extent) for extent in call.args[0].checked_type.shape]
    axes = reduced_axes(call)
    letters = string.ascii_lowercase[: len(shape)]
    rest = "".join(letter for axis, letter in enumerate(letters) if axis not in axes)
    count = math.prod(shape[axis] for axis in axes)
    if call.op.name == "variance":
        off = relay.subtract(*arguments)
        total = relay.einsum(relay.Tuple([off, off]), f"{letters},{letters}->{rest}")
        count -= int(bool(call.attrs.unbiased))
    else:
        total = relay.einsum(relay.Tuple([arguments[0]]), f"{letters}->{rest}")
    result = relay.reshape(total, [int(extent) for extent in call.checked_type.shape])
    if call.op.name == "sum":
        return result
    return relay.divide(result, relay.const(float(count), call.checked_type.dtype))


def reduced_axes(call: relay.Call) -> frozenset[int]:
    """Axes that a reduction goes along."""
    rank = len(call.args[0].checked_type.shape)
    if call.attrs.axis is None:
        return frozenset(range(rank))
    named = frozenset(int(axis) % rank for axis in call.attrs.axis)
    return frozenset(range(rank)) - named if call.attrs.exclude else named
