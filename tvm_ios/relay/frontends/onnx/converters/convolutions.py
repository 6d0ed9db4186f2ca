"""Converters of convolutions of images of one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import constant
from tvm_ios.relay.frontends.onnx.converters.converter import converter, fixed, shape_of

__all__ = ["conv", "convolution", "numbers_of", "transposed"]

_CONVOLUTIONS = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}
_TRANSPOSED = {
    1: relay.nn.conv1d_transpose,
    2: relay.nn.conv2d_transpose,
    3: relay.nn.conv3d_transpose,
}


def numbers_of(node: ir.Node, name: str) -> list[int]:
    """Whole numbers of an attribute, which the normal form spells out."""
    return list(node.attributes[name].as_ints())


@converter("Conv")
def conv(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A convolution, with a bias for each channel or none."""
    return _with_bias(convolution(node, inputs[0], inputs[1]), inputs)


def convolution(node: ir.Node, data: Any, weight: Any, **more: Any) -> Any:
    """A convolution by the attributes of a node."""
    return _convolved(
        data,
        weight,
        shape_of(node, 1),
        numbers_of(node, "strides"),
        numbers_of(node, "pads"),
        numbers_of(node, "dilations"),
        node.attributes.get_int("group", 1),
        **more,
    )


def _convolved(
    data: Any,
    weight: Any,
    shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    **more: Any,
) -> Any:
    count = _images(shape)
    if count == 3 and groups > 1:
        return _group_by_group(data, weight, shape, strides, pads, dilations, groups, **more)
    return _CONVOLUTIONS[count](
        data,
        weight,
        strides=tuple(strides),
        padding=tuple(pads),
        dilation=tuple(dilations),
        groups=groups,
        channels=shape[0],
        kernel_size=tuple(shape[2:]),
        **more,
    )


def _group_by_group(
    data: Any,
    weight: Any,
    shape: Sequence[int],
    strides: Any,
    pads: Any,
    dilations: Any,
    groups: int,
    **more: Any,
) -> Any:
    """Convolution of each group by itself: TVM knows no groups of volumes."""
    part = (shape[0] // groups, *shape[1:])
    found = [
        _convolved(one, other, part, strides, pads, dilations, 1, **more)
        for one, other in zip(
            relay.split(data, groups, 1), relay.split(weight, groups, 0), strict=True
        )
    ]
    return relay.concatenate(found, 1)


def _images(shape: Sequence[int]) -> int:
    """Number of dimensions of an image, by the shape of weights."""
    count = len(shape) - 2
    if count not in _CONVOLUTIONS:
        raise ModelError(f"convolves images of {count} dimensions; give one, two or three")
    return count


def _with_bias(value: Any, inputs: Sequence[Any]) -> Any:
    bias = inputs[2] if len(inputs) > 2 else None
    return value if bias is None else relay.nn.bias_add(value, bias)


@converter("ConvTranspose")
def transposed(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A transposed convolution: TVM's own where it knows it, else a convolution of spread data."""
    shape = shape_of(node, 1)
    count, groups = _images(shape), node.attributes.get_int("group", 1)
    strides, dilations = (numbers_of(node, name) for name in ("strides", "dilations"))
    pads, more = numbers_of(node, "pads"), numbers_of(node, "output_padding")
    plain = groups == 1 and max(dilations) == 1 and count < 3
    if plain and min(pads) >= 0 and all(np.less(more, strides)):
        made = _TRANSPOSED[count](
            inputs[0],
            inputs[1],
            strides=tuple(strides),
            padding=tuple(pads),
            output_padding=tuple(more),
            channels=shape[1],
            kernel_size=tuple(shape[2:]),
        )
        return _with_bias(made, inputs)
    ends = np.array(dilations) * (np.array(shape[2:]) - 1)
    begins = ends - pads[:count]
    ends = ends - pads[count:] + more
    data = _spread(inputs[0], len(shape), strides, begins.tolist(), ends.tolist())
    weight, flipped = _flipped(node, inputs[1], groups)
    ones, none = [1] * count, [0] * 2 * count
    return _with_bias(_convolved(data, weight, flipped, ones, none, dilations, groups), inputs)


def _spread(
    data: Any, rank: int, strides: Sequence[int], begins: Sequence[int], ends: Sequence[int]
) -> Any:
    """Data with zeros between its elements and around it; what is to be padded less is cut."""
    if max(strides) > 1:
        data = relay.nn.dilate(data, [1, 1, *strides])
    widths = [(0, 0), (0, 0), *((max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True))]
    if np.any(widths):
        data = relay.nn.pad(data, widths)
    if min(*begins, *ends) >= 0:
        return data
    axes = list(range(2, rank))
    first = [max(-begin, 0) for begin in begins]
    last = [min(end, 0) or _END for end in ends]
    return relay.strided_slice(data, first, last, [1] * len(axes), axes=axes)


_END = 2**31 - 1
"""An end of a slice beyond all extents."""


def _flipped(node: ir.Node, weight: Any, groups: int) -> tuple[Any, tuple[int, ...]]:
    """Weights of the convolution that computes a transposed one, and their extents."""
    ins, outs, *kernel = shape_of(node, 1)
    split, made = (groups, ins // groups, outs, *kernel), (groups * outs, ins // groups, *kernel)
    order = [0, 2, 1, *range(3, len(split))]
    array = constant(node.inputs[1])
    if array is not None:
        array = np.flip(
            array.reshape(split).transpose(order).reshape(made), tuple(range(2, len(made)))
        )
        return fixed(np.ascontiguousarray(array)), made
    weight = relay.reshape(relay.transpose(relay.reshape(weight, split), order), made)
    for axis in range(2, len(made)):
        weight = relay.reverse(weight, axis)
    return weight, made
