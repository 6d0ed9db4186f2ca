"""Converters of operators that move elements and change none: slices, pads, gathers, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from tvm import relay

from tvm_ios.onnx.values import extents
from tvm_ios.relay.frontends.onnx.converters.converter import converter, known


@converter("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The same elements in other extents, which are those of the result."""
    return relay.reshape(inputs[0], extents(node.outputs[0]))


@converter("Expand")
def expand(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Elements repeated along axes of extent one, and along new ones."""
    return relay.broadcast_to(inputs[0], extents(node.outputs[0]))


@converter("Slice")
def slice_(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A part of each axis; ends lie within the axis, before its begin where steps go back."""
    begins, ends, axes, steps = (known(node, place) for place in (1, 2, 3, 4))
    return relay.strided_slice(inputs[0], begins, ends, steps, axes=axes)


@converter("Pad")
def pad(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Elements around a tensor: one number, or those of the tensor itself."""
    mode = node.attributes.get_string("mode", "constant")
    pads = known(node, 1)
    half = len(pads) // 2
    widths = list(zip(pads[:half], pads[half:], strict=True))
    value = known(node, 2)
    return relay.nn.pad(inputs[0], widths, 0 if value is None else value, pad_mode=mode)


@converter("Gather")
def gather(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Slices at indices along an axis; the indices are not negative."""
    axis = node.attributes.get_int("axis", 0)
    index = known(node, 1)
    if isinstance(index, int):  # one slice, which is a view where it is of the first axis
        part = relay.strided_slice(inputs[0], [index], [index + 1], axes=[axis])
        return relay.squeeze(part, [axis])
    return relay.take(inputs[0], inputs[1], axis=axis, mode="clip")
