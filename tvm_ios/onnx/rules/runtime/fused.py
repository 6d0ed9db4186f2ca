"""Rules for operators that onnxruntime fuses (``com.microsoft``): what they are fused from."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import MICROSOFT, Outputs, rule
from tvm_ios.onnx.values import dtype_of, extents, optional, required

__all__ = [
    "conv",
    "embed_layer_norm",
    "gelu",
    "gemm",
    "matmul",
    "quick_gelu",
    "root_mean_square_norm",
    "rotary_embedding",
    "skip_layer_norm",
    "standard",
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
    """A product of matrices, transposed and scaled; rows may come before the axes of batches."""
    given = node.attributes
    inputs = []
    for place, side in enumerate("AB"):
        value = required(node, place)
        rank = len(extents(value))
        if given.get_int(f"transBatch{side}", 0):
            value = op.transpose(value, [*range(1, rank - 1), 0, rank - 1])
        if given.get_int(f"trans{side}", 0) and rank > 1:
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


@rule(f"{MICROSOFT}.SimplifiedLayerNormalization")
def root_mean_square_norm(node: ir.Node, op: Builder) -> Outputs:
    """The norm that opset 23 has by another name."""
    kept = {name: node.attributes[name] for name in ("axis", "epsilon") if name in node.attributes}
    return [op.op("RMSNormalization", *node.inputs, **kept)]


@rule(f"{MICROSOFT}.SkipLayerNormalization", f"{MICROSOFT}.SkipSimplifiedLayerNormalization")
def skip_layer_norm(node: ir.Node, op: Builder) -> Outputs:
    """A norm of a sum, which is the last output."""
    simple = "Simplified" in node.op_type
    value, skip, scale, *offset = (optional(node, place) for place in range(3 if simple else 4))
    bias = optional(node, 3 if simple else 4)
    total = op.op("Add", value, skip)
    total = total if bias is None else op.op("Add", total, bias)
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    kind = "RMSNormalization" if simple else "LayerNormalization"
    inputs = [total, scale, *(each for each in offset if each is not None)]
    return [op.op(kind, *inputs, axis=-1, epsilon=epsilon), None, None, total][: len(node.outputs)]


@rule(f"{MICROSOFT}.EmbedLayerNormalization")
def embed_layer_norm(node: ir.Node, op: Builder) -> Outputs:
    """A layer norm of the sum of embeddings of words, places and segments."""
    words, segments, mask, places = (optional(node, place) for place in (0, 1, 7, 8))
    table, table_of_places, table_of_segments = (optional(node, place) for place in (2, 3, 4))
    total = op.op("Gather", table, words, axis=0)
    if places is None:
        places = op.const(np.arange(extents(required(node))[1]))
    total = op.op("Add", total, op.op("Gather", table_of_places, places, axis=0))
    if segments is not None and table_of_segments is not None:
        total = op.op("Add", total, op.op("Gather", table_of_segments, segments, axis=0))
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    made = op.op("LayerNormalization", total, *node.inputs[5:7], axis=-1, epsilon=epsilon)
    count = op.const(np.zeros(extents(required(node))[:1], "int32"))
    if mask is not None:
        seen = op.op("Cast", op.op("Equal", mask, op.const(1, "int32")), to=ir.DataType.INT32)
        count = op.op("ReduceSum", seen, op.const([1]), keepdims=0)
    return [made, count, total][: len(node.outputs)]


@rule(f"{MICROSOFT}.RotaryEmbedding")
def rotary_embedding(node: ir.Node, op: Builder) -> Outputs:
    """Parts that are turned by their places, which may be told by the first of them alone."""
    value, places, *tables = (required(node, place) for place in range(4))
    given, shape = node.attributes, extents(value)
    if given.get_int("is_packed_batching", 0) or given.get_float("scale", 1.0) != 1:
        raise ModelError("has a scale, or sequences side by side; export the model unfused")
    batch, length = shape[0], shape[-2]
    if len(extents(places)) == 1:
        places = op.op("Add", places, op.const(np.arange(length)))
        places = op.op("Expand", places, op.const([batch, length]))
    turned = given.get_int("rotary_embedding_dim", 0)
    heads = given.get_int("num_heads", 0) if turned else shape[-1] // (2 * extents(tables[0])[1])
    return op.op(
        "RotaryEmbedding",
        value,
        *tables,
        places,
        interleaved=given.get_int("interleaved", 0),
        num_heads=heads if len(shape) == 3 else 0,
        rotary_embedding_dim=turned,
    )


_STANDARD = (
    "DequantizeLinear",
    "GatherND",
    "GridSample",
    "LayerNormalization",
    "QuantizeLinear",
    "Trilu",
)


@rule(*(f"{MICROSOFT}.{name}" for name in _STANDARD))
def standard(node: ir.Node, op: Builder) -> Outputs:
    """An operator that ONNX has as well, in its normal form or in an older one."""
    count = len(node.outputs)
    return op.ops(node.op_type, *node.inputs, count=count, **node.attributes)
