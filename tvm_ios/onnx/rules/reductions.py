"""Rules for reductions: over axes that they all say, and by sums where these can say it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import nonnegative, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import dtype_of, extents, require_constant, required

__all__ = [
    "axes",
]

_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)


_COMPOSED = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
"""Reductions that are a sum with something done before and behind it."""


@rule(*_REDUCTIONS)
def axes(node: ir.Node, op: Builder) -> Outputs:
    """Axes are a constant input, in order, none of them negative; norms are sums."""
    value = required(node)
    rank = rank_of(value)
    as_attribute = node.attributes.get_ints("axes", None)
    given = require_constant(node, 1, "axes")
    said = tuple(as_attribute or ()) if given is None else tuple(map(int, given.ravel()))
    if not said and node.attributes.get_int("noop_with_empty_axes", 0) == 1:
        return _alone(node, op)
    if "Log" in node.op_type and dtype_of(value).kind in "iu":
        raise ModelError("takes logarithms of whole numbers; cast them to float32 before")
    wanted = sorted({nonnegative(axis, rank) for axis in said}) or list(range(rank))
    keepdims = node.attributes.get_int("keepdims", 1)
    if node.op_type in _COMPOSED:
        return _composed(node, wanted, keepdims, op)
    if given is not None and list(said) == wanted:
        return None
    return op.op(node.op_type, value, op.const(wanted, "int64"), keepdims=keepdims)


def _composed(node: ir.Node, axes: list[int], keepdims: int, op: Builder) -> ir.Value:
    """A norm or logarithm as a sum."""
    value, along = required(node), op.const(axes, "int64")
    if node.op_type == "ReduceLogSumExp":
        return _logarithm_of_exponentials(value, axes, keepdims, op)
    if node.op_type in ("ReduceL2", "ReduceSumSquare"):
        value = op.op("Mul", value, value)
    elif node.op_type == "ReduceL1":
        value = op.op("Abs", value)
    made = op.op("ReduceSum", value, along, keepdims=keepdims)
    if node.op_type == "ReduceL2":
        return _root(node, made, op)
    return op.op("Log", made) if node.op_type == "ReduceLogSum" else made


def _root(node: ir.Node, value: ir.Value, op: Builder) -> ir.Value:
    """A square root, also of whole numbers, which is cut off to a whole one."""
    dtype = dtype_of(required(node))
    if dtype.kind not in "iu":
        return op.op("Sqrt", value)
    root = op.op("Sqrt", op.op("Cast", value, to=ir.DataType.DOUBLE))
    return op.op("Cast", root, to=ir.DataType.from_numpy(dtype))


def _logarithm_of_exponentials(
    value: ir.Value, axes: list[int], keepdims: int, op: Builder
) -> ir.Value:
    """The logarithm of a sum of exponentials, none of which overflows.

    The greatest number goes in front of the sum, where it is finite.
    """
    dtype = dtype_of(value)
    along, zero = op.const(axes, "int64"), op.const(np.zeros((), dtype))
    most = op.op("ReduceMax", value, along, keepdims=1)
    most = op.op("Where", op.op("IsInf", most), zero, most)
    total = op.op("ReduceSum", op.op("Exp", op.op("Sub", value, most)), along, keepdims=1)
    made = op.op("Add", op.op("Log", total), most)
    if keepdims:
        return made
    shape = extents(value)
    return op.reshape(made, [shape[axis] for axis in range(len(shape)) if axis not in axes])


def _alone(node: ir.Node, op: Builder) -> Outputs:
    """A reduction over no axis, which is of each element by itself."""
    value = required(node)
    if node.op_type in ("ReduceL1", "ReduceL2"):
        return op.op("Abs", value)
    if node.op_type == "ReduceSumSquare":
        return op.op("Mul", value, value)
    if node.op_type == "ReduceLogSum":
        return op.op("Log", value)
    return value
