"""Converters: functions from a node of the normal form to Relay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir

from tvm_ios.onnx.values import constant

__all__ = ["CONVERTERS", "Converter", "converter", "known"]

Converter: TypeAlias = Callable[[ir.Node, Sequence[Any]], Any]
"""Takes a node and Relay's expressions for its inputs, None where one is left out; gives that of
its output, or a ``relay.TupleWrapper``. The node's values say all shapes and types.
"""

CONVERTERS: dict[str, Converter] = {}
"""Converters by operator; those of operators that are not here are TVM's own."""


def converter(*op_types: str) -> Callable[[Converter], Converter]:
    """Have a function convert nodes of these operators."""

    def add(function: Converter) -> Converter:
        for op_type in op_types:
            CONVERTERS[op_type] = function
        return function

    return add


def known(node: ir.Node, place: int) -> Any:
    """List of the numbers of an input that is a constant in the normal form; None without one."""
    value = node.inputs[place] if place < len(node.inputs) else None
    array = constant(value)
    return None if array is None else array.tolist()
