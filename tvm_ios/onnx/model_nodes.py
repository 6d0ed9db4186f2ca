"""Nodes of an ONNX model in its normal form, with their operations and bytes."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from math import prod

import onnx_ir as ir

from tvm_ios.core.fusing import ModelNode, NodeRole
from tvm_ios.onnx.values import extents, is_static

__all__ = ["model_nodes"]

_VIEWS = frozenset({"Concat", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze"})
_MOVES = _VIEWS | frozenset(
    {"Cast", "Expand", "Gather", "GatherElements", "GatherND", "Pad", "Tile", "Transpose", "Trilu"}
)
"""Operators that move data and compute nothing."""
_ELEMENT_WISE = re.compile(
    "Abs|Acosh?|Add|And|Asinh?|Atanh?|BatchNormalization|BitShift|Bitwise(And|Not|Or|Xor)|Cast|Ceil"
    "|Celu|Clip|Cosh?|DequantizeLinear|Div|Elu|Equal|Erf|Exp|Floor|Gelu|Greater(OrEqual)?"
    "|HardSigmoid|HardSwish|IsInf|IsNaN|LeakyRelu|Less(OrEqual)?|Log|Max|Min|Mish|Mod|Mul|Neg|Not|Or"
    "|PRelu|Pow|QuantizeLinear|Reciprocal|Relu|Round|Selu|Shrink|Sigmoid|Sign|Sinh?|Softplus"
    "|Softsign|Sqrt|Sub|Tanh?|ThresholdedRelu|Where|Xor"
)
_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_CONVOLUTIONS = frozenset({"Conv", "ConvInteger"})


def model_nodes(model: ir.Model) -> tuple[ModelNode, ...]:
    """Nodes of a model in its normal form, in order; what is not in it counts with its bytes.

    Nodes that depend on no input are constants, and left out: weights in int8 are not folded.
    """
    given = set(model.graph.inputs)
    number: dict[ir.Node, int] = {}
    for node in model.graph:
        if any(value in given or value.producer() in number for value in node.inputs if value):
            number[node] = len(number)
    return tuple(_described(node, number) for node in number)


def _described(node: ir.Node, number: Mapping[ir.Node, int]) -> ModelNode:
    read = [value for value in node.inputs if value is not None]
    makers = [(value, value.producer()) for value in read]
    made = {value: number[maker] for value, maker in makers if maker and maker in number}
    return ModelNode(
        kind=node.op_type,
        role=_role(node),
        inputs={place: _bytes(value) for value, place in made.items()},
        flops=_flops(node),
        own_bytes=sum(_bytes(value) for value in read if value not in made),
        output_bytes=sum(map(_bytes, node.outputs)),
        output_elements=max(map(_elements, node.outputs), default=0),
        whole=_is_whole(node, made),
        is_output=any(value.is_graph_output() for value in node.outputs),
    )


def _is_whole(node: ir.Node, made: Container[ir.Value]) -> bool:
    """True for a product of whole numbers by constants, which are those of a quantised model."""
    if node.op_type not in _PRODUCTS:
        return False
    data, weight = node.inputs[:2]
    maker = None if data is None else data.producer()
    whole = maker is not None and maker.op_type == "DequantizeLinear" and data in made
    return whole and weight not in made


def _role(node: ir.Node) -> NodeRole:
    if node.op_type in _VIEWS:
        return NodeRole.VIEW
    return NodeRole.FOLLOWS if _ELEMENT_WISE.fullmatch(node.op_type) else NodeRole.COMPUTES


def _flops(node: ir.Node) -> int:
    """Operations of a node: two a multiply-add, one an element where nothing more is known."""
    made = sum(map(_elements, node.outputs))
    read = [
        () if value is None or not is_static(value) else extents(value) for value in node.inputs
    ]
    if node.op_type in _MOVES or not made or not read or not read[0]:
        return 0
    match node.op_type:
        case name if name in _CONVOLUTIONS:
            return 2 * made * prod(read[1][1:])
        case "ConvTranspose":
            return 2 * prod(read[0]) * prod(read[1][1:])
        case "MatMul" | "MatMulInteger" | "Gemm":
            return 2 * made * read[0][-1]
        case name if name in _POOLS:
            return made * prod(node.attributes.get_ints("kernel_shape", ()))
    return max(made, prod(read[0]))


def _elements(value: ir.Value) -> int:
    """Number of elements of a value; 0 where only the run tells."""
    return prod(extents(value)) if is_static(value) else 0


def _bytes(value: ir.Value) -> int:
    return 0 if value.dtype is None else int(_elements(value) * value.dtype.itemsize)
