"""Rules for element-wise operators: two operands each, and none that does nothing."""

from __future__ import annotations

from functools import reduce

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, optional, required

__all__ = ["cast", "cast_like", "clip", "gemm", "is_infinite", "of_two", "prelu"]

_BY_INPUT = 11
"""The opset from which the bounds are inputs."""


@rule("Max", "Mean", "Min", "Sum")
def of_two(node: ir.Node, op: Builder) -> Outputs:
    """Operators of many inputs are chains of those of two, from the first input on."""
    values = [value for value in node.inputs if value is not None]
    kind = node.op_type if node.op_type in ("Max", "Min") else "Add"
    if len(values) == 2 and kind == node.op_type:
        return None
    made = reduce(lambda left, right: op.op(kind, left, right), values)
    if node.op_type != "Mean" or len(values) == 1:
        return made
    return op.op("Div", made, op.const(np.array(len(values), dtype_of(values[0]))))


@rule("Cast")
def cast(node: ir.Node, op: Builder) -> Outputs:
    """A value that has the wanted type is left as it is; bfloat16 is float32 of fewer bits."""
    value, wanted = required(node), node.attributes["to"].as_int()
    if wanted == ir.DataType.BFLOAT16:
        return _rounded(op.op("Cast", value, to=ir.DataType.FLOAT), op)
    return value if value.dtype == wanted else None


def _rounded(value: ir.Value, op: Builder) -> ir.Value:
    """Numbers of float32 rounded to those of bfloat16, which are the even ones of two as near."""

    def bits(value: ir.Value, to: ir.DataType) -> ir.Value:
        node = ir.node("BitCast", [value], {"to": to}, version=_BITS)
        return op.add(node)[0]

    half, one, kept = (op.const(each, "uint32") for each in (0x7FFF, 1, 0xFFFF0000))
    whole = bits(value, ir.DataType.UINT32)
    upper = op.op("BitShift", whole, op.const(16, "uint32"), direction="RIGHT")
    odd = op.op("BitwiseAnd", upper, one)
    more = op.op("Add", whole, op.op("Add", half, odd))
    made = bits(op.op("BitwiseAnd", more, kept), ir.DataType.FLOAT)
    return op.op("Where", op.op("IsNaN", value), value, made)


_BITS = 26
"""The opset from which bits can be taken for another type."""


@rule("CastLike")
def cast_like(node: ir.Node, op: Builder) -> Outputs:
    """The wanted type is known."""
    wanted = required(node, 1).dtype
    assert wanted is not None
    return op.op("Cast", required(node), to=wanted, saturate=node.attributes.get_int("saturate", 1))


@rule("IsInf")
def is_infinite(node: ir.Node, op: Builder) -> Outputs:
    """A test for one infinity is a comparison with it."""
    value = required(node)
    signs = [node.attributes.get_int(f"detect_{sign}", 1) for sign in ("negative", "positive")]
    if all(signs):
        return None
    if not any(signs):
        return op.op("Expand", op.const(np.array(False)), op.const(extents(value), "int64"))
    bound = -np.inf if signs[0] else np.inf
    return op.op("Equal", value, op.const(np.array(bound, dtype_of(value))))


@rule("PRelu")
def prelu(node: ir.Node, op: Builder) -> Outputs:
    """A slope below zero is a choice between two values."""
    value, slope = required(node), required(node, 1)
    negative = op.op("Less", value, op.const(np.zeros((), dtype_of(value))))
    return op.op("Where", negative, op.op("Mul", value, slope), value)


@rule("Gemm")
def gemm(node: ir.Node, op: Builder) -> Outputs:
    """A product of two matrices, of which one is transposed or not, with what is added to it."""
    left, right = (
        op.transpose(required(node, place), (1, 0))
        if node.attributes.get_int(name, 0)
        else required(node, place)
        for place, name in enumerate(("transA", "transB"))
    )
    made = _times(node, "alpha", op.op("MatMul", left, right), op)
    added = optional(node, 2)
    return made if added is None else op.op("Add", made, _times(node, "beta", added, op))


def _times(node: ir.Node, name: str, value: ir.Value, op: Builder) -> ir.Value:
    """A value times the factor that an attribute of a node has."""
    factor, dtype = node.attributes.get_float(name, 1.0), dtype_of(required(node))
    if factor == 1:
        return value
    if dtype.kind in "iu" and not factor.is_integer():
        raise ModelError(f"has {name}={factor} for whole numbers; give a whole one")
    return op.op("Mul", value, op.const(np.array(factor, dtype)))


@rule("Clip")
def clip(node: ir.Node, op: Builder) -> Outputs:
    """Two constant bounds stay; one is a maximum or a minimum, as are those that the run tells."""
    value, low, high = required(node), optional(node, 1), optional(node, 2)
    if (node.version or 0) < _BY_INPUT:
        bounds = [node.attributes.get_float(name) for name in ("min", "max")]
        with np.errstate(over="ignore"):  # the usual bounds are infinite in 16 bits
            numbers = np.array(bounds).astype(dtype_of(value))
        return op.op("Clip", value, *(op.const(each) for each in numbers))
    lowest, highest = constant(low), constant(high)
    if lowest is not None and highest is not None and lowest <= highest:
        return None
    value = value if low is None else op.op("Max", value, low)
    return value if high is None else op.op("Min", value, high)
