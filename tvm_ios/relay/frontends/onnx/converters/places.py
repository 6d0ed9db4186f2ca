"""Converters of operators that move elements and change none: slices, pads, joins, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.onnx.values import extents
from tvm_ios.relay.frontends.onnx.converters.converter import (
    axis_of,
    converter,
    fixed,
    known,
    shape_of,
    type_of,
)

__all__ = [
    "concat",
    "copy",
    "expand",
    "pad",
    "reshape",
    "reverse_sequence",
    "slice_",
    "split",
    "transpose",
    "triangle",
]


@converter("Reshape")
def reshape(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A tensor in the extents of the result, which has as many elements."""
    return relay.reshape(inputs[0], extents(node.outputs[0]))


@converter("Expand")
def expand(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Elements repeated along axes of extent one, and along new ones."""
    return relay.broadcast_to(inputs[0], extents(node.outputs[0]))


@converter("Slice")
def slice_(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A part of each axis; ends lie within the axis, before its begin where steps go back."""
    begins, ends, axes, steps = (known(node, place) for place in (1, 2, 3, 4))
    return relay.strided_slice(inputs[0], begins, ends, steps, axes=axes)


@converter("Pad")
def pad(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Elements around a tensor: one number, or those of the tensor itself."""
    mode = node.attributes.get_string("mode", "constant")
    pads = known(node, 1)
    half = len(pads) // 2
    widths = list(zip(pads[:half], pads[half:], strict=True))
    value = known(node, 2)
    return relay.nn.pad(inputs[0], widths, 0 if value is None else value, pad_mode=mode)


@converter("Transpose")
def transpose(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A tensor with its axes in another order."""
    return relay.transpose(inputs[0], node.attributes.get_ints("perm", None))


@converter("Concat")
def concat(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Tensors one behind the other."""
    return relay.concatenate(list(inputs), axis_of(node, 0))


@converter("Split")
def split(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Parts of a tensor along an axis, whose extents are those of the results."""
    axis = axis_of(node, 0)
    sizes = [extents(output)[axis] for output in node.outputs]
    return relay.split(inputs[0], np.cumsum(sizes)[:-1].tolist(), axis)


@converter("Identity")
def copy(node: ir.Node, inputs: Sequence[Any]) -> Any:  # noqa: ARG001
    """The input itself."""
    return inputs[0]


@converter("Trilu")
def triangle(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Zero above or below a diagonal."""
    rows, columns = shape_of(node)[-2:]
    first = known(node, 1)
    kept = np.tri(rows, columns, first, dtype=bool)
    if node.attributes.get_int("upper", 1):
        kept = ~np.tri(rows, columns, first - 1, dtype=bool)
    return relay.where(fixed(kept), inputs[0], relay.const(0, type_of(node)))


@converter("ReverseSequence")
def reverse_sequence(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The first elements of each sequence in the other order."""
    attributes = node.attributes
    return relay.reverse_sequence(
        inputs[0],
        inputs[1],
        attributes.get_int("time_axis", 0),
        attributes.get_int("batch_axis", 1),
    )
