"""Rules for operators that read or write at indices: none of these is negative."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import along, axis_of, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, optional, require_constant, required

__all__ = ["compress", "elements", "gather", "one_hot", "slices", "written"]


@rule("Gather")
def gather(node: ir.Node, op: Builder) -> Outputs:
    """Constant indices at equal distances are a slice, any others count from the first place."""
    value, indices, axis = required(node), required(node, 1), axis_of(node, 0)
    places = _from_first(op, indices, extents(value)[axis])
    known = constant(places)
    if known is not None and known.size and _is_even(known.ravel()):
        return _sliced(value, known, axis, op)
    if places is indices and axis == node.attributes.get_int("axis", 0):
        return None
    return op.op("Gather", value, places, axis=axis)


def _is_even(places: np.ndarray) -> bool:
    steps = np.diff(places.astype("int64"))
    return steps.size == 0 or (steps[0] > 0 and bool((steps == steps[0]).all()))


def _sliced(value: ir.Value, places: np.ndarray, axis: int, op: Builder) -> ir.Value:
    """The slice that constant places are, with their axes in place of one."""
    flat = places.ravel().tolist()
    step = flat[1] - flat[0] if len(flat) > 1 else 1
    bounds = ([flat[0]], [flat[-1] + 1], [axis], [step])
    made = op.op("Slice", value, *(op.const(each, "int64") for each in bounds))
    shape = extents(value)
    return op.reshape(made, [*shape[:axis], *places.shape, *shape[axis + 1 :]])


@rule("GatherElements", "Scatter", "ScatterElements")
def elements(node: ir.Node, op: Builder) -> Outputs:
    """An element for each index; ``Scatter`` is the old name of ``ScatterElements``."""
    value, indices, axis = required(node), required(node, 1), axis_of(node, 0)
    places = _from_first(op, indices, extents(value)[axis])
    if node.op_type == "Scatter":
        return op.op("ScatterElements", value, places, node.inputs[2], axis=axis)
    if places is indices and axis == node.attributes.get_int("axis", 0):
        return None
    return op.again(node, value, places, *node.inputs[2:], axis=axis)


@rule("GatherND", "ScatterND")
def slices(node: ir.Node, op: Builder) -> Outputs:
    """A slice for each vector of indices."""
    value, indices = required(node), required(node, 1)
    batch = node.attributes.get_int("batch_dims", 0)
    sizes = extents(value)[batch:][: extents(indices)[-1]]
    places = _from_first(op, indices, sizes)
    if node.op_type == "GatherND" and len(extents(indices)) == 1:  # of which onnx infers no shape
        one = op.op("GatherND", value, op.reshape(places, [1, len(sizes)]), batch_dims=0)
        return op.reshape(one, extents(value)[len(sizes) :])
    return None if places is indices else op.again(node, value, places, *node.inputs[2:])


@rule("TensorScatter")
def written(node: ir.Node, op: Builder) -> Outputs:
    """Elements are put from a place of each batch on, and beyond the last one from the first on."""
    value, update, begins = required(node), required(node, 1), optional(node, 2)
    shape, axis = extents(update), axis_of(node, -2)
    places = op.const(np.arange(shape[axis]).reshape(along(len(shape), [(axis, shape[axis])])))
    if begins is not None:
        places = op.op("Add", places, op.reshape(begins, along(len(shape), [(0, shape[0])])))
    if node.attributes.get_string("mode", "linear") == "circular":
        places = op.op("Mod", places, op.const(extents(value)[axis]))
    places = op.op("Expand", places, op.const(shape, "int64"))
    return op.op("ScatterElements", value, places, update, axis=axis)


@rule("Compress")
def compress(node: ir.Node, op: Builder) -> Outputs:
    """Places that a constant condition takes are constant indices."""
    value, taken = required(node), require_constant(node, 1, "a condition")
    assert taken is not None
    if "axis" not in node.attributes:
        value, axis = op.reshape(value, [int(np.prod(extents(value)))]), 0
    else:
        axis = axis_of(node, 0)
    return op.op("Gather", value, op.const(np.flatnonzero(taken)), axis=axis)


@rule("OneHot")
def one_hot(node: ir.Node, op: Builder) -> Outputs:
    """Indices are compared with all places of a new axis, which chooses one of two values."""
    indices, values = required(node), required(node, 2)
    told = require_constant(node, 1, "a depth")
    assert told is not None
    depth, rank = int(told.item()), rank_of(indices) + 1
    axis = node.attributes.get_int("axis", -1) % rank
    shape = list(extents(indices))
    whole = op.op("Cast", indices, to=ir.DataType.INT64)
    zero, count = op.const(np.array(0)), op.const(np.array(depth))
    if (node.version or 0) >= _NEGATIVE:
        moved = op.op("Add", whole, count)
        whole = op.op("Where", op.op("Less", whole, zero), moved, whole)
    whole = op.reshape(whole, [*shape[:axis], 1, *shape[axis:]])
    places = op.const(np.arange(depth).reshape(along(rank, [(axis, depth)])))
    off, on = (op.op("Gather", values, op.const(np.array(place)), axis=0) for place in (0, 1))
    return op.op("Where", op.op("Equal", whole, places), on, off)


_NEGATIVE = 11
"""The opset from which indices of ``OneHot`` may count from the end."""


def _from_first(op: Builder, indices: ir.Value, extents: int | Sequence[int]) -> ir.Value:
    """The indices without negative ones: the very same value where it has none.

    ``extents`` broadcast to the indices. Raises ModelError for a constant outside.
    """
    sizes = np.array(extents, "int64")
    known = constant(indices)
    if known is not None:
        if (known >= sizes).any() or (known < -sizes).any():
            raise ModelError(
                f"has indices from {known.min()} to {known.max()} into {sizes.tolist()} places; "
                "give indices within them"
            )
        return (
            op.const(np.where(known < 0, known + sizes, known).astype(known.dtype))
            if (known < 0).any()
            else indices
        )
    if _never_negative(indices) or _is_moved(indices, sizes):
        return indices
    dtype = dtype_of(indices)
    negative = op.op("Less", indices, op.const(np.zeros((), dtype)))
    return op.op("Where", negative, op.op("Add", indices, op.const(sizes.astype(dtype))), indices)


_COUNTING = ("ArgMax", "ArgMin", "NonZero", "TopK")
"""Operators whose whole numbers are places from the first one on."""
_MOVING = ("Cast", "Expand", "Reshape", "Slice", "Split", "Transpose")
"""Operators that keep their first input's numbers as they are."""


def _never_negative(value: ir.Value) -> bool:
    node = value.producer()
    while node is not None:
        if node.op_type in _COUNTING:
            return True
        source = node.inputs[0] if node.inputs else None
        if node.op_type not in _MOVING or source is None:
            return False
        if dtype_of(source).kind in "bu":
            return True
        node = source.producer()
    return False


def _is_moved(value: ir.Value, sizes: np.ndarray) -> bool:
    """Whether a value is what :func:`_from_first` makes."""
    node = value.producer()
    if node is None or node.op_type != "Where":
        return False
    producers = [each.producer() for each in node.inputs if each is not None]
    test, moved = producers[0], producers[1]
    if test is None or moved is None or (test.op_type, moved.op_type) != ("Less", "Add"):
        return False
    indices, added = moved.inputs[0], constant(moved.inputs[1])
    same = test.inputs[0] is indices and node.inputs[2] is indices
    return same and added is not None and np.array_equal(added, sizes)
