"""Constants of a model as NumPy arrays, and back."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

__all__ = ["DATA_TYPES", "constant", "is_array", "is_scalar", "values_of"]

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


def values_of(constant: relay.Constant) -> np.ndarray:
    """Numbers of a constant; those of bfloat16, whose bits TVM gives as integers, in float32."""
    values: np.ndarray = constant.data.numpy()
    if str(constant.data.dtype) == "bfloat16":
        values = (values.astype("uint32") << 16).view("float32")
    return values
