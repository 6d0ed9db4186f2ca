"""Rules for attention as onnxruntime fuses it (``com.microsoft``): products, masks and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import MICROSOFT, Outputs, rule
from tvm_ios.onnx.values import dtype_of, extents, optional, required

__all__ = ["attention", "attention_of_product", "attention_of_three"]


_Masks: TypeAlias = tuple[ir.Value | None, ir.Value | None]
"""A mask of whole numbers, or what bounds it; and what is added to products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Extents of attention that looks from places of a sequence at those of another one."""

    batch: int
    heads: int
    length: int
    """Places that look at others."""
    before: int
    """Places of the past, with which the others begin."""
    total: int
    """Places that are looked at, with those of the past."""

    def apart(self, value: ir.Value, length: int, width: int, op: Builder) -> ir.Value:
        """Heads side by side as an axis of their own, before the places."""
        shape = [self.batch, length, self.heads, width // self.heads]
        return op.transpose(op.reshape(value, shape), (0, 2, 1, 3))


@rule(f"{MICROSOFT}.Attention")
def attention(node: ir.Node, op: Builder) -> Outputs:
    """Queries, keys and values of one sequence are parts of one product."""
    bias, mask, past, added = (optional(node, place) for place in (2, 3, 4, 5))
    if optional(node, 6) is not None:
        raise ModelError("shares a buffer with the past; export the model unfused")
    made = op.op("MatMul", required(node), required(node, 1))
    made = made if bias is None else op.op("Add", made, bias)
    return attention_of_product(node, op, made, past, dtype_of(required(node)), (mask, added))


def attention_of_product(
    node: ir.Node,
    op: Builder,
    product: ir.Value,
    past: ir.Value | None,
    dtype: np.dtype[Any],
    masks: _Masks,
) -> Outputs:
    """Attention of queries, keys and values that are parts of a product, and what comes to be past.

    The first two inputs of the node are the sequence and the weights of the product.
    """
    if node.attributes.get_int("do_rotary", 0):
        raise ModelError("turns its inputs (do_rotary); export the model unfused")
    batch, length, _ = extents(required(node))
    heads = node.attributes["num_heads"].as_int()
    before = 0 if past is None else extents(past)[3]
    of = _Places(batch=batch, heads=heads, length=length, before=before, total=before + length)
    third = extents(required(node, 1))[1] // 3
    widths = list(node.attributes.get_ints("qkv_hidden_sizes", [third] * 3))
    parts = op.ops("Split", product, op.const(widths), count=3, axis=2)
    query, *seen = (
        of.apart(part, length, width, op) for part, width in zip(parts, widths, strict=True)
    )
    if past is not None:
        olds = (op.op("Gather", past, op.const(place), axis=0) for place in (0, 1))
        seen = [op.op("Concat", *pair, axis=2) for pair in zip(olds, seen, strict=True)]
    found = _mixed(node, op, of, [query, *seen], widths[1:], dtype, masks)
    if len(node.outputs) == 1:
        return found
    stacked = (op.op("Unsqueeze", each, op.const([0])) for each in seen)
    return [found, op.op("Concat", *stacked, axis=0)]


@rule(f"{MICROSOFT}.MultiHeadAttention")
def attention_of_three(node: ir.Node, op: Builder) -> Outputs:
    """Queries, keys and values are given; the last two may have their heads apart already."""
    query, key, value = (optional(node, place) for place in (0, 1, 2))
    bias, *olds = (optional(node, place) for place in (3, 6, 7))
    shares = any(optional(node, place) is not None for place in (8, 9))
    if query is None or key is None or value is None or shares or len(node.outputs) > 3:
        raise ModelError("has its inputs packed, or shares a buffer; export the model unfused")
    heads, (batch, length, width) = node.attributes["num_heads"].as_int(), extents(query)
    split, shape = len(extents(key)) == 4, extents(value)
    places, last = (shape[2], shape[3] * heads) if split else shape[1:]
    before = 0 if olds[0] is None else extents(olds[0])[2]
    of = _Places(batch=batch, heads=heads, length=length, before=before, total=before + places)
    given, widths = [query, key, value], [width, width, last]
    if bias is not None:  # which is not added to heads that are apart
        parts = op.ops("Split", bias, op.const(widths), count=3, axis=0)
        count = 1 if split else 3
        given[:count] = [op.op("Add", *pair) for pair in zip(given[:count], parts, strict=False)]
    lengths = (length, places, places)
    made = [
        each if split and each is not given[0] else of.apart(each, extent, size, op)
        for each, extent, size in zip(given, lengths, widths, strict=True)
    ]
    seen = [
        each if old is None else op.op("Concat", old, each, axis=2)
        for old, each in zip(olds, made[1:], strict=True)
    ]
    masks = optional(node, 4), optional(node, 5)
    found = _mixed(node, op, of, [made[0], *seen], widths[1:], dtype_of(query), masks)
    return [found, *seen][: len(node.outputs)]


def _mixed(
    node: ir.Node,
    op: Builder,
    of: _Places,
    parts: Sequence[ir.Value],
    widths: Sequence[int],
    dtype: np.dtype[Any],
    masks: _Masks,
) -> ir.Value:
    """Values mixed by a softmax of products of queries and keys; ``parts`` are all three.

    ``widths`` are those of keys and of values, with all of their heads.
    """
    query, key, value = parts
    mask, added = masks
    width, last = widths
    scale = node.attributes.get_float("scale", 0.0) or 1 / math.sqrt(width // of.heads)
    scores = op.op("MatMul", query, op.transpose(key, (0, 1, 3, 2)))
    scores = op.op("Mul", scores, op.const(scale, dtype))
    if mask is not None:
        least = node.attributes.get_float("mask_filter_value", -10000.0)
        zero, low = (op.const(each, dtype) for each in (0, least))
        scores = op.op("Add", scores, op.op("Where", _seen(mask, of, op), zero, low))
    if node.attributes.get_int("unidirectional", 0):
        if of.total != of.before + of.length:
            raise ModelError("looks at the past of another sequence; give a mask (attention_bias)")
        later = np.arange(of.total) > np.arange(of.length)[:, None] + of.before
        scores = op.op("Where", op.const(later), op.const(np.finfo(dtype).min, dtype), scores)
    scores = scores if added is None else op.op("Add", scores, added)
    made = op.op("MatMul", op.op("Softmax", scores, axis=3), value)
    return op.reshape(op.transpose(made, (0, 2, 1, 3)), [of.batch, of.length, last])


def _seen(mask: ir.Value, of: _Places, op: Builder) -> ir.Value:
    """Whether places are looked at: where a mask is not zero, or before an end and from a begin."""
    shape, dtype = extents(mask), dtype_of(mask)
    if shape in ((of.batch,), (2 * of.batch,)):
        bounds = op.reshape(mask, [shape[0] // of.batch, of.batch, 1, 1, 1])
        end = op.op("Gather", bounds, op.const(0), axis=0)
        places = op.const(np.arange(of.total), dtype)
        inside = op.op("Less", places, end)
        if shape[0] == of.batch:
            return inside
        begin = op.op("Gather", bounds, op.const(1), axis=0)
        return op.op("And", inside, op.op("GreaterOrEqual", places, begin))
    if shape not in ((of.batch, of.total), (of.batch, of.length, of.total)):
        raise ModelError(
            f"has a mask of shape {list(shape)}; give one of zeros and ones, {[of.batch, of.total]}"
        )
    wide = op.reshape(mask, [of.batch, 1, 1 if len(shape) == 2 else of.length, of.total])
    return op.op("Greater", wide, op.const(0, dtype))
