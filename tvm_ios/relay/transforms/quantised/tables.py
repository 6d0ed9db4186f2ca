"""Functions of a byte that are tables of 256 bytes.

A fused function that reads one tensor of whole numbers and writes another has 256 results, however
many functions and roundings it consists of. To look one up takes a third of the time of an error
function with the roundings of a quantised GELU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from tvm import relay

from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relay.constants import constant, is_scalar, values_of
from tvm_ios.relay.dataflow import all_calls, graph_order, is_call_of
from tvm_ios.relay.functions.quantised import DEQUANTIZE, FAKE_QUANTIZE, QUANTIZE, stored_type_of
from tvm_ios.relay.functions.stored_types import typed

__all__ = ["table_of", "with_table"]

DEAR = ("erf", "exp", "log", "sigmoid", "tanh")
"""Operators that take longer than a table."""
BYTE = "uint8"
BYTES = np.arange(256, dtype=BYTE)
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


def with_table(
    function: relay.Function, arguments: list[relay.Expr]
) -> tuple[relay.Function, list[relay.Expr]]:
    """Function that looks its results up, and its arguments; those given where it has no table."""
    table = table_of(function)
    if table is None:
        return function, arguments
    (bytes_,) = function.params
    results = relay.Var("table", relay.TensorType(table.shape, BYTE))
    body = relay.take(results, bytes_, mode="clip")
    made = typed(relay.Function([bytes_, results], body, attrs=function.attrs))
    return made, [*arguments, constant(table)]


def table_of(function: relay.Function) -> np.ndarray | None:
    """Results of a fused function by the byte that it reads; None where others tell, too.

    Also None where all operators take less time than a table.
    """
    calls = all_calls(function.body)
    types = [each.checked_type for each in (*function.params, function.body)]
    if len(types) != 2 or {str(each.dtype) for each in types} != {BYTE}:
        return None
    if not any(is_call_of(call, *DEAR) for call in calls):
        return None
    known: dict[relay.Expr, np.ndarray] = {function.params[0]: BYTES}
    with np.errstate(all="ignore"):
        for expression in graph_order(function.body):
            if expression in known:
                continue
            found = _values_of(expression, known)
            if found is None:
                return None
            known[expression] = found
    return known[function.body]


def _values_of(expression: relay.Expr, known: Mapping[relay.Expr, np.ndarray]) -> np.ndarray | None:
    """Values for all bytes, or of a number; None of what is no operator of elements."""
    if is_scalar(expression):
        return values_of(expression)
    if not isinstance(expression, relay.Call):
        return None
    values = [known[each] for each in expression.args]
    if is_call_of(expression, DEQUANTIZE, FAKE_QUANTIZE, QUANTIZE):
        return _stored_values(expression, values[0])
    if is_call_of(expression, "clip"):
        least, most = (np.float32(expression.attrs[name]) for name in ("a_min", "a_max"))
        clipped: np.ndarray = np.minimum(np.maximum(values[0], least), most)
        return clipped
    for name, compute in OPERATORS.items():
        if is_call_of(expression, name):
            found: np.ndarray = compute(*values).astype("float32")
            return found
    return None


def _stored_values(call: relay.Call, value: np.ndarray) -> np.ndarray:
    stored = stored_type_of(call)
    scale = np.float32(stored.scale)
    if is_call_of(call, DEQUANTIZE):
        return (value.astype("int32") - stored.zero_point).astype("float32") * scale
    steps = _steps_of(value, stored)
    if is_call_of(call, FAKE_QUANTIZE):
        return steps.astype("float32") * scale
    return (steps + stored.zero_point).astype(stored.dtype)


def _steps_of(value: np.ndarray, stored: StoredType) -> np.ndarray:
    """Steps from 0 to the nearest of the numbers that whole numbers stand for, as kernels do."""
    least, most = stored.steps
    steps = value * (ONE / np.float32(stored.scale))
    steps = np.where(steps > least, np.minimum(steps, most), np.float32(least))
    return np.rint(steps).astype("int32")
