"""Converters of images of another size, and of samples at places that the run tells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import extents
from tvm_ios.relay.frontends.onnx.converters.converter import (
    converter,
    fixed,
    known,
    shape_of,
    type_of,
)
from tvm_ios.relay.frontends.onnx.converters.taps import Resizing, Taps

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_OF_RELAY = ("half_pixel", "align_corners", "asymmetric")
"""Ways to find places that Relay has as ONNX has them."""


@converter("Resize")
def resize(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A tensor whose axes are resized: by Relay where it is an image, else axis by axis."""
    ways = _resizings(node)
    dtype = type_of(node)
    if _is_of_relay(ways, dtype):
        return _by_relay(node, inputs[0], ways)
    interpolated = ways[0].mode != "nearest"
    value = relay.cast(inputs[0], "float32") if interpolated and dtype != "float32" else inputs[0]
    taps = [each.taps() for each in ways]
    for axis, (way, each) in enumerate(zip(ways, taps, strict=True)):
        if way.extent != way.made or way.coordinates == "tf_crop_and_resize":
            behind = len(ways) - 1 - axis
            value = _along(value, axis, behind, each, interpolated=interpolated)
    if interpolated and dtype != "float32":
        value = relay.cast(value, dtype)
    return _extrapolated(node, value, taps)


def _resizings(node: ir.Node) -> list[Resizing]:
    """How each axis is resized."""
    attributes = node.attributes
    if attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise ModelError("keeps an aspect ratio; give the sizes it leads to")
    shape, made = shape_of(node), extents(node.outputs[0])
    axes = attributes.get_ints("axes", None) or range(len(shape))
    axes = [axis % len(shape) for axis in axes]
    scales = dict(zip(axes, _numbers(node, 2) or [], strict=False))
    roi = _numbers(node, 1) or [0.0] * len(axes) + [1.0] * len(axes)
    parts = dict(zip(axes, zip(roi[: len(axes)], roi[len(axes) :], strict=True), strict=True))
    return [
        Resizing(
            extent=extent,
            made=size,
            scale=scales.get(axis, size / extent),
            mode=attributes.get_string("mode", "nearest"),
            coordinates=attributes.get_string("coordinate_transformation_mode", "half_pixel"),
            rounding=attributes.get_string("nearest_mode", "round_prefer_floor"),
            cubic=attributes.get_float("cubic_coeff_a", -0.75),
            exclude_outside=bool(attributes.get_int("exclude_outside", 0)),
            antialias=bool(attributes.get_int("antialias", 0)),
            part=parts.get(axis, (0.0, 1.0)),
        )
        for axis, (extent, size) in enumerate(zip(shape, made, strict=True))
    ]


def _numbers(node: ir.Node, place: int) -> Any:
    value = node.inputs[place] if place < len(node.inputs) else None
    if value is not None and value.const_value is None:
        raise ModelError(f"takes {value.name!r} that only the run tells; give constant sizes")
    return known(node, place)


def _is_of_relay(ways: Sequence[Resizing], dtype: str) -> bool:
    """True if Relay resizes as ONNX does: an image, to the extents that the scale says."""
    if len(ways) != 4 or dtype != "float32":
        return False
    first, (_, _, *image) = ways[0], ways
    if first.antialias or first.coordinates not in _OF_RELAY:
        return False
    if any(way.extent != way.made for way in ways[:2]) or not all(way.is_exact for way in ways):
        return False
    if first.mode == "nearest":
        whole = all(way.made % way.extent == 0 for way in image)
        return whole and (first.rounding == "floor") == (first.coordinates == "asymmetric")
    return first.coordinates != "align_corners" or min(way.made for way in image) > 1


def _by_relay(node: ir.Node, value: Any, ways: Sequence[Resizing]) -> Any:
    first = ways[0]
    return relay.image.resize2d(
        value,
        extents(node.outputs[0])[2:],
        None,
        "NCHW",
        _METHODS[first.mode],
        first.coordinates,
        first.rounding,
        first.cubic,
        int(first.exclude_outside),
    )


def _along(value: Any, axis: int, behind: int, taps: Taps, *, interpolated: bool) -> Any:
    """A tensor with one axis resized, which has so many axes ``behind`` it."""
    parts = [relay.take(value, fixed(at), axis=axis, mode="fast") for at in taps.places]
    if not interpolated:
        return parts[0]
    weights = (fixed(each.reshape(-1, *[1] * behind)) for each in taps.weights)
    return reduce(relay.add, map(relay.multiply, parts, weights))


def _extrapolated(node: ir.Node, value: Any, taps: Sequence[Taps]) -> Any:
    """One number where an element lies outside along any axis."""
    if not any(each.outside.any() for each in taps):
        return value
    outside = reduce(np.logical_or, np.ix_(*(each.outside for each in taps)))
    number = relay.const(node.attributes.get_float("extrapolation_value", 0.0), type_of(node))
    return relay.where(fixed(outside), number, value)


_SAMPLED = {"linear": "bilinear", "cubic": "bicubic"}
"""Names of opset 20 by those of Relay, which are those before."""


@converter("GridSample")
def grid_sample(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """An image at places that the run tells."""
    rank, mode = len(shape_of(node)), node.attributes.get_string("mode", "linear")
    if rank not in (4, 5) or (rank == 5 and "cubic" in mode):
        raise ModelError(f"samples a tensor of rank {rank} in mode {mode}; give an image of rank 4")
    return relay.image.grid_sample(
        inputs[0],
        relay.transpose(inputs[1], [0, rank - 1, *range(1, rank - 1)]),
        _SAMPLED.get(mode, mode),
        "NCHW" if rank == 4 else "NCDHW",
        node.attributes.get_string("padding_mode", "zeros"),
        bool(node.attributes.get_int("align_corners", 0)),
    )
