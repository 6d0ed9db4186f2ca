"""Converters: functions from a node of the normal form to Relay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import constant, dtype_of, extents, required

__all__ = [
    "CONVERTERS",
    "Converter",
    "axis_of",
    "converter",
    "fixed",
    "known",
    "number",
    "require_known",
    "shape_of",
    "type_of",
]

Converter: TypeAlias = Callable[[ir.Node, Sequence[Any]], Any]
"""Takes a node and Relay's expressions for its inputs, None where one is left out; gives that of
its output, or a ``relay.TupleWrapper``. The node's values say all shapes and types.
"""

CONVERTERS: dict[str, Converter] = {}
"""Converters by operator; the importer refuses all others."""


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


def require_known(node: ir.Node, place: int, what: str) -> Any:
    """Numbers of an input; ModelError, with ``what`` in it, where only the run tells them."""
    value = known(node, place)
    if value is None:
        raise ModelError(f"takes {what} that only the run tells; give a constant")
    return value


def shape_of(node: ir.Node, place: int = 0) -> tuple[int, ...]:
    """Extents of an input."""
    return extents(required(node, place))


def type_of(node: ir.Node, *, of_input: bool = False) -> str:
    """Data type of a node's first output, or of its first input, as Relay names it."""
    return str(dtype_of(required(node) if of_input else node.outputs[0]))


def fixed(array: Any) -> relay.Constant:
    """A constant of NumPy's numbers; Relay's own ``const`` makes 32 bits of 64."""
    array = np.asarray(array)
    return relay.const(array, str(array.dtype))


def number(node: ir.Node, name: str, default: float) -> relay.Constant:
    """An attribute as a constant of the type that the node computes in."""
    return relay.const(node.attributes.get_float(name, default), type_of(node))


def axis_of(node: ir.Node, default: int, rank: int | None = None) -> int:
    """The attribute ``axis``, counted from the first; ``rank`` is that of the first input."""
    rank = len(shape_of(node)) if rank is None else rank
    return node.attributes.get_int("axis", default) % max(rank, 1)
