"""Converters of norms, and of functions that look at all elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A norm over the last axes."""
    value, bias = inputs[0], inputs[2] if len(inputs) > 2 else None
    axes = list(range(axis_of(node, -1), len(shape_of(node))))
    mean = relay.mean(value, axes, True)
    variance = relay.variance(value, axes, True, with_mean=mean)
    deviation = relay.sqrt(variance + number(node, "epsilon", 1e-5))
    inverse = relay.const(1, type_of(node)) / deviation
    made = (value - mean) * inverse * inputs[1]
    return made if bias is None else made + bias


@converter("LRN")
def local_response(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Values by a power of the sum of squares in near channels."""
    attributes = node.attributes
    usual = (("bias", 1.0), ("alpha", 1e-4), ("beta", 0.75))
    numbers = (attributes.get_float(name, each) for name, each in usual)
    return relay.nn.lrn(inputs[0], attributes.get_int("size"), 1, *numbers)
