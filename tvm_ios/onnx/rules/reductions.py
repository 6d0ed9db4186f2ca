"""Rules for reductions: over all the axes that they say, which none says by leaving them out."""

from __future__ import annotations

import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import extents, require_constant, required

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


@rule(*_REDUCTIONS)
def axes(node: ir.Node, op: Builder) -> Outputs:
    """Axes are a constant input, in order, none of them negative."""
    value = required(node)
    rank = len(extents(value))
    as_attribute = node.attributes.get_ints("axes", None)
    given = require_constant(node, 1, "axes")
    said = tuple(as_attribute or ()) if given is None else tuple(map(int, given.ravel()))
    if not said and node.attributes.get_int("noop_with_empty_axes", 0) == 1:
        return _alone(node, op)
    wanted = sorted({axis % rank for axis in said}) or list(range(rank))
    if given is not None and list(said) == wanted:
        return None
    keepdims = node.attributes.get_int("keepdims", 1)
    return op.op(node.op_type, value, op.const(wanted, "int64"), keepdims=keepdims)


def _alone(node: ir.Node, op: Builder) -> Outputs:
    """A reduction over no axis, which is of each element by itself."""
    value = node.inputs[0]
    if node.op_type in ("ReduceL1", "ReduceL2"):
        return op.op("Abs", value)
    if node.op_type == "ReduceSumSquare":
        return op.op("Mul", value, value)
    if node.op_type == "ReduceLogSum":
        return op.op("Log", value)
    return value
