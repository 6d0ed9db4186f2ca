"""Converters of images of another size, and of samples at places that the run tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.rules.images.resampling import Coordinates, nearest
from tvm_ios.onnx.values import extents
from tvm_ios.relay.frontends.onnx.converters.converter import converter, fixed, shape_of

__all__ = [
    "grid_sample",
    "resize",
]

_RESIZES = {
    3: (relay.image.resize1d, "NCW"),
    4: (relay.image.resize2d, "NCHW"),
    5: (relay.image.resize3d, "NCDHW"),
}


@converter("Resize")
def resize(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Images of another size, of which sizes alone tell how."""
    shape, made, attributes = shape_of(node), extents(node.outputs[0]), node.attributes
    mode = attributes.get_string("mode", "nearest")
    coordinates = attributes.get_string("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest":
        return _repeated(node, inputs[0], coordinates)
    operator, layout = _RESIZES[len(shape)]
    return operator(
        inputs[0],
        made[2:],
        None,
        layout,
        mode,
        coordinates,
        cubic_alpha=attributes.get_float("cubic_coeff_a", -0.75),
        cubic_exclude=attributes.get_int("exclude_outside", 0),
    )


def _repeated(node: ir.Node, value: Any, coordinates: str) -> Any:
    """Images of the nearest pixels: of Relay where each is repeated as often, else gathered."""
    shape, made = shape_of(node), extents(node.outputs[0])
    rounding = node.attributes.get_string("nearest_mode", "round_prefer_floor")
    places = [_nearest(*each, coordinates, rounding) for each in zip(shape, made, strict=True)]
    repeated = [np.arange(size) * extent // size for extent, size in zip(shape, made, strict=True)]
    whole = all(size % extent == 0 for extent, size in zip(shape, made, strict=True))
    if whole and all(map(np.array_equal, places, repeated)):
        operator, layout = _RESIZES[len(shape)]
        return operator(value, made[2:], None, layout, "nearest_neighbor", "asymmetric", "floor")
    for axis, each in enumerate(places):
        if not np.array_equal(each, np.arange(shape[axis])):
            value = relay.take(value, fixed(each), axis=axis, mode="fast")
    return value


def _nearest(extent: int, size: int, coordinates: str, rounding: str) -> Any:
    scale = np.float32(size) / np.float32(extent)
    way = Coordinates(extent=extent, resized=size, scale=scale, mode=coordinates)
    return nearest(way, rounding)


_SAMPLED = {"linear": "bilinear", "cubic": "bicubic"}
"""Names of Relay by those of ONNX."""


@converter("GridSample")
def grid_sample(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """An image at places that the run tells."""
    rank, mode = len(shape_of(node)), node.attributes.get_string("mode", "linear")
    if rank not in (4, 5) or (rank == 5 and mode == "cubic"):
        raise ModelError(f"samples a tensor of rank {rank} in mode {mode}; give an image of rank 4")
    return relay.image.grid_sample(
        inputs[0],
        relay.transpose(inputs[1], [0, rank - 1, *range(1, rank - 1)]),
        _SAMPLED.get(mode, mode),
        "NCHW" if rank == 4 else "NCDHW",
        node.attributes.get_string("padding_mode", "zeros"),
        bool(node.attributes.get_int("align_corners", 0)),
    )
