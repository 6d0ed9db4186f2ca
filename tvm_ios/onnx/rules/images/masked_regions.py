"""Rule for greatest values in regions of images (``MaxRoiPool``): all else is masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import dtype_of, extents, required

__all__ = ["greatest"]


@rule("MaxRoiPool")
def greatest(node: ir.Node, op: Builder) -> Outputs:
    """Images of which all but a bin is masked, along one axis and then along the other."""
    value, rois = required(node), required(node, 1)
    dtype = dtype_of(value)
    lowest = op.const(np.finfo(dtype).min, dtype)
    number = op.op("Gather", rois, op.const(0), axis=1)
    made = op.op("Gather", value, op.op("Cast", number, to=ir.DataType.INT64), axis=0)
    shape, some = [extents(rois)[0], *extents(value)[1:]], []
    for axis, bins in enumerate(node.attributes["pooled_shape"].as_ints()):
        regions, channels, masked, kept = shape
        made = op.reshape(op.transpose(made, (0, 1, 3, 2)), [regions, channels, kept, 1, masked])
        inside = op.reshape(_inside(node, op, axis, bins), [regions, 1, 1, bins, masked])
        made = op.op("Where", inside, made, lowest)
        made = op.op("ReduceMax", made, op.const([4]), keepdims=0)
        some.append(op.op("ReduceMax", inside, op.const([4]), keepdims=0))
        shape = [regions, channels, kept, bins]
    full = op.op("And", op.transpose(some[0], (0, 1, 3, 2)), some[1])
    return op.op("Where", full, made, op.const(0, dtype))


def _inside(node: ir.Node, op: Builder, axis: int, bins: int) -> ir.Value:
    """Whether places along an axis lie within bins of regions: [regions, bins, extent]."""
    dtype = dtype_of(required(node))
    scale = op.const(node.attributes.get_float("spatial_scale", 1.0), dtype)
    rois = _rounded(op.op("Mul", required(node, 1), scale), dtype, op)
    begin, end = (
        op.reshape(op.op("Gather", rois, op.const(place), axis=1), [-1, 1, 1])
        for place in (2 - axis, 4 - axis)
    )
    one = op.const(1, dtype)
    size = op.op("Max", op.op("Add", op.op("Sub", end, begin), one), one)
    step = op.op("Div", size, op.const(bins, dtype))
    first, last = (
        op.op(to, op.op("Mul", step, op.const(np.arange(bins)[:, None] + more, dtype)))
        for to, more in (("Floor", 0), ("Ceil", 1))
    )
    places = op.const(np.arange(extents(required(node))[2 + axis]), dtype)
    return op.op(
        "And",
        op.op("GreaterOrEqual", places, op.op("Add", first, begin)),
        op.op("Less", places, op.op("Add", last, begin)),
    )


def _rounded(value: ir.Value, dtype: np.dtype[Any], op: Builder) -> ir.Value:
    """The nearest whole numbers; of two that are as near, that which is further from zero."""
    size = op.op("Abs", value)
    whole = op.op("Floor", size)
    up = op.op("GreaterOrEqual", op.op("Sub", size, whole), op.const(0.5, dtype))
    up = op.op("Cast", up, to=ir.DataType.from_numpy(dtype))
    return op.op("Mul", op.op("Sign", value), op.op("Add", whole, up))
