"""Functions of a byte as tables of 256 bytes. No TVM.

A fused function that reads one tensor of whole numbers and writes another has 256 results, however
many functions and roundings it consists of. To look one up takes a third of the time of an error
function with the roundings of a quantised GELU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.core.precision.stored_type import FAKE_QUANTIZE, StoredType

__all__ = ["BYTE", "table_of"]

DEAR = frozenset({"erf", "exp", "log", "sigmoid", "tanh"})
"""Operators that take longer than a table."""
BYTE = "uint8"
"""Type of what such functions read and write."""
ONE, ZERO = np.float32(1), np.float32(0)


def _erf(value: np.ndarray) -> np.ndarray:
    return np.array([math.erf(each) for each in value], "float32")


OPERATORS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": np.add,
        "divide": np.divide,
        "erf": _erf,
        "exp": np.exp,
        "log": np.log,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "multiply": np.multiply,
        "negative": np.negative,
        "nn.relu": lambda value: np.maximum(value, ZERO),
        "sigmoid": lambda value: ONE / (ONE + np.exp(-value)),
        "subtract": np.subtract,
        "tanh": np.tanh,
    }
)
"""Operators of elements, by NumPy in float32."""


def table_of(function: FusedFunction) -> np.ndarray | None:
    """Results of a fused function, as 256 numbers of uint8, by the byte that it reads.

    None where others tell, too, and where all operators take less time than a table.
    """
    read, written = function.stored, function.rounded_to
    if len(read) != 1 or read[0] is None or written is None:
        return None
    if {read[0].dtype, written.dtype} != {BYTE}:
        return None
    if DEAR.isdisjoint(call.operator for call in function.calls):
        return None
    steps = np.arange(256) - read[0].zero_point
    values: list[Any] = [steps.astype("float32") * np.float32(read[0].scale)]
    with np.errstate(all="ignore"):
        for call in function.calls:
            made = _values_of(call, [values[each] for each in call.operands])
            if made is None:
                return None
            values.append(made)
    return (_steps_of(values[-1], written) + written.zero_point).astype(BYTE)


def _values_of(call: PrimitiveCall, values: Sequence[Any]) -> Any:
    """Values for all bytes, or a number; None of what is no operator of elements."""
    attributes: dict[str, Any] = dict(call.attributes)
    if call.operator == "constant":
        return np.float32(attributes["value"]) if "value" in attributes else None
    if call.operator == FAKE_QUANTIZE:
        stored = StoredType(**attributes)
        return _steps_of(values[0], stored).astype("float32") * np.float32(stored.scale)
    if call.operator == "clip":
        least, most = (np.float32(attributes[name]) for name in ("a_min", "a_max"))
        return np.minimum(np.maximum(values[0], least), most)
    compute = OPERATORS.get(call.operator)
    return None if compute is None else compute(*values).astype("float32")


def _steps_of(value: np.ndarray, stored: StoredType) -> np.ndarray:
    """Steps from 0 to the nearest of the numbers that whole numbers stand for, as kernels do."""
    least, most = stored.steps
    steps = value * (ONE / np.float32(stored.scale))
    steps = np.where(steps > least, np.minimum(steps, most), np.float32(least))
    return np.rint(steps).astype("int32")
