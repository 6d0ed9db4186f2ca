"""Rules for operators of images that sample, say where, or put blocks together."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import dtype_of, extents, require_constant, required

__all__ = [
    "affine_grid",
    "blocks_to_image",
    "grid_sample",
]

_NEW_NAMES = {"bicubic": "cubic", "bilinear": "linear"}
"""Modes of ``GridSample`` as opset 20 calls them, by their names before."""


@rule("GridSample")
def grid_sample(node: ir.Node, op: Builder) -> Outputs:
    """Modes have the names of opset 20."""
    mode = node.attributes.get_string("mode", "linear")
    if mode not in _NEW_NAMES:
        return None
    return op.again(node, *node.inputs, mode=_NEW_NAMES[mode])


@rule("Col2Im")
def blocks_to_image(node: ir.Node, op: Builder) -> Outputs:
    """Blocks that are added up are a transposed convolution by ones, each channel by itself."""
    value = required(node)
    image, kernel = (
        require_constant(node, place, what) for place, what in ((1, "a size"), (2, "a block"))
    )
    assert image is not None
    assert kernel is not None
    axes = len(kernel)
    ones, zeros = [1] * axes, [0] * (2 * axes)
    strides = np.array(node.attributes.get_ints("strides", ones))
    dilations = np.array(node.attributes.get_ints("dilations", ones))
    pads = np.array(node.attributes.get_ints("pads", zeros)).reshape(2, -1)
    size = int(np.prod(kernel))
    reach = (kernel - 1) * dilations + 1
    counts = (image + pads.sum(0) - reach) // strides + 1
    images, channels = extents(value)[0], extents(value)[1] // size
    blocks = op.reshape(value, [images, channels * size, *counts.tolist()])
    weights = np.eye(size, dtype=dtype_of(value)).reshape(size, 1, *kernel.tolist())
    rest = image + pads.sum(0) - (strides * (counts - 1) + reach)
    return op.op(
        "ConvTranspose",
        blocks,
        op.const(np.tile(weights, (channels, *ones, 1))),
        group=channels,
        kernel_shape=kernel.tolist(),
        strides=strides.tolist(),
        dilations=dilations.tolist(),
        pads=pads.ravel().tolist(),
        output_padding=rest.tolist(),
    )


@rule("AffineGrid")
def affine_grid(node: ir.Node, op: Builder) -> Outputs:
    """Places of a whole image are a constant matrix, which is multiplied by each transformation."""
    transformations, size = required(node), require_constant(node, 1, "a size")
    assert size is not None
    images, _, *image = size.tolist()
    dtype = dtype_of(transformations)
    if node.attributes.get_int("align_corners", 0):
        steps = [np.linspace(-1, 1, extent) for extent in image]
    else:
        steps = [(2 * np.arange(extent) + 1) / extent - 1 for extent in image]
    places = np.meshgrid(*steps, indexing="ij")[::-1]
    rows = np.stack([*places, np.ones(image)], -1).reshape(-1, len(image) + 1)
    turned = op.transpose(transformations, (0, 2, 1))
    made = op.op("MatMul", op.const(rows.astype(dtype)), turned)
    return op.reshape(made, [images, *image, len(image)])
