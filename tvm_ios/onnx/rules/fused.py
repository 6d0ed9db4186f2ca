"""Rules for operators that onnxruntime fuses (``com.microsoft``): what they are fused from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.quantised_operators import MICROSOFT
from tvm_ios.onnx.values import dtype_of, extents, optional, required

__all__ = [
    "attention",
    "conv",
    "gelu",
    "gemm",
    "matmul",
    "quick_gelu",
    "skip_layer_norm",
]

_PLAIN = ("Relu", "Sigmoid", "Tanh")
_ONE = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}


def _activated(op: Builder, node: ir.Node, value: ir.Value, numbers: tuple[float, ...]) -> ir.Value:
    """The activation that a fused node names, by its numbers."""
    name = node.attributes.get_string("activation", "Relu")
    if name in _PLAIN:
        return op.op(name, value)
    if name in _ONE:
        return op.op(name, value, **dict(zip(_ONE[name], numbers, strict=False)))
    if name == "Clip":
        bounds = (op.const(each, dtype_of(required(node))) for each in numbers)
        return op.op("Clip", value, *bounds)
    raise ModelError(f"has the activation {name}, which is not known")


@rule(f"{MICROSOFT}.FusedConv")
def conv(node: ir.Node, op: Builder) -> Outputs:
    """A convolution, what is added to it, and an activation."""
    kept = {
        name: each for name, each in node.attributes.items() if not name.startswith("activation")
    }
    made = op.op("Conv", *node.inputs[:3], **kept)
    added = optional(node, 3)
    made = made if added is None else op.op("Add", made, added)
    numbers = tuple(node.attributes.get_floats("activation_params", ()))
    return _activated(op, node, made, numbers)


@rule(f"{MICROSOFT}.FusedGemm")
def gemm(node: ir.Node, op: Builder) -> Outputs:
    """A product of two matrices, what is added to it, and an activation."""
    names = ("alpha", "beta", "transA", "transB")
    kept = {name: node.attributes[name] for name in names if name in node.attributes}
    made = op.op("Gemm", *node.inputs, **kept)
    given = node.attributes
    numbers = (given.get_float("activation_alpha", 0.0), given.get_float("activation_beta", 0.0))
    return _activated(op, node, made, numbers)


@rule(f"{MICROSOFT}.FusedMatMul", f"{MICROSOFT}.TransposeMatMul")
def matmul(node: ir.Node, op: Builder) -> Outputs:
    """A product of matrices, transposed and scaled."""
    given = node.attributes
    if given.get_int("transBatchA", 0) or given.get_int("transBatchB", 0):
        raise ModelError("transposes batches (transBatchA or transBatchB); give a Transpose before")
    inputs = []
    for place, name in enumerate(("transA", "transB")):
        value = required(node, place)
        rank = len(extents(value))
        if given.get_int(name, 0) and rank > 1:
            value = op.transpose(value, [*range(rank - 2), rank - 1, rank - 2])
        inputs.append(value)
    made = op.op("MatMul", *inputs)
    alpha = node.attributes.get_float("alpha", 1.0)
    return made if alpha == 1 else op.op("Mul", made, op.const(alpha, dtype_of(required(node))))


@rule(f"{MICROSOFT}.Gelu", f"{MICROSOFT}.BiasGelu", f"{MICROSOFT}.FastGelu")
def gelu(node: ir.Node, op: Builder) -> Outputs:
    """A GELU, of a sum or of one value."""
    value, bias = required(node), optional(node, 1)
    value = value if bias is None else op.op("Add", value, bias)
    near = "tanh" if node.op_type == "FastGelu" else "none"
    return op.op("Gelu", value, approximate=near)


@rule(f"{MICROSOFT}.QuickGelu")
def quick_gelu(node: ir.Node, op: Builder) -> Outputs:
    """A value times the sigmoid of its multiple."""
    value = required(node)
    alpha = op.const(node.attributes.get_float("alpha", 1.702), dtype_of(value))
    return op.op("Mul", value, op.op("Sigmoid", op.op("Mul", value, alpha)))


@rule(f"{MICROSOFT}.SkipLayerNormalization")
def skip_layer_norm(node: ir.Node, op: Builder) -> Outputs:
    """A layer norm of a sum, which is the last output."""
    value, skip, scale, offset = (optional(node, place) for place in range(4))
    total = op.op("Add", value, skip)
    bias = optional(node, 4)
    total = total if bias is None else op.op("Add", total, bias)
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    inputs = [total, scale] if offset is None else [total, scale, offset]
    made = op.op("LayerNormalization", *inputs, axis=-1, epsilon=epsilon)
    return [made, None, None, total][: len(node.outputs)]


@rule(f"{MICROSOFT}.Attention")
def attention(node: ir.Node, op: Builder) -> Outputs:
    """Attention of BERT: one product for queries, keys and values, and heads side by side."""
    value, weight, bias = (required(node, place) for place in (0, 1, 2))
    given = node.attributes
    extra = any(each is not None for each in node.inputs[4:]) or len(node.outputs) > 1
    sizes = tuple(given.get_ints("qkv_hidden_sizes", ()))
    if extra or bool(given.get_int("unidirectional", 0)) or len(set(sizes)) > 1:
        raise ModelError("looks at the past, or at more than a mask; export the model unfused")
    heads = given["num_heads"].as_int()
    batch, length, _ = extents(value)
    width = extents(weight)[1] // 3
    made = op.op("Add", op.op("MatMul", value, weight), bias)
    parts = op.ops("Split", made, op.const([width] * 3), count=3, axis=2)
    split = [op.reshape(part, [batch, length, heads, width // heads]) for part in parts]
    query, key, values = (
        op.transpose(part, order)
        for part, order in zip(split, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    scale = given.get_float("scale", 0.0) or 1 / math.sqrt(width // heads)
    dtype = dtype_of(value)
    scores = op.op("Mul", op.op("MatMul", query, key), op.const(scale, dtype))
    mask = optional(node, 3)
    if mask is not None:
        scores = op.op("Add", scores, _hidden(op, node, mask, dtype))
    made = op.op("MatMul", op.op("Softmax", scores, axis=3), values)
    return op.reshape(op.transpose(made, (0, 2, 1, 3)), [batch, length, width])


def _hidden(op: Builder, node: ir.Node, mask: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
    """Summand of scores: a large negative number where the mask of a sequence is zero."""
    batch, length, _ = extents(required(node))
    if extents(mask) != (batch, length):
        raise ModelError(
            f"has a mask of shape {list(extents(mask))}; give one of zeros and ones, "
            f"{[batch, length]}"
        )
    least = node.attributes.get_float("mask_filter_value", -10000.0)
    zeros, low = (op.const(np.array(each, dtype)) for each in (0, least))
    seen = op.op("Cast", op.reshape(mask, [batch, 1, 1, length]), to=ir.DataType.BOOL)
    return op.op("Where", seen, zeros, low)
