"""Converters of norms, and of functions that look at all elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import onnx_ir as ir
from tvm import relay

from tvm_ios.relay.frontends.onnx.converters.converter import (
    axis_of,
    converter,
    number,
    shape_of,
    type_of,
)

__all__ = [
    "layer_norm",
    "local_response",
    "log_softmax",
    "softmax",
]


@converter("Softmax")
def softmax(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Exponentials by their sum."""
    return relay.nn.softmax(inputs[0], axis=axis_of(node, -1))


@converter("LogSoftmax")
def log_softmax(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Logarithms of exponentials by their sum."""
    return relay.nn.log_softmax(inputs[0], axis=axis_of(node, -1))


@converter("LayerNormalization")
def layer_norm(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A norm over the last axes, with mean and inverse deviation where these are asked for."""
    value, bias = inputs[0], inputs[2] if len(inputs) > 2 else None
    axes = list(range(axis_of(node, -1), len(shape_of(node))))
    mean = relay.mean(value, axes, True)
    variance = relay.variance(value, axes, True, with_mean=mean)
    deviation = relay.sqrt(variance + number(node, "epsilon", 1e-5))
    inverse = relay.const(1, type_of(node)) / deviation
    made = (value - mean) * inverse * inputs[1]
    made = made if bias is None else made + bias
    if len(node.outputs) == 1:
        return made
    outputs = [made, mean, inverse][: len(node.outputs)]
    return relay.TupleWrapper(relay.Tuple(outputs), len(outputs))


@converter("LRN")
def local_response(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Values by a power of the sum of squares in near channels."""
    value, size = inputs[0], node.attributes.get_int("size")
    alpha = node.attributes.get_float("alpha", 1e-4)
    beta, bias = node.attributes.get_float("beta", 0.75), node.attributes.get_float("bias", 1.0)
    shape, dtype = shape_of(node), type_of(node)
    if len(shape) == 4 and size % 2:
        return relay.nn.lrn(value, size, 1, bias, alpha, beta)
    before, after = (size - 1) // 2, size // 2
    widths = [(before, after) if axis == 1 else (0, 0) for axis in range(len(shape))]
    padded = relay.nn.pad(value * value, widths)
    total = reduce(
        relay.add,
        [
            relay.strided_slice(padded, [begin], [begin + shape[1]], [1], axes=[1])
            for begin in range(size)
        ],
    )
    scale = relay.const(bias, dtype) + relay.const(alpha / size, dtype) * total
    return value / relay.power(scale, relay.const(beta, dtype))
