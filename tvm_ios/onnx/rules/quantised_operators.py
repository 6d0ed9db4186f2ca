"""Rules for operators on quantised numbers: between steps to numbers and back, those on numbers.

The standard has two of them, onnxruntime has more (``com.microsoft``). Results may differ from
theirs by one quantum, where a sum lies in the middle of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import MICROSOFT, Outputs, rule
from tvm_ios.onnx.rules.quantisation import dequantised
from tvm_ios.onnx.values import dtype_of, extents, optional, required

__all__ = [
    "average",
    "choice",
    "concat",
    "conv",
    "gemm",
    "matmul",
    "of_one",
    "of_two",
    "softmax",
]


def _number(op: Builder, node: ir.Node, place: int, axis: int = 0) -> ir.Value:
    """The number that a quantised input stands for; scale and zero point are the next inputs."""
    value, scale = required(node, place), required(node, place + 1)
    zero = optional(node, place + 2)
    if zero is None:
        zero = op.const(np.zeros(extents(scale), dtype_of(value)))
    if len(extents(scale)) > 1:
        return dequantised(op, value, _wide(op, scale), zero, ir.DataType.FLOAT)
    return op.op("DequantizeLinear", value, _wide(op, scale), zero, axis=axis)


def _whole(op: Builder, node: ir.Node, value: ir.Value, place: int) -> ir.Value:
    """Whole numbers for numbers; scale and zero point are the inputs from ``place`` on."""
    scale, zero = _wide(op, required(node, place)), optional(node, place + 1)
    if zero is None:
        zero = op.const(np.zeros((), dtype_of(required(node))))
    return op.op("QuantizeLinear", value, scale, zero, axis=0)


def _wide(op: Builder, scale: ir.Value) -> ir.Value:
    """A scale in float32: sums of what half precision scales would be no whole numbers."""
    if dtype_of(scale) == np.float32:
        return scale
    return op.op("Cast", scale, to=ir.DataType.FLOAT)


@rule("QLinearConv")
def conv(node: ir.Node, op: Builder) -> Outputs:
    """A convolution, whose bias is of the scale of products."""
    inputs = [_number(op, node, 0), _number(op, node, 3)]
    bias = optional(node, 8)
    if bias is not None:
        scales = required(node, 1), required(node, 4)
        shape = np.broadcast_shapes(*map(extents, scales))
        scale, zero = op.op("Mul", *scales), op.const(np.zeros(shape, "int32"))
        inputs.append(op.op("DequantizeLinear", bias, scale, zero, axis=0))
    return _whole(op, node, op.op("Conv", *inputs, **node.attributes), 6)


@rule("QLinearMatMul")
def matmul(node: ir.Node, op: Builder) -> Outputs:
    """A product of matrices, of which rows or columns may have scales."""
    ranks = [len(extents(required(node, place))) for place in (0, 3)]
    left = _number(op, node, 0, max(ranks[0] - 2, 0))
    right = _number(op, node, 3, ranks[1] - 1)
    return _whole(op, node, op.op("MatMul", left, right), 6)


@rule(f"{MICROSOFT}.QGemm")
def gemm(node: ir.Node, op: Builder) -> Outputs:
    """A product of two matrices and what is added to it; floating point without a scale."""
    if len(extents(required(node, 4))) == 1 and np.prod(extents(required(node, 4))) > 1:
        axis = 0 if node.attributes.get_int("transB", 0) else 1
    else:
        axis = 0
    names = ("alpha", "transA", "transB")
    attributes = {name: node.attributes[name] for name in names if name in node.attributes}
    inputs = [_number(op, node, 0), _number(op, node, 3, axis)]
    bias = optional(node, 6)
    if bias is not None:
        scale = op.op("Mul", required(node, 1), required(node, 4))
        scale = op.op("Mul", scale, op.const(node.attributes.get_float("alpha", 1.0), "float32"))
        inputs.append(op.op("Mul", op.op("Cast", bias, to=ir.DataType.FLOAT), scale))
    made = op.op("Gemm", *inputs, **attributes)
    return made if optional(node, 7) is None else _whole(op, node, made, 7)


@rule(f"{MICROSOFT}.QLinearAdd", f"{MICROSOFT}.QLinearMul")
def of_two(node: ir.Node, op: Builder) -> Outputs:
    """A sum or a product, element by element."""
    kind = node.op_type.removeprefix("QLinear")
    return _whole(op, node, op.op(kind, _number(op, node, 0), _number(op, node, 3)), 6)


@rule(f"{MICROSOFT}.QLinearWhere")
def choice(node: ir.Node, op: Builder) -> Outputs:
    """Whole numbers of one tensor or another, as a condition says for each."""
    made = op.op("Where", required(node), _number(op, node, 1), _number(op, node, 4))
    return _whole(op, node, made, 7)


@rule(f"{MICROSOFT}.QLinearLeakyRelu", f"{MICROSOFT}.QLinearSigmoid")
def of_one(node: ir.Node, op: Builder) -> Outputs:
    """Activations of one number."""
    kind = node.op_type.removeprefix("QLinear")
    return _whole(op, node, op.op(kind, _number(op, node, 0), **node.attributes), 3)


@rule(f"{MICROSOFT}.QLinearSoftmax")
def softmax(node: ir.Node, op: Builder) -> Outputs:
    """A softmax as it was in the opset that an attribute says."""
    opset = node.attributes.get_int("opset", 0)
    if not opset:
        raise ModelError("says no opset, by which its axis means one or several; give it")
    attributes = {"axis": node.attributes.get_int("axis", -1 if opset >= _ONE_AXIS else 1)}
    inner = ir.node("Softmax", [_number(op, node, 0)], attributes, version=opset)
    (made,) = op.add(inner)
    return _whole(op, node, made, 3)


_ONE_AXIS = 13
"""The opset from which a softmax is along one axis."""


@rule(f"{MICROSOFT}.QLinearConcat")
def concat(node: ir.Node, op: Builder) -> Outputs:
    """Tensors one behind the other, each of its own scale; that of the result is first."""
    parts = [_number(op, node, place) for place in range(2, len(node.inputs), 3)]
    made = op.op("Concat", *parts, axis=node.attributes.get_int("axis", 0))
    return op.op("QuantizeLinear", made, required(node), required(node, 1), axis=0)


@rule(f"{MICROSOFT}.QLinearAveragePool", f"{MICROSOFT}.QLinearGlobalAveragePool")
def average(node: ir.Node, op: Builder) -> Outputs:
    """A pooling of images whose channels are the second axis, or the last one."""
    value, rank = _number(op, node, 0), len(extents(required(node)))
    last = node.attributes.get_int("channels_last", 0)
    if last:
        value = op.transpose(value, [0, rank - 1, *range(1, rank - 1)])
    attributes: dict[str, Any] = {
        name: each for name, each in node.attributes.items() if name != "channels_last"
    }
    made = op.op(node.op_type.removeprefix("QLinear"), value, **attributes)
    if last:
        made = op.transpose(made, [0, *range(2, rank), 1])
    return _whole(op, node, made, 3)
