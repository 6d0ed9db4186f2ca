"""Rule for convolutions whose windows take pixels at places that the run tells (``DeformConv``)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.images.windows import Window, window_of
from tvm_ios.onnx.values import dtype_of, extents, optional, required

__all__ = ["deformed"]


@rule("DeformConv")
def deformed(node: ir.Node, op: Builder) -> Outputs:
    """Pixels sampled at their places, of which windows are columns, and a product of these."""
    value, weight, bias, mask = (optional(node, place) for place in (0, 1, 3, 4))
    assert value is not None
    assert weight is not None
    filters, channels, *kernel = extents(weight)
    window = window_of(node, kernel)
    if len(kernel) != 2:
        raise ModelError(f"convolves images of {len(kernel)} dimensions; give two")
    groups = node.attributes.get_int("offset_group", 1)
    stack, inner = extents(value)[0] * groups, extents(value)[1] // groups
    counts, size = window.counts.tolist(), int(np.prod(kernel))
    taken = op.op(
        "GridSample",
        op.reshape(value, [stack, inner, *window.image.tolist()]),
        _grid(node, op, window, stack),
        mode="linear",
        padding_mode="zeros",
        align_corners=0,
    )
    if mask is not None:
        taken = op.op("Mul", taken, op.reshape(mask, [stack, 1, size * counts[0], counts[1]]))
    columns = op.reshape(taken, [extents(value)[0], extents(value)[1] * size, *counts])
    rows = op.reshape(weight, [filters, channels * size, 1, 1])
    inputs = [columns, rows] if bias is None else [columns, rows, bias]
    return op.op("Conv", *inputs, kernel_shape=[1, 1], group=node.attributes.get_int("group", 1))


def _grid(node: ir.Node, op: Builder, window: Window, stack: int) -> ir.Value:
    """Places of the pixels of all windows, from -1 to 1 over the image, column before row."""
    offset, counts, size = required(node, 2), window.counts.tolist(), int(window.kernel.prod())
    dtype = np.result_type(dtype_of(offset), "float32")  # places need more bits than 16
    moved = op.op("Cast", offset, to=ir.DataType.from_numpy(dtype))
    moved = op.reshape(moved, [stack, size, 2, *counts])
    moved = op.op("Gather", op.transpose(moved, (0, 1, 3, 4, 2)), op.const([1, 0]), axis=4)
    axes = zip(window.kernel, window.dilations, window.counts, window.strides, strict=True)
    steps = [
        np.arange(taps)[:, None] * dilation + np.arange(count) * stride
        for taps, dilation, count, stride in axes
    ]
    rows = (steps[0] - window.begins[0])[:, None, :, None]
    columns = (steps[1] - window.begins[1])[None, :, None, :]
    places = np.stack(np.broadcast_arrays(columns, rows), -1).reshape(size, *counts, 2)
    made = op.op("Mul", moved, op.const(2 / window.image[::-1], dtype))
    made = op.op("Add", made, op.const((2 * places + 1) / window.image[::-1] - 1, dtype))
    return op.reshape(made, [stack, size * counts[0], counts[1], 2])
