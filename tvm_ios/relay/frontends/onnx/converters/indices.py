"""Converters of operators that take or put elements by indices, none of which is negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import dtype_of, required
from tvm_ios.relay.frontends.onnx.converters.converter import (
    axis_of,
    converter,
    fixed,
    known,
    require_known,
    shape_of,
    type_of,
)

__all__ = [
    "gather",
    "gather_elements",
    "gather_nd",
    "greatest",
    "scatter_elements",
    "scatter_nd",
]


@converter("Gather")
def gather(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Slices at indices along an axis."""
    axis, index = axis_of(node, 0), known(node, 1)
    if isinstance(index, int):  # one slice, which is a view where it is of the first axis
        part = relay.strided_slice(inputs[0], [index], [index + 1], axes=[axis])
        return relay.squeeze(part, [axis])
    return relay.take(inputs[0], inputs[1], axis=axis, mode="clip")


@converter("GatherElements")
def gather_elements(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Elements at indices along an axis, one for each element of the result."""
    return relay.gather(inputs[0], axis_of(node, 0), inputs[1])


def _coordinates(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Indices whose last axis, which counts axes of the data, is first."""
    rank = len(shape_of(node, 1))
    return relay.transpose(inputs[1], [rank - 1, *range(rank - 1)])


@converter("GatherND")
def gather_nd(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Slices at rows of indices."""
    batch = node.attributes.get_int("batch_dims", 0)
    length = shape_of(node, 1)[-1]
    if not length:
        raise ModelError("has indices of no axis; leave the node out")
    return relay.gather_nd(
        inputs[0], _coordinates(node, inputs), batch_dims=batch, index_rank=length
    )


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@converter("ScatterElements")
def scatter_elements(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A tensor with other elements at indices along an axis."""
    axis, shape, given = axis_of(node, 0), shape_of(node), shape_of(node, 1)
    mode = _REDUCTIONS[node.attributes.get_string("reduction", "none")]
    if all(shape[each] == given[each] for each in range(len(shape)) if each != axis):
        return relay.scatter_elements(*inputs, axis, mode)
    # Relay counts rows of the data where it should count those of the indices.
    dtype = str(dtype_of(required(node, 1)))
    places = [fixed(each.astype(dtype)) for each in np.indices(given)]
    places[axis] = inputs[1]
    return relay.scatter_nd(inputs[0], relay.stack(places, 0), inputs[2], mode)


@converter("ScatterND")
def scatter_nd(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A tensor with other slices at rows of indices."""
    mode = _REDUCTIONS[node.attributes.get_string("reduction", "none")]
    return relay.scatter_nd(inputs[0], _coordinates(node, inputs), inputs[2], mode)


_SORTED_AS = {"int16": "int32", "uint16": "int32", "uint32": "int64"}
"""Types that TVM sorts in place of those that it does not, without loss."""


@converter("TopK")
def greatest(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The greatest or the least values along an axis, and their places."""
    count = require_known(node, 1, "a number of values")
    count = count[0] if isinstance(count, list) else count
    dtype = type_of(node, of_input=True)
    if dtype == "uint64":
        raise ModelError("sorts numbers of uint64, which TVM cannot; give int64")
    least = not node.attributes.get_int("largest", 1)
    if dtype not in _SORTED_AS:
        return relay.topk(inputs[0], count, axis_of(node, -1), "both", least, "int64")
    wide = relay.cast(inputs[0], _SORTED_AS[dtype])
    values, places = relay.topk(wide, count, axis_of(node, -1), "both", least, "int64")
    return relay.TupleWrapper(relay.Tuple([relay.cast(values, dtype), places]), 2)
