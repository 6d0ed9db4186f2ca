"""Converters of poolings of images of one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Self

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import extents
from tvm_ios.relay.frontends.onnx.converters.converter import converter, fixed, shape_of, type_of
from tvm_ios.relay.frontends.onnx.converters.convolutions import steps_of

_AVERAGES = {1: relay.nn.avg_pool1d, 2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d}
_GREATEST = {1: relay.nn.max_pool1d, 2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """Windows of a pooling: as many as its output has elements, whatever was rounded up."""

    shape: tuple[int, ...]
    """Extents of the image."""
    made: tuple[int, ...]
    """Windows along each axis."""
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    """Places before the image that windows may begin at."""
    said_ends: tuple[int, ...]
    """Places behind the image that count as padding."""
    ends: tuple[int, ...]
    """Places behind the image that windows reach to."""

    @classmethod
    def of(cls, node: ir.Node) -> Self:
        """Windows of a node; ModelError for images of other dimensions than TVM knows."""
        shape, made = shape_of(node)[2:], extents(node.outputs[0])[2:]
        count = len(shape)
        if count not in _GREATEST:
            raise ModelError(f"pools images of {count} dimensions; give one, two or three")
        kernel = steps_of(node, "kernel_shape", count)
        strides, dilations = (steps_of(node, name, count) for name in ("strides", "dilations"))
        pads = steps_of(node, "pads", 2 * count)
        rows = zip(shape, made, kernel, strides, dilations, pads[:count], strict=True)
        reach = [
            (windows - 1) * step + wide * (size - 1) + 1 - begin - extent
            for extent, windows, size, step, wide, begin in rows
        ]
        # TVM rounds down: what is behind the last window must be less than a step.
        ends = [
            end if other < end and (end - other) < step else other
            for end, other, step in zip(pads[count:], reach, strides, strict=True)
        ]
        return cls(
            shape=tuple(shape),
            made=tuple(made),
            kernel=tuple(kernel),
            strides=tuple(strides),
            dilations=tuple(dilations),
            begins=tuple(pads[:count]),
            said_ends=tuple(pads[count:]),
            ends=tuple(ends),
        )

    def pooled(self, pool: Any, value: Any, **more: Any) -> Any:
        """A pooling of Relay over these windows."""
        return pool[len(self.shape)](
            self.cut(value),
            self.kernel,
            strides=self.strides,
            dilation=self.dilations,
            padding=(*self.begins, *(max(end, 0) for end in self.ends)),
            ceil_mode=False,
            **more,
        )

    def cut(self, value: Any) -> Any:
        """The image without what is behind the last window, by which TVM would count another."""
        if min(self.ends) >= 0:
            return value
        axes = list(range(2, 2 + len(self.shape)))
        stops = [extent + min(end, 0) for extent, end in zip(self.shape, self.ends, strict=True)]
        return relay.strided_slice(value, [0] * len(axes), stops, [1] * len(axes), axes=axes)

    def counted(self) -> np.ndarray:
        """Elements of each window that lie within the image or what counts as its padding."""
        found = np.ones((), "int64")
        for axis, windows in enumerate(self.made):
            places = self._places(axis)
            low, high = -self.begins[axis], self.shape[axis] + self.said_ends[axis]
            inside = ((places >= low) & (places < high)).sum(axis=1)
            assert len(inside) == windows
            found = found[..., None] * inside
        return found

    def places(self) -> np.ndarray:
        """Flat places of each window's elements in the image, -1 outside: windows by elements."""
        axes = [self._places(axis) for axis in range(len(self.shape))]
        rows = []
        for windows in product(*(range(len(axis)) for axis in axes)):
            row = []
            for each in product(
                *(axis[number] for axis, number in zip(axes, windows, strict=True))
            ):
                inside = all(0 <= at < extent for at, extent in zip(each, self.shape, strict=True))
                row.append(int(np.ravel_multi_index(each, self.shape)) if inside else -1)
            rows.append(row)
        return np.array(rows, "int64")

    def _places(self, axis: int) -> np.ndarray:
        first = np.arange(self.made[axis]) * self.strides[axis] - self.begins[axis]
        return first[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]


@converter("AveragePool")
def average(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Means of windows, of elements of the image, or of its padding as well."""
    windows = _Windows.of(node)
    whole = bool(node.attributes.get_int("count_include_pad", 0))
    found = windows.pooled(_AVERAGES, inputs[0], count_include_pad=whole)
    size = prod(windows.kernel)
    counted = windows.counted()
    if not whole or (counted == size).all():
        return found
    # Relay counts what was added behind the padding, too.
    return found * fixed((size / counted).astype(type_of(node)))


@converter("LpPool")
def norm(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Norms of windows."""
    windows, power = _Windows.of(node), node.attributes.get_int("p", 2)
    dtype, value = type_of(node), relay.abs(inputs[0])
    raised = value if power == 1 else relay.power(value, relay.const(power, dtype))
    found = windows.pooled(_AVERAGES, raised, count_include_pad=True)
    found = found * relay.const(prod(windows.kernel), dtype)
    return found if power == 1 else relay.power(found, relay.const(1 / power, dtype))


@converter("MaxPool")
def greatest(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Greatest values of windows, and their places where these are asked for."""
    windows, dtype = _Windows.of(node), type_of(node)
    value = inputs[0]
    if dtype.endswith("int8"):  # Relay pads with the least number of int32
        value = relay.cast(value, "int32")
    found = windows.pooled(_GREATEST, value)
    found = relay.cast(found, dtype) if dtype.endswith("int8") else found
    if len(node.outputs) == 1 or not node.outputs[1].name:
        return found
    return relay.TupleWrapper(relay.Tuple([found, _places(node, inputs[0], windows)]), 2)


def _places(node: ir.Node, value: Any, windows: _Windows) -> Any:
    """Flat places, in the whole tensor, of the greatest value of each window."""
    batch, channels, *image = shape_of(node)
    places = windows.places()
    size = prod(image)
    flat = relay.reshape(value, (batch, channels, size))
    taken = relay.take(flat, fixed(np.maximum(places, 0)), axis=2)
    least = np.finfo(type_of(node)).min if type_of(node).startswith("float") else 0
    outside = fixed(places < 0)
    taken = relay.where(outside, relay.const(least, type_of(node)), taken)
    first = relay.argmax(taken, 3)  # [N, C, windows]
    rows = np.arange(len(places)) * places.shape[1]
    if node.attributes.get_int("storage_order", 0):
        axes = np.unravel_index(np.maximum(places, 0), image)
        places = np.asarray(np.ravel_multi_index(axes[::-1], image[::-1]))
    chosen = relay.take(fixed(places.ravel()), relay.cast(first, "int64") + fixed(rows))
    begins = np.arange(batch * channels).reshape(batch, channels, 1) * size
    return relay.reshape(chosen + fixed(begins), extents(node.outputs[0]))


@converter("MaxUnpool")
def unpooled(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Values at their places in a larger image of zeros."""
    made = extents(node.outputs[0])
    given = shape_of(node)
    zeros = relay.zeros((prod(made),), type_of(node))
    flat = [relay.reshape(each, (prod(given),)) for each in inputs[:2]]
    return relay.reshape(relay.scatter_elements(zeros, flat[1], flat[0], 0), made)
