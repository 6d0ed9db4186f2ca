"""Rules for ``Resize`` and ``Upsample``: by sizes where they say it all, else sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import along, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.images.resampling import Coordinates, Samples, nearest, samples
from tvm_ios.onnx.rules.images.resized_axes import SCALES_LATER, resized_axes
from tvm_ios.onnx.values import constant, dtype_of, optional, required

__all__ = [
    "resize",
]

_PLAIN_MODES = {
    "align_corners": "align_corners",
    "asymmetric": "asymmetric",
    "half_pixel": "half_pixel",
    "half_pixel_symmetric": "half_pixel",
    "pytorch_half_pixel": "half_pixel",
}
"""Modes that sizes alone tell, with the one that is the same where sizes are no rounded ones."""
_MOST_SAMPLES = 4
"""Samples of an axis that are added one by one; of more, a product of matrices is made."""


@rule("Resize", "Upsample")
def resize(node: ir.Node, op: Builder) -> Outputs:
    """Images of another size, all of whose sizes are told, and no scales.

    Scales that sizes cannot tell, crops, and tensors that are no images are gathered and added.
    """
    value, axes = required(node), resized_axes(node)
    mode = node.attributes.get_string("mode", "nearest").replace("bilinear", "linear")
    changed = [
        axis
        for axis, each in enumerate(axes)
        if each.mode == "tf_crop_and_resize" or each.resized != each.extent or each.scale != 1
    ]
    if not changed:
        return value
    if _is_plain(axes, mode, node):
        return _by_sizes(node, axes, mode, op)
    if mode != "nearest" and dtype_of(value).kind in "iu":
        raise ModelError("interpolates whole numbers, which rounds; cast them to float32 before")
    for axis in changed:
        value = _along_axis(node, value, axis, axes, op)
    return _extrapolated(node, value, axes, op)


def _is_plain(axes: Sequence[Coordinates], mode: str, node: ir.Node) -> bool:
    """Whether sizes alone say how an image is resized, of two axes that are none of it."""
    cubic = mode == "cubic"
    if not 3 <= len(axes) <= (4 if cubic else 5) or (cubic and len(axes) < 4):
        return False
    if any(each.resized != each.extent or each.scale != 1 for each in axes[:2]):
        return False
    if node.attributes.get_int("antialias", 0) and any(each.scale < 1 for each in axes):
        return False
    told = _plain_axes(axes)
    if told is None:
        return False
    if mode != "nearest":
        return True
    way = _nearest_mode(node)
    kept = "floor" if way == "simple" else way
    return all(
        (nearest(one, way) == nearest(other, kept)).all()
        for one, other in zip(axes[2:], told[2:], strict=True)
    )


def _plain_axes(axes: Sequence[Coordinates]) -> list[Coordinates] | None:
    """The axes as sizes alone tell them; None where they do not."""
    resized = [each for each in axes[2:] if each.resized != each.extent] or axes[2:]
    modes = {_PLAIN_MODES.get(each.mode) for each in resized}
    if len(modes) != 1 or None in modes:
        return None
    (mode,) = modes
    told = []
    for each in axes:
        exact = np.float32(each.resized) / np.float32(each.extent) if each.extent else each.scale
        rounded = abs(float(each.scale) - float(exact)) > 1e-6 * float(exact)
        by_scale = mode != "align_corners" and rounded
        if by_scale or (each.resized == 1 and each.extent > 1 and each.mode != "asymmetric"):
            return None
        told.append(replace(each, scale=exact, mode=str(mode)))
    return told


def _nearest_mode(node: ir.Node) -> str:
    old = (node.version or 0) < SCALES_LATER
    return "simple" if old else node.attributes.get_string("nearest_mode", "round_prefer_floor")


def _by_sizes(node: ir.Node, axes: Sequence[Coordinates], mode: str, op: Builder) -> Outputs:
    """The node by the sizes of all its axes."""
    told = _plain_axes(axes)
    assert told is not None
    mode_of_places = next((e.mode for e in told[2:]), "half_pixel")
    nearest_mode = _nearest_mode(node).replace("simple", "floor")
    how = {
        "mode": mode,
        "coordinate_transformation_mode": mode_of_places,
        "nearest_mode": nearest_mode if mode == "nearest" else "round_prefer_floor",
        "cubic_coeff_a": node.attributes.get_float("cubic_coeff_a", -0.75),
        "exclude_outside": node.attributes.get_int("exclude_outside", 0) if mode == "cubic" else 0,
    }
    sizes = [each.resized for each in axes]
    known = constant(optional(node, 3))
    if known is not None and known.tolist() == sizes and "axes" not in node.attributes:
        plain = all(
            node.attributes[name].value == wanted if name in node.attributes else False
            for name, wanted in how.items()
        )
        rest = node.inputs[1] is None and node.inputs[2] is None
        if plain and rest and not node.attributes.get_int("antialias", 0):
            return None
    return op.op("Resize", required(node), None, None, op.const(sizes, "int64"), **how)


def _along_axis(
    node: ir.Node, value: ir.Value, axis: int, axes: Sequence[Coordinates], op: Builder
) -> ir.Value:
    """A tensor of which one axis is resized."""
    mode = node.attributes.get_string("mode", "nearest")
    if mode == "nearest":
        return op.op("Gather", value, op.const(nearest(axes[axis], _nearest_mode(node))), axis=axis)
    taken = samples(
        axes[axis],
        cubic=node.attributes.get_float("cubic_coeff_a", -0.75) if mode == "cubic" else None,
        antialias=bool(node.attributes.get_int("antialias", 0)),
        exclude_outside=bool(node.attributes.get_int("exclude_outside", 0)),
    )
    dtype = dtype_of(required(node))
    if taken.places.shape[1] <= _MOST_SAMPLES:
        return _added(value, axis, taken, rank_of(required(node)), dtype, op)
    weights = op.const(taken.matrix(axes[axis].extent).T.astype(dtype))
    order = list(range(len(axes)))
    order[axis], order[-1] = order[-1], order[axis]
    return op.transpose(op.op("MatMul", op.transpose(value, order), weights), order)


def _added(
    value: ir.Value, axis: int, taken: Samples, rank: int, dtype: np.dtype, op: Builder
) -> ir.Value:
    """The sum of gathered samples, each times its weight."""
    if not taken.places.size:
        return op.op("Gather", value, op.const(np.zeros(0, "int64")), axis=axis)
    shape = along(rank, [(axis, len(taken.places))])
    made = None
    for places, weights in zip(taken.places.T, taken.weights.T, strict=True):
        part = op.op("Gather", value, op.const(places), axis=axis)
        part = op.op("Mul", part, op.const(weights.astype(dtype).reshape(shape)))
        made = part if made is None else op.op("Add", made, part)
    assert made is not None
    return made


def _extrapolated(
    node: ir.Node, value: ir.Value, axes: Sequence[Coordinates], op: Builder
) -> ir.Value:
    """A tensor with another number where a crop reaches beyond the image."""
    masks = [
        each.outside().reshape(along(len(axes), [(axis, each.resized)]))
        for axis, each in enumerate(axes)
    ]
    if not any(mask.any() for mask in masks):
        return value
    outside = masks[0]
    for mask in masks[1:]:
        outside = outside | mask
    number = node.attributes.get_float("extrapolation_value", 0.0)
    filler = op.const(np.array(number, dtype_of(required(node))))
    return op.op("Where", op.const(outside), filler, value)
