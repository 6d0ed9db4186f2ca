"""Places of the greatest value of each window, by a table of the places in each window."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rules.images.windows import Window
from tvm_ios.onnx.values import extents

__all__ = ["greatest_places"]


def greatest_places(value: ir.Value, window: Window, op: Builder, *, by_column: bool) -> ir.Value:
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
