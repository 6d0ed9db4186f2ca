"""Rules for parts of tensors, and for tensors of parts: ``Slice``, ``Split``, ``Concat``."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import axis_of, nonnegative, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, optional, require_constant, required

__all__ = [
    "center_crop_pad",
    "concat",
    "slice_",
    "split",
]


@rule("Slice")
def slice_(node: ir.Node, op: Builder) -> Outputs:
    """Begins, ends, axes and steps are constants, in order, and only of axes that are cut.

    Ends lie within the axis; one before its first place, which a negative step may need, is
    written as ``-1 - extent``.
    """
    value = required(node)
    shape = extents(value)
    cuts = []
    for axis, begin, end, step in sorted(_told(node, len(shape))):
        cut = _within(shape[axis], begin, end, step)
        if cut != (0, shape[axis], 1):
            cuts.append((axis, *cut))
    if not cuts:
        return value
    axes, begins, ends, steps = zip(*cuts, strict=True)
    wanted = (begins, ends, axes, steps)
    given = [constant(optional(node, place)) for place in (1, 2, 3, 4)]
    if all(
        have is not None and have.dtype == np.int64 and tuple(have.tolist()) == want
        for have, want in zip(given, wanted, strict=True)
    ):
        return None
    return op.op("Slice", value, *(op.const(np.array(each, "int64")) for each in wanted))


def _told(node: ir.Node, rank: int) -> list[tuple[int, int, int, int]]:
    """Axis, begin, end and step of each cut, as a node tells them."""
    if "starts" in node.attributes:
        begins, ends = (list(node.attributes[name].as_ints()) for name in ("starts", "ends"))
        axes = list(node.attributes.get_ints("axes", range(len(begins))))
        steps = [1] * len(begins)
    else:
        given = [
            require_constant(node, place, what)
            for place, what in enumerate(("begins", "ends", "axes", "steps"), 1)
        ]
        told = [None if each is None else each.ravel().tolist() for each in given]
        begins, ends = told[0] or [], told[1] or []
        axes = list(range(len(begins))) if told[2] is None else told[2]
        steps = [1] * len(begins) if told[3] is None else told[3]
    axes = [nonnegative(axis, rank) for axis in axes]
    if 0 in steps or len(set(axes)) < len(axes):
        raise ModelError(f"has axes {axes} and steps {steps}; give each axis once, no step of 0")
    if any(step < 0 and end in _LARGEST for end, step in zip(ends, steps, strict=True)):
        raise ModelError(
            "goes backwards to the largest number, which runtimes take for the first place or for "
            "the last; give the smallest number as its end"
        )
    return list(zip(axes, begins, ends, steps, strict=True))


_LARGEST = tuple(np.iinfo(kind).max for kind in ("int32", "int64"))
"""Ends that stand for the end of an axis, whatever its extent."""


def _within(extent: int, begin: int, end: int, step: int) -> tuple[int, int, int]:
    """Begin, end and step of the same places, as few bounds as possible being negative."""
    begin, end = (each + extent if each < 0 else each for each in (begin, end))
    if step > 0:
        begin, end = (min(max(each, 0), extent) for each in (begin, end))
    else:
        begin, end = min(max(begin, 0), extent - 1), min(max(end, -1), extent - 1)
    count = max(0, -((begin - end) // step))
    if count == 0:
        return 0, 0, 1
    if count == 1:
        return begin, begin + 1, 1
    last = begin + (count - 1) * step
    if step > 0:
        return begin, last + 1, step
    return begin, last - 1 if last else -1 - extent, step


@rule("Split")
def split(node: ir.Node, op: Builder) -> Outputs:
    """Extents of all parts are a constant input, none of them zero; one part is the whole."""
    value, axis = required(node), axis_of(node, 0)
    given = require_constant(node, 1, "extents of its parts")
    extent, count = extents(value)[axis], len(node.outputs)
    said = node.attributes.get_ints("split", None) if given is None else given.tolist()
    part = -(-extent // count)
    parts = [min(part, max(0, extent - part * place)) for place in range(count)]
    parts = parts if said is None else list(said)
    if sum(parts) != extent or len(parts) != count or min(parts) < 0:
        raise ModelError(f"makes parts {parts} of {extent} places; give {count} that add up")
    if count == 1:
        return [value]
    if 0 in parts:
        return _with_empty_parts(value, parts, axis, op)
    if given is not None and axis == node.attributes.get_int("axis", 0):
        return None
    return op.ops("Split", value, op.const(parts, "int64"), count=count, axis=axis)


def _with_empty_parts(
    value: ir.Value, parts: list[int], axis: int, op: Builder
) -> list[ir.Value | None]:
    """Parts of a tensor, of which those without places are constants."""
    full = [part for part in parts if part]
    shape = list(extents(value))
    nothing = op.const(np.zeros([*shape[:axis], 0, *shape[axis + 1 :]], dtype_of(value)))
    if not full:
        return [nothing for _ in parts]
    told = op.const(full, "int64")
    made = iter(op.ops("Split", value, told, count=len(full), axis=axis))
    return [next(made) if part else nothing for part in parts]


@rule("Concat")
def concat(node: ir.Node, op: Builder) -> Outputs:
    """Only tensors with elements are joined; one alone is the whole."""
    values = [value for value in node.inputs if value is not None]
    axis = axis_of(node, 1)
    full = [value for value in values if extents(value)[axis]] or values[:1]
    if len(full) == 1:
        return full[0]
    if full == values and axis == node.attributes.get_int("axis", 1):
        return None
    return op.op("Concat", *full, axis=axis)


@rule("CenterCropPad")
def center_crop_pad(node: ir.Node, op: Builder) -> Outputs:
    """The middle of a tensor, or zeros around it, are pads, of which some may be negative."""
    value, told = required(node), require_constant(node, 1, "a shape")
    assert told is not None
    shape = extents(value)
    axes = node.attributes.get_ints("axes", None) or range(rank_of(value))
    begins, ends = [0] * len(shape), [0] * len(shape)
    for each, wanted in zip(axes, told.tolist(), strict=True):
        axis = nonnegative(each, len(shape))
        more = wanted - shape[axis]
        begins[axis] = more // 2 if more > 0 else -(-more // 2)
        ends[axis] = more - begins[axis]
    return op.op("Pad", value, op.const(begins + ends, "int64"), mode="constant")
