"""Constants of a model as NumPy arrays, and back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tvm
from tvm import relay

__all__ = ["DATA_TYPES", "constant", "equal_constants", "is_array", "is_scalar", "values_of"]

WORTH_SHARING_BYTES = 1 << 10
"""Least bytes of a constant that is looked for among the others."""

DATA_TYPES = frozenset(
    {"bool", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Data types whose bytes NumPy holds as TVM does."""


def constant(array: np.ndarray) -> relay.Constant:
    """Constant of the array's own type; ``relay.const`` makes 32 bits of 64."""
    return relay.Constant(tvm.nd.array(array))


def is_array(expression: relay.Expr) -> bool:
    """True if an expression is a constant whose values NumPy has; bfloat16 comes as integers."""
    return isinstance(expression, relay.Constant) and str(expression.data.dtype) in DATA_TYPES


def is_scalar(expression: relay.Expr) -> bool:
    """True if an expression is a constant of rank 0, which TVM writes into a kernel."""
    return isinstance(expression, relay.Constant) and not expression.data.shape


def equal_constants(constants: Iterable[relay.Constant]) -> dict[relay.Expr, relay.Expr]:
    """Constants whose bytes are those of an earlier one, and that one.

    Models that were joined often have weights in common, such as towers over one embedding.
    """
    known: dict[tuple[object, ...], list[tuple[relay.Constant, np.ndarray]]] = {}
    equal: dict[relay.Expr, relay.Expr] = {}
    for each in constants:
        if not is_array(each) or str(each.data.dtype) == "bool":
            continue
        values = np.from_dlpack(each.data)  # its own memory: weights may be large
        if values.nbytes < WORTH_SHARING_BYTES:
            continue
        bits = values.view(f"u{values.itemsize}").reshape(-1)
        key = (values.shape, values.dtype, bits[0], bits[-1])  # which few others have
        same = known.setdefault(key, [])
        for other, other_bits in same:
            if np.array_equal(bits, other_bits):
                equal[each] = other
                break
        else:
            same.append((each, bits))
    return equal


def values_of(constant: relay.Constant) -> np.ndarray:
    """Numbers of a constant; those of bfloat16, whose bits TVM gives as integers, in float32."""
    values: np.ndarray = constant.data.numpy()
    if str(constant.data.dtype) == "bfloat16":
        values = (values.astype("uint32") << 16).view("float32")
    return values
