"""Rules for quantisation: every step has a zero point and an axis, and scales are no blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, optional, required

__all__ = [
    "chosen_steps",
    "dequantised",
    "number_of_product",
    "steps",
    "zero_points",
]

_USUAL = np.dtype("uint8")
"""The type of quantised numbers where neither zero point nor attribute tells one."""
_WIDER = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
"""Types of one byte for constants of which a byte holds several."""


@rule("QuantizeLinear", "DequantizeLinear")
def steps(node: ir.Node, op: Builder) -> Outputs:
    """A scale of one number, or with one for each place of an axis; zero points alike."""
    value, scale = required(node), required(node, 1)
    zero = optional(node, 2)
    if zero is None:
        zero = op.const(np.zeros(extents(scale), _whole_type(node)))
    if node.op_type == "DequantizeLinear":
        wider = [_wider(each, op) for each in (value, zero)]
        if value not in wider and zero not in wider:
            return op.again(node, wider[0], scale, wider[1])
    if node.attributes.get_int("block_size", 0):
        return _by_block(node, scale, zero, op)
    places = extents(scale)
    if places and np.prod(places) == 1:
        scale, zero, places = op.reshape(scale, ()), op.reshape(zero, ()), ()
    axis = node.attributes.get_int("axis", 1)
    wanted = axis % len(extents(value)) if places else 0
    same = list(node.inputs) == [value, scale, zero]
    if same and node.attributes.get_int("axis", -1) == wanted:
        return None
    return op.again(node, value, scale, zero, axis=wanted)


def _wider(value: ir.Value, op: Builder) -> ir.Value:
    """A constant that packs several numbers into a byte, with a byte for each."""
    known = constant(value)
    if known is None or known.dtype.name not in _WIDER:
        return value
    return op.const(known, _WIDER[known.dtype.name])


def _whole_type(node: ir.Node) -> np.dtype[Any]:
    """The type of a node's quantised numbers, of which it has no zero point."""
    if node.op_type == "DequantizeLinear":
        return dtype_of(required(node))
    kind = node.attributes.get_int("output_dtype", 0)
    return np.dtype(ir.DataType(kind).numpy()) if kind else _USUAL


def _by_block(node: ir.Node, scale: ir.Value, zero: ir.Value, op: Builder) -> Outputs:
    """Steps by numbers of their own for each element, which those of a block share."""
    value = required(node)
    shape = extents(value)
    axis = node.attributes.get_int("axis", 1) % len(shape)
    block = op.const(np.arange(shape[axis]) // node.attributes.get_int("block_size", 0))
    spread, zeros = (op.op("Gather", each, block, axis=axis) for each in (scale, zero))
    real = ir.DataType.from_numpy(dtype_of(scale))
    if node.op_type == "DequantizeLinear":
        made = dequantised(op, value, spread, zeros, real)
        kind = node.attributes.get_int("output_dtype", 0)
        return op.op("Cast", made, to=ir.DataType(kind)) if kind else made
    wanted = dtype_of(zero)
    if wanted.kind not in "iu" or wanted.name.endswith(("int2", "int4")):
        raise ModelError(f"quantises to {wanted.name} by blocks; give int8 or uint8")
    whole = op.op("Round", op.op("Div", op.op("Cast", value, to=real), spread))
    whole = op.op("Add", whole, op.op("Cast", zeros, to=real))
    limits = np.iinfo(wanted)
    bounds = (op.const(each, dtype_of(scale)) for each in (limits.min, limits.max))
    return op.op("Cast", op.op("Clip", whole, *bounds), to=ir.DataType.from_numpy(wanted))


def dequantised(
    op: Builder, value: ir.Value, scale: ir.Value, zero: ir.Value, real: ir.DataType
) -> ir.Value:
    """Numbers of a type for whole ones, by a scale and a zero point that broadcast."""
    wide = [op.op("Cast", each, to=ir.DataType.INT32) for each in (value, zero)]
    return op.op("Mul", op.op("Cast", op.op("Sub", *wide), to=real), scale)


@rule("DynamicQuantizeLinear")
def chosen_steps(node: ir.Node, op: Builder) -> Outputs:
    """Steps by the least and the greatest number; of zeros alone they are 1, as in onnxruntime."""
    value = required(node)
    dtype = dtype_of(value)
    zero, most = op.const(0, dtype), op.const(255, dtype)
    signed = not _is_never_negative(value)
    # In front of the reductions, which are halved: each kernel then halves for itself.
    spread = high = op.op("ReduceMax", op.op("Max", value, zero) if signed else value, keepdims=0)
    if signed:
        low = op.op("ReduceMin", op.op("Min", value, zero), keepdims=0)
        spread = op.op("Sub", high, low)
    scale = op.op("Div", spread, most)
    scale = op.op("Where", op.op("Equal", spread, zero), op.const(1, dtype), scale)
    place = op.const(0, "uint8")
    if signed:
        place = op.op("Clip", op.op("Sub", zero, op.op("Div", low, scale)), zero, most)
        place = op.op("Cast", op.op("Round", place), to=ir.DataType.UINT8)
    return [op.op("QuantizeLinear", value, scale, place), scale, place]


_NEVER_NEGATIVE = frozenset({"Relu", "Sigmoid", "Softmax"})
_AS_OPERANDS = frozenset(
    {
        *("Add", "AveragePool", "Concat", "Flatten", "GlobalAveragePool", "GlobalMaxPool"),
        *("MaxPool", "Mul", "Reshape", "Transpose"),
    }
)
"""Operators of numbers that are never negative, which make some that are not, either."""


def _is_never_negative(value: ir.Value) -> bool:
    """True for numbers that are at least 0 by what computes them."""
    pending: list[ir.Value | None] = [value]
    seen: set[ir.Value] = set()
    while pending:
        each = pending.pop()
        node = None if each is None else each.producer()
        if each is None or node is None:
            return False
        if each in seen or node.op_type in _NEVER_NEGATIVE:
            continue
        seen.add(each)
        least = constant(optional(node, 1)) if node.op_type == "Clip" else None
        if least is not None and least >= 0:
            continue
        if node.op_type not in _AS_OPERANDS:
            return False
        pending += node.inputs[: 1 if node.op_type == "Reshape" else None]
    return True


@rule("Cast")
def number_of_product(node: ir.Node, op: Builder) -> Outputs:
    """A product of whole numbers by constant ones that becomes float32 is one of float32.

    The zero point of data is subtracted from the products: they are of the whole numbers
    themselves, which lie in memory as they are.
    """
    product = required(node).producer()
    if product is None or product.op_type not in _OF_NUMBERS or len(product.inputs) != _WHOLE:
        return None
    data, right, zero, zeros = product.inputs
    weight, other = constant(right), constant(zeros)
    if weight is None or other is None or data is None or zero is None:
        return None
    if dtype_of(node.outputs[0]) != np.float32 or int(np.prod(extents(zero))) != 1:
        return None
    given: dict[str, Any] = dict(product.attributes)
    if product.op_type == "ConvInteger":
        other = other.reshape(-1, *[1] * (weight.ndim - 1))
    elif weight.ndim != 2:
        return None
    steps = (weight.astype("int32") - other.astype("int32")).astype("float32")
    one, none = op.const(1, "float32"), op.const(np.zeros((), dtype_of(data)))
    known, zero = constant(zero), op.reshape(zero, ())
    shifted = known is None or known.any()
    pads = np.array(product.attributes.get_ints("pads", ()), "int64").reshape(2, -1)
    if shifted and pads.any():
        sides = np.pad(pads, ((0, 0), (weight.ndim - pads.shape[1], 0)))
        data = op.op("Pad", data, op.const(sides.ravel()), zero, mode="constant")
        given["pads"] = [0] * pads.size
    numbers = op.op("DequantizeLinear", data, one, none)
    made = op.op(_OF_NUMBERS[product.op_type], numbers, op.const(steps), **given)
    if not shifted:
        return made
    if product.op_type == "ConvInteger":
        sums = steps.sum(axis=tuple(range(1, weight.ndim)), keepdims=True).swapaxes(0, 1)
    else:
        sums = steps.sum(axis=0)
    shift = op.op("Cast", zero, to=ir.DataType.FLOAT)
    return op.op("Sub", made, op.op("Mul", shift, op.const(sums)))


_WHOLE = 4
"""Inputs of a product of whole numbers in the normal form: matrices and their zero points."""
_OF_NUMBERS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
"""Products of numbers, by those of whole numbers."""


@rule("MatMulInteger")
def zero_points(node: ir.Node, op: Builder) -> Outputs:
    """Zero points of both matrices are inputs, 0 where they were left out."""
    if len(node.inputs) == 4 and None not in node.inputs:
        return None
    zeros = [optional(node, place) for place in (2, 3)]
    matrices = [required(node, place) for place in (0, 1)]
    given = [
        op.const(np.zeros((), dtype_of(matrix))) if zero is None else zero
        for matrix, zero in zip(matrices, zeros, strict=True)
    ]
    return op.op("MatMulInteger", *matrices, *given)
