"""Rules for operators that work along one axis: it is not negative, and one axis only."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.axes import along, axis_of, nonnegative, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import (
    constant,
    dtype_of,
    extents,
    optional,
    require_constant,
    required,
)

__all__ = [
    "cumulative_product",
    "cumulative_sum",
    "place_of_extreme",
    "softmax",
    "top",
    "triangle",
]

_OF_ONE_AXIS = 13
"""The opset from which softmax goes along one axis; before, along all from the axis on."""


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: ir.Node, op: Builder) -> Outputs:
    """Softmax goes along one axis; along several it does so in a tensor of two axes."""
    value = required(node)
    if 0 in extents(value):
        return value
    old = (node.version or 0) < _OF_ONE_AXIS
    axis, shape = axis_of(node, 1 if old else -1), extents(value)
    if old and np.prod(shape[axis + 1 :]) != 1:
        rows = int(np.prod(shape[:axis]))
        flat = op.reshape(value, [rows, int(np.prod(shape[axis:]))])
        return op.reshape(op.op(node.op_type, flat, axis=1), shape)
    if node.op_type == "Hardmax":
        return _hardmax(value, axis, op)
    if not old and axis == node.attributes.get_int("axis", -1):
        return None
    return op.op(node.op_type, value, axis=axis)


def _hardmax(value: ir.Value, axis: int, op: Builder) -> ir.Value:
    """Tensor of ones at the first of the largest numbers along an axis, and zeros elsewhere."""
    largest = op.op("ArgMax", value, axis=axis, keepdims=1, select_last_index=0)
    count, rank = extents(value)[axis], rank_of(value)
    places = op.const(np.arange(count).reshape(along(rank, [(axis, count)])))
    kind = ir.DataType.from_numpy(dtype_of(value))
    return op.op("Cast", op.op("Equal", largest, places), to=kind)


@rule("ArgMax", "ArgMin")
def place_of_extreme(node: ir.Node, op: Builder) -> Outputs:
    """The axis of a place is not negative; that of a single number is the first one."""
    if not extents(required(node)):
        return op.const(np.zeros((), "int64"))
    axis = axis_of(node, 0)
    if axis == node.attributes.get_int("axis", 0):
        return None
    return op.again(node, required(node), axis=axis)


@rule("TopK")
def top(node: ir.Node, op: Builder) -> Outputs:
    """The count is a constant input, and the largest or smallest elements are in order."""
    value, axis = required(node), axis_of(node, -1)
    given = require_constant(node, 1, "a count")
    count = node.attributes.get_int("k", 0) if given is None else int(given.item())
    largest = node.attributes.get_int("largest", 1)
    told = [node.attributes.get_int(name, -1) for name in ("axis", "largest", "sorted")]
    if given is not None and told == [axis, largest, 1]:
        return None
    how = {"axis": axis, "largest": largest, "sorted": 1}
    return op.ops("TopK", value, op.const([count], "int64"), count=2, **how)


@rule("CumSum")
def cumulative_sum(node: ir.Node, op: Builder) -> Outputs:
    """The axis is a constant of no axes, and not negative."""
    value, given = required(node), require_constant(node, 1, "an axis")
    assert given is not None
    axis = nonnegative(int(given.item()), rank_of(value))
    if given.ndim == 0 and given.dtype == np.int64 and axis == int(given):
        return None
    return op.again(node, value, op.const(np.array(axis)))


@rule("CumProd")
def cumulative_product(node: ir.Node, op: Builder) -> Outputs:
    """Products up to each place are products of twice as many elements each time."""
    value, given = required(node), require_constant(node, 1, "an axis")
    assert given is not None
    axis = nonnegative(int(given.item()), rank_of(value))
    one = op.const(1, dtype_of(value))

    def moved(value: ir.Value, steps: int) -> ir.Value:
        """Elements some steps further on along the axis, of which the last ones are left out."""
        pads = np.zeros((2, rank_of(required(node))), "int64")
        pads[:, axis] = (
            (-steps, steps) if node.attributes.get_int("reverse", 0) else (steps, -steps)
        )
        return op.op("Pad", value, op.const(pads.ravel()), one, mode="constant")

    made = moved(value, 1) if node.attributes.get_int("exclusive", 0) else value
    steps = 1
    while steps < extents(value)[axis]:
        made, steps = op.op("Mul", made, moved(made, steps)), 2 * steps
    return made


@rule("Trilu")
def triangle(node: ir.Node, op: Builder) -> Outputs:
    """The diagonal is a constant of no axes; one that the run tells is compared with all places."""
    value, told = required(node), optional(node, 1)
    diagonal = np.array(0) if told is None else constant(told)
    if diagonal is None:
        return _masked(node, op)
    if told is not None and diagonal.ndim == 0:
        return None
    return op.again(node, value, op.const(diagonal.reshape(())))


def _masked(node: ir.Node, op: Builder) -> ir.Value:
    """Elements on one side of a diagonal that the run tells."""
    value, diagonal = required(node), required(node, 1)
    rows, columns = extents(value)[-2:]
    distances = op.const(np.arange(columns) - np.arange(rows)[:, None])
    upper = node.attributes.get_int("upper", 1)
    taken = op.op("GreaterOrEqual" if upper else "LessOrEqual", distances, diagonal)
    return op.op("Where", taken, value, op.const(np.zeros((), dtype_of(value))))
