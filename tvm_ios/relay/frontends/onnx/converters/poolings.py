"""Converters of poolings of images of one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.relay.frontends.onnx.converters.converter import converter, shape_of, type_of
from tvm_ios.relay.frontends.onnx.converters.convolutions import numbers_of

__all__ = [
    "average",
    "greatest",
]

_AVERAGES = {1: relay.nn.avg_pool1d, 2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d}
_GREATEST = {1: relay.nn.max_pool1d, 2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d}


@converter("AveragePool")
def average(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Means of windows, of elements of the image, or of its padding as well."""
    whole = bool(node.attributes.get_int("count_include_pad", 0))
    return _pooled(node, _AVERAGES, inputs[0], count_include_pad=whole)


@converter("MaxPool")
def greatest(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Greatest values of windows."""
    dtype = type_of(node)
    if not dtype.endswith("int8"):
        return _pooled(node, _GREATEST, inputs[0])
    # Relay would pad with a number that int8 does not hold.
    return relay.cast(_pooled(node, _GREATEST, relay.cast(inputs[0], "int32")), dtype)


def _pooled(node: ir.Node, pools: Any, value: Any, **more: Any) -> Any:
    """A pooling of Relay, whose windows end before the image or its pads do."""
    count = len(shape_of(node)) - 2
    if count not in pools:
        raise ModelError(f"pools images of {count} dimensions; give one, two or three")
    names = ("kernel_shape", "strides", "dilations")
    kernel, strides, dilations = (tuple(numbers_of(node, name)) for name in names)
    pads = tuple(numbers_of(node, "pads"))
    return pools[count](
        value, kernel, strides=strides, dilation=dilations, padding=pads, ceil_mode=False, **more
    )
