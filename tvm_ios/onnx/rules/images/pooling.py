"""Rules for poolings: pads in place of ``auto_pad`` and of windows that are rounded up."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.images.windows import Window, window_of
from tvm_ios.onnx.values import dtype_of, extents, require_constant, required

__all__ = ["average", "global_norm", "greatest", "norm", "scattered", "whole"]

_IMAGES = 4
"""Rank at which a pooling of whole images has kernels of its own."""


@rule("MaxPool")
def greatest(node: ir.Node, op: Builder) -> Outputs:
    """Values by pads that are numbers; their places by a table of the places in each window."""
    if _is_plain(node) and len(node.outputs) == 1:
        return None
    window = _window(node)
    made = op.op("MaxPool", required(node), **window.attributes, auto_pad="NOTSET")
    if len(node.outputs) == 1:
        return made
    by_column = node.attributes.get_int("storage_order", 0) == 1
    return [made, _greatest_places(required(node), window, op, by_column=by_column)]


@rule("AveragePool")
def average(node: ir.Node, op: Builder) -> Outputs:
    """Pads that are counted are given; those that end a window that is rounded up never count."""
    given = _window(node, rounded=False)
    window = _window(node)
    counted = node.attributes.get_int("count_include_pad", 0) == 1
    padded = bool(given.begins.any() or given.ends.any())
    if _is_plain(node) and (padded or not counted):
        return None
    value = required(node)
    beyond = window.ends - given.ends
    if counted and padded and (beyond > 0).any():
        pads = [0, 0, *given.begins.tolist(), 0, 0, *given.ends.tolist()]
        value = op.op("Pad", value, op.const(pads))
        attributes = window.attributes | {
            "pads": [0] * len(beyond) + np.maximum(beyond, 0).tolist()
        }
        return op.op("AveragePool", value, **attributes, auto_pad="NOTSET")
    include = int(counted and padded)
    attributes = window.attributes
    return op.op("AveragePool", value, **attributes, auto_pad="NOTSET", count_include_pad=include)


@rule("LpPool")
def norm(node: ir.Node, op: Builder) -> Outputs:
    """The root of as many times the average of powers as a window has elements."""
    value, window = required(node), _window(node)
    dtype, power = dtype_of(value), node.attributes.get_int("p", 2)
    mean = op.op(
        "AveragePool",
        _powers(value, power, op, dtype),
        **window.attributes,
        auto_pad="NOTSET",
        count_include_pad=1,
    )
    total = op.op("Mul", mean, op.const(window.kernel.prod(), dtype))
    return _root(total, power, op, dtype)


@rule("GlobalLpPool")
def global_norm(node: ir.Node, op: Builder) -> Outputs:
    """A norm over the whole image is a reduction."""
    value = required(node)
    dtype, power = dtype_of(value), node.attributes.get_int("p", 2)
    axes = op.const(list(range(2, len(extents(value)))))
    total = op.op("ReduceSum", _powers(value, power, op, dtype), axes, keepdims=1)
    return _root(total, power, op, dtype)


@rule("GlobalAveragePool", "GlobalMaxPool")
def whole(node: ir.Node, op: Builder) -> Outputs:
    """A pooling over the whole of what is no image is a reduction."""
    value = required(node)
    rank = len(extents(value))
    if rank == _IMAGES:
        return None
    reduction = "ReduceMean" if node.op_type == "GlobalAveragePool" else "ReduceMax"
    return op.op(reduction, value, op.const(list(range(2, rank))), keepdims=1)


@rule("MaxUnpool")
def scattered(node: ir.Node, op: Builder) -> Outputs:
    """Values at their places among zeros."""
    value, places = required(node), required(node, 1)
    window = window_of(node)
    shape = (window.image - 1) * window.strides + window.kernel - window.begins - window.ends
    made = [*extents(value)[:2], *map(int, shape)]
    wanted = require_constant(node, 2, "output_shape")
    if wanted is not None and wanted.tolist() != made:
        raise ModelError(
            f"has output_shape={wanted.tolist()} in place of {made}, of which runtimes give "
            "different results; leave output_shape out"
        )
    zeros = op.const(np.zeros(np.prod(made), dtype_of(value)))
    flat = op.const([-1])
    places, value = op.op("Reshape", places, flat), op.op("Reshape", value, flat)
    filled = op.op("ScatterElements", zeros, places, value, axis=0)
    return op.op("Reshape", filled, op.const(made))


def _is_plain(node: ir.Node) -> bool:
    """Whether a pooling says its pads, and has whole windows."""
    given = node.attributes
    said = all(name in given for name in ("kernel_shape", "strides", "dilations", "pads"))
    others = given.get_int("ceil_mode", 0) != 0 or given.get_int("storage_order", 0) != 0
    return said and not others and given.get_string("auto_pad", "NOTSET") == "NOTSET"


def _window(node: ir.Node, *, rounded: bool = True) -> Window:
    """The window of a pooling; ``rounded``: with pads for windows that are rounded up."""
    window = window_of(node)
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        if (window.dilations > 1).any() or (window.overlap < -1).any():
            raise ModelError(
                f"has auto_pad={mode} with dilations, or with strides above kernel_shape, of "
                "which runtimes give different results; give pads in place of auto_pad"
            )
        return window.same(upper=mode == "SAME_UPPER")
    if not rounded:
        return window
    if node.attributes.get_int("ceil_mode", 0) != 0:
        window = window.rounded_up()
    window.require_within()
    return window


def _powers(value: ir.Value, power: int, op: Builder, dtype: np.dtype[Any]) -> ir.Value:
    if power == 2:
        return op.op("Mul", value, value)
    value = op.op("Abs", value)
    return value if power == 1 else op.op("Pow", value, op.const(power, dtype))


def _root(value: ir.Value, power: int, op: Builder, dtype: np.dtype[Any]) -> ir.Value:
    if power == 2:
        return op.op("Sqrt", value)
    return value if power == 1 else op.op("Pow", value, op.const(1 / power, dtype))


def _greatest_places(value: ir.Value, window: Window, op: Builder, *, by_column: bool) -> ir.Value:
    """Places of the greatest values, counted through the whole tensor; the first of several."""
    batch, channels, *image = extents(value)
    rows, size = batch * channels, int(np.prod(image))
    table = _places(window)
    count, width = table.shape
    flat = op.op("Reshape", value, op.const([rows, size]))
    windows = op.op("Gather", flat, op.const(table), axis=1)
    which = op.op("ArgMax", windows, axis=2, keepdims=0)
    entry = op.op("Add", which, op.const(np.arange(count) * width))
    if by_column:
        table = np.ravel_multi_index(np.unravel_index(table, image), image, order="F")
    within = op.op("Gather", op.const(table.ravel()), entry, axis=0)
    index = op.op("Add", within, op.const(np.arange(rows)[:, None] * size))
    return op.op("Reshape", index, op.const([batch, channels, *map(int, window.counts)]))


def _places(window: Window) -> Any:
    """Places of a window's elements in the image, ``[windows, elements]``.

    One beyond the image is that of the window's first element within, which changes no maximum.
    """
    rank = len(window.image)
    place, within = np.zeros((), "int64"), np.array(True)
    for axis, extent in enumerate(window.image):
        steps = np.arange(window.counts[axis])[:, None] * window.strides[axis]
        row = steps - window.begins[axis] + np.arange(window.kernel[axis]) * window.dilations[axis]
        row = np.expand_dims(row, [a for a in range(2 * rank) if a not in (axis, rank + axis)])
        place = place * extent + np.clip(row, 0, extent - 1)
        within = within & (row >= 0) & (row < extent)
    shape = (int(window.counts.prod()), int(window.kernel.prod()))
    place, within = place.reshape(shape), within.reshape(shape)
    first = np.take_along_axis(place, within.argmax(1)[:, None], 1)
    return np.where(within, place, first)
