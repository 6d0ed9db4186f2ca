"""Rules for operators that put axes in another order: all become ``Transpose``."""

from __future__ import annotations

import onnx_ir as ir

from tvm_ios.onnx.axes import rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import extents, required

__all__ = [
    "depth_to_space",
    "space_to_depth",
    "transpose",
]


@rule("Transpose")
def transpose(node: ir.Node, op: Builder) -> Outputs:
    """Axes in reverse are told as such; of two orders in a row, one is left.

    An order that moves axes of extent one alone is other extents of the same elements.
    """
    value = required(node)
    rank = rank_of(value)
    order = list(node.attributes.get_ints("perm", range(rank)[::-1]))
    before = value.producer()
    if before is not None and before.op_type == "Transpose":
        inner = before.attributes["perm"].as_ints()
        return op.transpose(required(before), [inner[axis] for axis in order])
    if order == list(range(rank)):
        return value
    shape = extents(value)
    long = [axis for axis in order if shape[axis] != 1]
    if long == sorted(long):
        return op.reshape(value, [shape[axis] for axis in order])
    return None if "perm" in node.attributes else op.transpose(value, order)


@rule("DepthToSpace")
def depth_to_space(node: ir.Node, op: Builder) -> Outputs:
    """Channels that become places are axes in another order."""
    value = required(node)
    images, channels, height, width = extents(value)
    size = node.attributes["blocksize"].as_int()
    left = channels // size**2
    if node.attributes.get_string("mode", "DCR") == "DCR":
        apart = op.reshape(value, [images, size, size, left, height, width])
        order = (0, 3, 4, 1, 5, 2)
    else:
        apart = op.reshape(value, [images, left, size, size, height, width])
        order = (0, 1, 4, 2, 5, 3)
    return op.reshape(op.transpose(apart, order), [images, left, height * size, width * size])


@rule("SpaceToDepth")
def space_to_depth(node: ir.Node, op: Builder) -> Outputs:
    """Places that become channels are axes in another order, of which there are two."""
    value = required(node)
    images, channels, height, width = extents(value)
    size = node.attributes["blocksize"].as_int()
    height, width = height // size, width // size
    apart = op.reshape(value, [images, channels, height, size, width, size])
    blocks_first = node.attributes.get_string("mode", "DCR") == "DCR"
    moved = op.transpose(apart, (0, 3, 5, 1, 2, 4) if blocks_first else (0, 1, 3, 5, 2, 4))
    return op.reshape(moved, [images, channels * size**2, height, width])
