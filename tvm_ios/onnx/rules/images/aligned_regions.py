"""Rule for samples of regions of images (``RoiAlign``): gathered pixels, each by its weight."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import dtype_of, extents, require_constant, required

__all__ = ["align"]

_WITH_HALF = 16
"""The opset from which regions may be aligned with half a pixel, and are where nothing is said."""


@rule("RoiAlign")
def align(node: ir.Node, op: Builder) -> Outputs:
    """Samples of each bin of a region, each made of the four pixels around it.

    Of ``max``, runtimes take the greatest of the weighed pixels, and not of their sums.
    """
    value, dtype = required(node), dtype_of(required(node))
    if dtype == np.float16:  # places of pixels need more bits
        wide = [op.op("Cast", required(node, each), to=ir.DataType.FLOAT) for each in (0, 1)]
        return op.op("Cast", *op.again(node, *wide, required(node, 2)), to=ir.DataType.FLOAT16)
    images, channels, height, width = extents(value)
    regions, counts = extents(required(node, 1))[0], [_counts(node, axis) for axis in (0, 1)]
    bins = [(_bins(node, axis), _most(counts[axis])) for axis in (0, 1)]
    rows, columns = (
        [(op.reshape(place, shape), op.reshape(weight, shape)) for place, weight in corners]
        for corners, shape in (
            (_corners(node, op, 0, counts[0]), [regions, *bins[0], 1, 1]),
            (_corners(node, op, 1, counts[1]), [regions, 1, 1, *bins[1]]),
        )
    )
    first = op.op("Mul", op.reshape(required(node, 2), [regions, 1, 1, 1, 1]), op.const(height))
    pixels = op.reshape(op.transpose(value, (0, 2, 3, 1)), [images * height * width, channels])
    parts = []
    for (row, above), (column, left) in product(rows, columns):
        line = op.op("Mul", op.op("Add", first, row), op.const(width))
        pixel = op.op("Gather", pixels, op.op("Add", line, column), axis=0)
        weight = op.reshape(op.op("Mul", above, left), [regions, *bins[0], *bins[1], 1])
        parts.append(op.op("Mul", pixel, weight))
    join, pool = ("Max", "ReduceMax") if _takes_greatest(node) else ("Add", "ReduceSum")
    made = reduce(lambda one, other: op.op(join, one, other), parts)
    return op.transpose(op.op(pool, made, op.const([2, 4]), keepdims=0), (0, 3, 1, 2))


def _corners(
    node: ir.Node, op: Builder, axis: int, counts: np.ndarray
) -> list[tuple[ir.Value, ir.Value]]:
    """Places before and behind each sample along an axis, and how much either counts.

    They are of shape [regions, bins, samples]. Where regions have different counts of samples,
    the last sample of one is there again, and counts once.
    """
    dtype, last = dtype_of(required(node)), extents(required(node))[2 + axis] - 1
    zero, one = (op.const(each, dtype) for each in (0, 1))
    begin, size = _begin_and_size(node, op, axis)
    step = op.op("Div", size, op.const(_bins(node, axis), dtype))
    counts, steps = counts[:, None, None], np.arange(_most(counts))
    middle = np.minimum(steps, np.maximum(counts - 1, 0)) + 0.5
    within = op.op("Mul", step, op.const(middle, dtype))
    within = op.op("Div", within, op.const(np.maximum(counts, 1), dtype))
    bins = op.op("Mul", step, op.const(np.arange(_bins(node, axis))[:, None], dtype))
    place = op.op("Add", op.op("Add", begin, bins), within)
    outside = op.op(
        "Or",
        op.op("Less", place, op.const(-1, dtype)),
        op.op("Greater", place, op.const(last + 1, dtype)),
    )
    share = (steps < counts) / np.maximum(counts, 1)
    if _takes_greatest(node):
        share = np.broadcast_to(counts > 0, share.shape)
    share = op.op("Where", outside, zero, op.const(share, dtype))
    place = op.op("Clip", place, zero, op.const(last, dtype))
    before = op.op("Floor", place)
    behind = op.op("Min", op.op("Add", before, one), op.const(last, dtype))
    part = op.op("Sub", place, before)
    return [
        (op.op("Cast", where, to=ir.DataType.INT64), op.op("Mul", weight, share))
        for where, weight in ((before, op.op("Sub", one, part)), (behind, part))
    ]


def _begin_and_size(node: ir.Node, op: Builder, axis: int) -> tuple[ir.Value, ir.Value]:
    """Place at which each region begins along an axis, and its extent: [regions, 1, 1]."""
    rois, dtype = required(node, 1), dtype_of(required(node))
    rois = op.op("Mul", rois, op.const(node.attributes.get_float("spatial_scale", 1.0), dtype))
    if _has_half(node):
        rois = op.op("Sub", rois, op.const(0.5, dtype))
    begin, end = (
        op.reshape(op.op("Gather", rois, op.const(place), axis=1), [-1, 1, 1])
        for place in (1 - axis, 3 - axis)
    )
    size = op.op("Sub", end, begin)
    return begin, size if _has_half(node) else op.op("Max", size, op.const(1, dtype))


def _counts(node: ir.Node, axis: int) -> np.ndarray:
    """Samples that each bin has along an axis, one number for all regions or one for each."""
    told = node.attributes.get_int("sampling_ratio", 0)
    if told > 0:
        return np.array([told])
    rois = require_constant(node, 1, "regions, whose extents say how many samples are taken,")
    assert rois is not None
    scale = rois.dtype.type(node.attributes.get_float("spatial_scale", 1.0))
    half = rois.dtype.type(0.5 if _has_half(node) else 0)
    begin, end = (rois[:, place] * scale - half for place in (1 - axis, 3 - axis))
    size = end - begin if _has_half(node) else np.maximum(end - begin, 1)
    counts: np.ndarray = np.ceil(size / rois.dtype.type(_bins(node, axis))).astype("int64")
    return counts


def _most(counts: np.ndarray) -> int:
    return max(1, int(counts.max(initial=1)))


def _bins(node: ir.Node, axis: int) -> int:
    return node.attributes.get_int(("output_height", "output_width")[axis], 1)


def _has_half(node: ir.Node) -> bool:
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    return (node.version or 0) >= _WITH_HALF and mode == "half_pixel"


def _takes_greatest(node: ir.Node) -> bool:
    return node.attributes.get_string("mode", "avg") == "max"
