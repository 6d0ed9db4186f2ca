"""Converters of operators that take or put elements by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import constant, dtype_of, extents, required
from tvm_ios.relay.frontends.onnx.converters.converter import (
    axis_of,
    converter,
    fixed,
    known,
    require_known,
    shape_of,
    type_of,
)


def _from_begin(node: ir.Node, inputs: Sequence[Any], extent: Any) -> Any:
    """Indices of the second input, of which negative ones count from the end of an extent."""
    value, dtype = required(node, 1), dtype_of(required(node, 1))
    array = constant(value)
    if array is not None:
        return fixed(np.where(array < 0, array + extent, array).astype(dtype))
    moved = inputs[1] + fixed(np.asarray(extent, dtype))
    return relay.where(relay.less(inputs[1], relay.const(0, str(dtype))), moved, inputs[1])


@converter("Gather")
def gather(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Slices at indices along an axis."""
    axis, index = axis_of(node, 0), known(node, 1)
    extent = shape_of(node)[axis]
    if isinstance(index, int):  # one slice, which is a view where it is of the first axis
        index %= extent
        part = relay.strided_slice(inputs[0], [index], [index + 1], axes=[axis])
        return relay.squeeze(part, [axis])
    return relay.take(inputs[0], _from_begin(node, inputs, extent), axis=axis, mode="clip")


@converter("GatherElements")
def gather_elements(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Elements at indices along an axis, one for each element of the result."""
    axis = axis_of(node, 0)
    return relay.gather(inputs[0], axis, _from_begin(node, inputs, shape_of(node)[axis]))


def _coordinates(node: ir.Node, inputs: Sequence[Any], batch: int) -> Any:
    """Indices whose last axis, which counts axes of the data, is first."""
    shape, length = shape_of(node)[batch:], shape_of(node, 1)[-1]
    indices = _from_begin(node, inputs, np.array(shape[:length], "int64"))
    rank = len(shape_of(node, 1))
    return relay.transpose(indices, [rank - 1, *range(rank - 1)])


@converter("GatherND")
def gather_nd(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Slices at rows of indices."""
    batch = node.attributes.get_int("batch_dims", 0)
    length = shape_of(node, 1)[-1]
    if not length:
        raise ModelError("has indices of no axis; leave the node out")
    return relay.gather_nd(
        inputs[0], _coordinates(node, inputs, batch), batch_dims=batch, index_rank=length
    )


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@converter("ScatterElements")
def scatter_elements(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A tensor with other elements at indices along an axis."""
    axis = axis_of(node, 0)
    indices = _from_begin(node, inputs, shape_of(node)[axis])
    mode = _REDUCTIONS[node.attributes.get_string("reduction", "none")]
    return relay.scatter_elements(inputs[0], indices, inputs[2], axis, mode)


@converter("ScatterND")
def scatter_nd(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A tensor with other slices at rows of indices."""
    mode = _REDUCTIONS[node.attributes.get_string("reduction", "none")]
    return relay.scatter_nd(inputs[0], _coordinates(node, inputs, 0), inputs[2], mode)


@converter("OneHot")
def one_hot(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """One value where an index is the place along a new axis, another one elsewhere."""
    made = extents(node.outputs[0])
    axis = axis_of(node, -1, len(made))
    depth = made[axis]
    indices = relay.cast(inputs[0], "int64")
    negative = relay.less(indices, relay.const(0, "int64"))
    indices = relay.where(negative, indices + relay.const(depth, "int64"), indices)
    places = np.arange(depth).reshape(-1, *[1] * (len(made) - 1 - axis))
    chosen = relay.equal(relay.expand_dims(indices, axis), fixed(places))
    off, on = (relay.take(inputs[2], relay.const(place)) for place in (0, 1))
    return relay.where(chosen, on, off)


@converter("TopK")
def greatest(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The greatest or the least values along an axis, and their places."""
    count = require_known(node, 1, "a number of values")
    count = count[0] if isinstance(count, list) else count
    least = not node.attributes.get_int("largest", 1)
    return relay.topk(inputs[0], count, axis_of(node, -1), "both", least, "int64")


@converter("Hardmax")
def hardmax(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """One at the first of the greatest values along an axis, zero elsewhere."""
    axis, dtype = axis_of(node, -1), type_of(node)
    one, zero = relay.const(1, dtype), relay.const(0, dtype)
    place, depth = relay.argmax(inputs[0], axis), shape_of(node)[axis]
    return relay.one_hot(place, one, zero, depth, axis, dtype)
