"""Extents, types and constant arrays of the values of an ONNX graph, known before it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError

__all__ = [
    "array_of",
    "constant",
    "dtype_of",
    "extents",
    "is_static",
    "optional",
    "require_constant",
    "required",
]


def required(node: ir.Node, place: int = 0) -> ir.Value:
    """Input of a node that its operator demands."""
    value = node.inputs[place]
    assert value is not None, f"{node.op_type} has no input {place}"
    return value


def optional(node: ir.Node, place: int) -> ir.Value | None:
    """Input of a node that may be left out; None where it is."""
    return node.inputs[place] if place < len(node.inputs) else None


def is_static(value: ir.Value) -> bool:
    """True if a value is a tensor all of whose extents are numbers."""
    return (
        isinstance(value.type, ir.TensorType)
        and value.shape is not None
        and bool(value.shape.is_static())
    )


def extents(value: ir.Value) -> tuple[int, ...]:
    """Extents of a value with a static shape."""
    assert value.shape is not None, f"{value.name} has no shape"
    return tuple(map(int, value.shape.numpy()))


def dtype_of(value: ir.Value) -> np.dtype[Any]:
    """NumPy's data type of a tensor."""
    assert value.dtype is not None, f"{value.name} has no type"
    return np.dtype(value.dtype.numpy())


def constant(value: ir.Value | None) -> np.ndarray | None:
    """Array of a constant; None for a value that the run tells, or for none."""
    if value is None or value.const_value is None:
        return None
    return array_of(value.const_value)


def array_of(tensor: Any) -> np.ndarray:
    """Array of a constant tensor, of the data type that it says."""
    array = np.asarray(tensor.numpy())
    if tensor.dtype is ir.DataType.STRING:
        return array
    return array.view(tensor.dtype.numpy())


def require_constant(node: ir.Node, place: int, what: str) -> np.ndarray | None:
    """Array of an input that has to be a constant; None where the node has no such input.

    Raises ModelError, with ``what`` in it: a few words on what the input says.
    """
    value = optional(node, place)
    array = constant(value)
    if value is not None and array is None:
        raise ModelError(f"takes {what} ({value.name!r}) that only the run tells")
    return array
