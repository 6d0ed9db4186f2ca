"""Converters of activations: functions of one element that networks have between their layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from tvm import relay

from tvm_ios.relay.frontends.onnx.converters.converter import converter, number, type_of

__all__ = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "mish",
    "relu",
    "selu",
    "shrink",
    "softplus",
    "softsign",
    "thresholded_relu",
]


@converter("Relu")
def relu(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Zero in place of what is below it."""
    if type_of(node).startswith("float"):
        return relay.nn.relu(inputs[0])
    return relay.maximum(inputs[0], relay.const(0, type_of(node)))


@converter("LeakyRelu")
def leaky_relu(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A slope below zero, the same everywhere."""
    return relay.nn.leaky_relu(inputs[0], node.attributes.get_float("alpha", 0.01))


@converter("ThresholdedRelu")
def thresholded_relu(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Zero in place of what is not above a threshold."""
    zero = relay.const(0, type_of(node))
    return relay.where(inputs[0] > number(node, "alpha", 1.0), inputs[0], zero)


@converter("Elu")
def elu(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """An exponential below zero."""
    return _exponential(node, inputs[0], node.attributes.get_float("alpha", 1.0))


@converter("Selu")
def selu(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """An exponential below zero, all of it scaled."""
    alpha = node.attributes.get_float("alpha", 1.67326319217681884765625)
    return number(node, "gamma", 1.05070102214813232421875) * _exponential(node, inputs[0], alpha)


def _exponential(node: ir.Node, value: Any, alpha: float) -> Any:
    one, scale = (relay.const(each, type_of(node)) for each in (1, -alpha))
    return scale * relay.nn.relu(one - relay.exp(value)) + relay.nn.relu(value)


@converter("Celu")
def celu(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """An exponential below zero whose slope at zero is one."""
    zero, one = (relay.const(each, type_of(node)) for each in (0, 1))
    alpha = number(node, "alpha", 1.0)
    below = alpha * (relay.exp(inputs[0] / alpha) - one)
    return relay.maximum(zero, inputs[0]) + relay.minimum(zero, below)


@converter("HardSigmoid")
def hard_sigmoid(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A straight line between zero and one."""
    return relay.clip(inputs[0] * number(node, "alpha", 0.2) + number(node, "beta", 0.5), 0, 1)


@converter("HardSwish")
def hard_swish(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A value times a straight line between zero and one."""
    sixth, half = (relay.const(each, type_of(node)) for each in (1 / 6, 0.5))
    return inputs[0] * relay.clip(inputs[0] * sixth + half, 0, 1)


@converter("Gelu")
def gelu(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A value times the normal distribution up to it, or what is near that."""
    value = inputs[0]
    half, one = (relay.const(each, type_of(node)) for each in (0.5, 1))
    if node.attributes.get_string("approximate", "none") == "none":
        root = relay.const(math.sqrt(2), type_of(node))
        return (half * value) * (one + relay.erf(value / root))
    root = math.sqrt(2 / math.pi)
    linear, cubic, three = (relay.const(each, type_of(node)) for each in (root, 0.044715 * root, 3))
    return (half * value) * (one + relay.tanh(linear * value + cubic * relay.power(value, three)))


@converter("Mish")
def mish(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A value times the hyperbolic tangent of its softplus."""
    one = relay.const(1, type_of(node))
    return inputs[0] * relay.tanh(relay.log(one + relay.exp(inputs[0])))


@converter("Softplus")
def softplus(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The logarithm of one more than the exponential; that of large values is finite."""
    one, zero = (relay.const(each, type_of(node)) for each in (1, 0))
    if _feeds_tanh(node):  # the gate of mish, which is one from where the exponential is infinite
        return relay.log(relay.exp(inputs[0]) + one)
    rest = relay.log(one + relay.exp(relay.negative(relay.abs(inputs[0]))))
    return relay.maximum(inputs[0], zero) + rest


def _feeds_tanh(node: ir.Node) -> bool:
    uses = [user.op_type for user, _ in node.outputs[0].uses()]
    return bool(uses) and all(op_type == "Tanh" for op_type in uses)


@converter("Softsign")
def softsign(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A value by one more than its absolute value."""
    return inputs[0] / (relay.const(1, type_of(node)) + relay.abs(inputs[0]))


@converter("Shrink")
def shrink(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Zero in place of what is near it; the rest is moved."""
    value, bound, bias = inputs[0], number(node, "lambd", 0.5), number(node, "bias", 0.0)
    zero = relay.const(0, type_of(node))
    above = relay.where(value > bound, value - bias, zero)
    return relay.where(value < relay.negative(bound), value + bias, above)
