"""Rules for products that onnxruntime quantises while it runs (``com.microsoft``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import MICROSOFT, Outputs, rule
from tvm_ios.onnx.rules.runtime.attention import attention_of_product
from tvm_ios.onnx.values import dtype_of, optional, require_constant, required

__all__ = ["attention", "dynamic", "of_bits", "scaled"]


@rule(f"{MICROSOFT}.DynamicQuantizeMatMul")
def dynamic(node: ir.Node, op: Builder) -> Outputs:
    """A product whose first matrix gets its scale from its values."""
    whole, scale, zero = op.ops("DynamicQuantizeLinear", required(node), count=3)
    weight, weight_scale = required(node, 1), required(node, 2)
    zeros, bias = optional(node, 3), optional(node, 4)
    inputs = [whole, weight, scale, weight_scale, zero, zeros, bias]
    return _scaled(op, *inputs)


@rule(f"{MICROSOFT}.MatMulIntegerToFloat")
def scaled(node: ir.Node, op: Builder) -> Outputs:
    """A product of whole numbers, times what they stand for."""
    given = [optional(node, place) for place in range(7)]
    return _scaled(op, *given)


def _scaled(op: Builder, left: Any, right: Any, *rest: Any) -> ir.Value:
    """A product of whole numbers: scales, zero points and a bias are the rest."""
    scale, other, zero, zeros, bias = rest
    made = op.op("MatMulInteger", left, right, zero, zeros)
    made = op.op("Mul", op.op("Cast", made, to=ir.DataType.FLOAT), op.op("Mul", scale, other))
    return made if bias is None else op.op("Add", made, bias)


@rule(f"{MICROSOFT}.QAttention")
def attention(node: ir.Node, op: Builder) -> Outputs:
    """Attention whose one product is of whole numbers."""
    value, weight, bias, scale, other, mask, zero, zeros, past = (
        optional(node, place) for place in range(9)
    )
    made = _scaled(op, value, weight, scale, other, zero, zeros, bias)
    return attention_of_product(node, op, made, past, np.dtype("float32"), (mask, None))


@rule(f"{MICROSOFT}.MatMulNBits")
def of_bits(node: ir.Node, op: Builder) -> Outputs:
    """A product with a constant matrix of a few bits each, in blocks, which are unpacked here."""
    given, value = node.attributes, required(node)
    bits, rows = given.get_int("bits", 4), given["N"].as_int()
    packed, scales, zeros = (
        require_constant(node, place, what)
        for place, what in ((1, "weights"), (2, "scales"), (3, "zero points"))
    )
    if 8 % bits or optional(node, 4) is not None or given.get_int("weight_prepacked", 0):
        raise ModelError(
            f"has weights of {bits} bits, or in another order; give 2, 4 or 8, in order"
        )
    assert packed is not None
    assert scales is not None
    blocks = scales.size // rows
    if zeros is None:
        zeros = np.full((rows, blocks), 2 ** (bits - 1))
    elif zeros.dtype == np.uint8:
        zeros = _unpacked(zeros.reshape(rows, -1), bits)[:, :blocks]
    numbers = _unpacked(packed, bits).reshape(rows, blocks, -1).astype("float32")
    numbers = (numbers - zeros.reshape(rows, blocks, 1)) * scales.reshape(rows, blocks, 1)
    weight = numbers.reshape(rows, -1)[:, : given["K"].as_int()].T
    made = op.op("MatMul", value, op.const(np.ascontiguousarray(weight), dtype_of(value)))
    bias = optional(node, 5)
    return made if bias is None else op.op("Add", made, bias)


def _unpacked(array: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of a few bits each, of which a byte has the first one in its lowest bits."""
    shifts = np.arange(0, 8, bits, dtype="uint8")
    numbers: np.ndarray = (array[..., None] >> shifts) & np.uint8(2**bits - 1)
    return numbers.reshape(*array.shape[:-1], -1)
