"""Arithmetic of single numbers done at once, so that rules behind it see the numbers.

A trace of PyTorch computes the scale of attention from extents; TVM folds such constants later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_ios.relay.constants import constant, is_array, values_of
from tvm_ios.relay.dataflow import copy_call, is_call_of, rebuild, with_body
from tvm_ios.relay.functions.shapes import shape_of

__all__ = ["with_known_numbers"]

OPERATIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": np.add,
        "cast": np.asarray,
        "divide": np.true_divide,
        "floor_divide": np.floor_divide,
        "multiply": np.multiply,
        "negative": np.negative,
        "power": np.power,
        "reshape": np.asarray,
        "sqrt": np.sqrt,
        "subtract": np.subtract,
    }
)


def with_known_numbers(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module without arithmetic of constants that are one number; itself if it has none."""
    folded = False

    def fold(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        nonlocal folded
        made = _known(call, arguments) if is_call_of(call, *OPERATIONS) else None
        folded |= made is not None
        return copy_call(call, arguments) if made is None else made

    body = rebuild(module["main"].body, {}, fold)
    return with_body(module, body) if folded else module


def _known(call: relay.Call, arguments: list[relay.Expr]) -> relay.Constant | None:
    if not all(is_array(each) and prod(each.data.shape) == 1 for each in arguments):
        return None
    truths = any(str(each.data.dtype) == "bool" for each in arguments)
    if truths and not is_call_of(call, "cast", "reshape"):  # NumPy has no arithmetic of them
        return None
    dtype, whole = call.checked_type.dtype, call.checked_type.dtype.startswith(("int", "uint"))
    if whole and is_call_of(call, "divide", "power"):  # NumPy rounds them otherwise, or not at all
        return None
    with np.errstate(all="ignore"):
        value = OPERATIONS[call.op.name](*map(values_of, arguments))
    if not np.isfinite(value).all():
        return None
    return constant(np.asarray(value).astype(dtype).reshape(shape_of(call)))
