"""Converters of whole numbers that stand for others by scale and zero point, and their products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.core.precision.stored_type import LIMITS, StoredType
from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import constant, dtype_of, extents, required
from tvm_ios.relay.frontends.exact_arithmetic import limited_steps
from tvm_ios.relay.frontends.onnx.converters.converter import (
    axis_of,
    converter,
    fixed,
    shape_of,
    type_of,
)
from tvm_ios.relay.frontends.onnx.converters.convolutions import convolution
from tvm_ios.relay.frontends.onnx.converters.products import product
from tvm_ios.relay.functions.quantised import dequantize as numbers
from tvm_ios.relay.functions.quantised import quantize as whole_numbers

__all__ = [
    "conv_integer",
    "dequantize",
    "matmul_integer",
    "quantize",
]


@converter("QuantizeLinear")
def quantize(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Whole numbers for numbers, rounded to even and limited to what the type holds."""
    scale, zero = _along_axis(node, inputs, 1), _along_axis(node, inputs, 2)
    real, dtype = str(dtype_of(required(node, 1))), type_of(node)
    stored = _stored_type(node, dtype)
    if stored is not None and type_of(node, of_input=True) == "float32":
        return whole_numbers(inputs[0], stored)
    data = inputs[0] if type_of(node, of_input=True) == real else relay.cast(inputs[0], real)
    limits = np.iinfo(dtype)
    return limited_steps(
        relay.cast(data / scale, "float32"), zero, (int(limits.min), int(limits.max)), dtype
    )


@converter("DequantizeLinear")
def dequantize(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Numbers that whole numbers stand for."""
    whole = constant(required(node))
    if whole is not None and (made := _constant_numbers(node, whole)) is not None:
        return fixed(made)
    stored = _stored_type(node, type_of(node, of_input=True))
    if stored is not None:
        return numbers(inputs[0], stored)
    scale, zero = _along_axis(node, inputs, 1), _along_axis(node, inputs, 2)
    whole = relay.cast(inputs[0], "int32") - relay.cast(zero, "int32")
    return relay.cast(whole, type_of(node)) * scale


def _stored_type(node: ir.Node, dtype: str) -> StoredType | None:
    """Whole numbers of one constant scale of float32; None of others."""
    scale, zero = (constant(required(node, place)) for place in (1, 2))
    if dtype not in LIMITS or scale is None or zero is None or scale.dtype != np.float32:
        return None
    if scale.size != 1 or zero.size != 1 or not np.isfinite(1 / scale).all():
        return None
    return StoredType(dtype=dtype, scale=float(scale.item()), zero_point=int(zero.item()))


def _constant_numbers(node: ir.Node, whole: np.ndarray) -> np.ndarray | None:
    """Numbers that constant whole ones stand for; None where their steps are no constants."""
    scale, zero = (constant(required(node, place)) for place in (1, 2))
    if scale is None or zero is None or max(scale.ndim, zero.ndim) > 1:
        return None
    behind = (1,) * (whole.ndim - 1 - axis_of(node, 1))
    scale, zero = (each.reshape(-1, *behind) if each.ndim else each for each in (scale, zero))
    exact = whole.astype("int32") - zero.astype("int32")
    made: np.ndarray = (exact.astype(scale.dtype) * scale).astype(type_of(node))
    return made


def _along_axis(node: ir.Node, inputs: Sequence[Any], place: int) -> Any:
    """Scale or zero point, of which there is one, or one for each place of an axis."""
    shape = shape_of(node, place)
    if len(shape) > 1:
        raise ModelError("has scales for blocks; give one, or one for each place of an axis")
    behind = len(shape_of(node)) - 1 - axis_of(node, 1)
    if not shape or not behind:
        return inputs[place]
    return relay.reshape(inputs[place], (-1, *[1] * behind))


@converter("MatMulInteger")
def matmul_integer(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A product of matrices of whole numbers less their zero points, exact in int32."""
    left, right = (_less_zero(node, inputs, place) for place in (0, 1))
    shapes = shape_of(node), shape_of(node, 1)
    return product(left, right, *shapes, extents(node.outputs[0]), "int32")


def _less_zero(node: ir.Node, inputs: Sequence[Any], place: int) -> Any:
    value, zero = relay.cast(inputs[place], "int32"), inputs[place + 2]
    shape = shape_of(node, place + 2)
    if len(shape) == 1 and shape[0] > 1 and place == 0:  # one for each row
        zero = relay.reshape(zero, (-1, 1))
    return value - relay.cast(zero, "int32")


@converter("ConvInteger")
def conv_integer(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A convolution of whole numbers less their zero points, exact in int32."""
    data, weight, zero, zeros = (relay.cast(each, "int32") for each in inputs)
    column = (-1, *[1] * (len(shape_of(node, 1)) - 1))
    data, weight = data - relay.reshape(zero, ()), weight - relay.reshape(zeros, column)
    return convolution(node, data, weight, out_dtype="int32")
