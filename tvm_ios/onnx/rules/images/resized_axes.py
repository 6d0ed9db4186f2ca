"""Coordinates of each axis that a ``Resize`` or ``Upsample`` of any opset resizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import nonnegative
from tvm_ios.onnx.rules.images.resampling import Coordinates
from tvm_ios.onnx.values import extents, require_constant, required

__all__ = ["SCALES_LATER", "resized_axes"]

SCALES_LATER = 11
"""The opset from which attributes say how places are found, and scales are the third input."""


def resized_axes(node: ir.Node) -> list[Coordinates]:
    """Coordinates of each axis of a node's input, whether it is resized or not."""
    shape = extents(required(node))
    chosen = [
        nonnegative(axis, len(shape))
        for axis in node.attributes.get_ints("axes", range(len(shape)))
    ]
    mode = node.attributes.get_string("coordinate_transformation_mode", "asymmetric")
    axes = [
        Coordinates(extent=extent, resized=extent, scale=np.float32(1), mode="half_pixel")
        for extent in shape
    ]
    scales, sizes = _scales(node), require_constant(node, 3, "sizes")
    if scales is None and sizes is None:
        raise ModelError("has neither scales nor sizes; give one of them")
    if sizes is not None and sizes.size:
        sizes, scales = _of_sizes(node, sizes.ravel(), np.array([shape[axis] for axis in chosen]))
    else:
        assert scales is not None
        sizes = (np.array([shape[a] for a in chosen], "float32") * scales).astype("int64")
    roi = _roi(node, len(chosen))
    for place, axis in enumerate(chosen):
        axes[axis] = replace(
            axes[axis],
            resized=int(sizes[place]),
            scale=np.float32(scales[place]),
            mode=mode,
            begin=roi[place],
            end=roi[place + len(chosen)],
        )
        _require_whole(axes[axis])
    return axes


_BY_LAST_PLACE = ("align_corners", "tf_crop_and_resize")
"""Modes in which the last place of the resized axis counts, and runtimes differ in where it is."""


def _require_whole(axis: Coordinates) -> None:
    """Refuse a rounded size where onnx goes on with the exact one, and onnxruntime does not."""
    exact = axis.scale * np.float32(axis.extent)
    rounded = abs(exact - axis.resized) > 1e-5 * exact
    if axis.mode in _BY_LAST_PLACE and rounded and axis.resized > 1:
        raise ModelError(
            f"makes {exact} of {axis.extent} places in mode {axis.mode}, of which runtimes give "
            "different results; give sizes in place of scales"
        )


def _scales(node: ir.Node) -> np.ndarray | None:
    if "scales" in node.attributes:
        return np.array(node.attributes["scales"].as_floats(), "float32")
    old = (node.version or 0) < SCALES_LATER
    given = require_constant(node, 1 if old else 2, "scales")
    return None if given is None or not given.size else given.ravel().astype("float32")


def _of_sizes(node: ir.Node, sizes: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and scales by the wanted sizes, of which the ratio of an image may change one."""
    scales = sizes.astype("float32") / shape.astype("float32")
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, scales
    scale = scales.min() if policy == "not_larger" else scales.max()
    return np.floor(scale * shape.astype("float32") + 0.5).astype("int64"), np.full_like(
        scales, scale
    )


def _roi(node: ir.Node, count: int) -> Sequence[float]:
    """Begins and ends of the part of each axis that is taken."""
    whole = [0.0] * count + [1.0] * count
    if node.attributes.get_string("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return whole
    given = require_constant(node, 1, "a region")
    return whole if given is None or not given.size else given.ravel().tolist()
