"""Converters of operators on one element, or on two at the same place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import dtype_of, required
from tvm_ios.relay.frontends.exact_arithmetic import round_to_even
from tvm_ios.relay.frontends.onnx.converters.converter import (
    CONVERTERS,
    converter,
    known,
    require_known,
    type_of,
)

__all__ = [
    "bits",
    "cast",
    "clip",
    "nearest",
    "power",
    "reciprocal",
    "remainder",
    "shift",
]

_SAME: dict[str, Callable[..., Any]] = {
    "Abs": relay.abs,
    "Add": relay.add,
    "And": relay.logical_and,
    "BitwiseAnd": relay.bitwise_and,
    "BitwiseNot": relay.bitwise_not,
    "BitwiseOr": relay.bitwise_or,
    "BitwiseXor": relay.bitwise_xor,
    "Ceil": relay.ceil,
    "Cos": relay.cos,
    "Cosh": relay.cosh,
    "Div": relay.divide,
    "Equal": relay.equal,
    "Erf": relay.erf,
    "Exp": relay.exp,
    "Floor": relay.floor,
    "Greater": relay.greater,
    "IsInf": relay.isinf,
    "IsNaN": relay.isnan,
    "Less": relay.less,
    "Log": relay.log,
    "Max": relay.maximum,
    "Min": relay.minimum,
    "Mul": relay.multiply,
    "Neg": relay.negative,
    "Not": relay.logical_not,
    "Or": relay.logical_or,
    "Sigmoid": relay.sigmoid,
    "Sign": relay.sign,
    "Sin": relay.sin,
    "Sinh": relay.sinh,
    "Sqrt": relay.sqrt,
    "Sub": relay.subtract,
    "Tan": relay.tan,
    "Tanh": relay.tanh,
    "Where": relay.where,
    "Xor": relay.logical_xor,
}
"""Operators of Relay that are the same as ONNX's, without attributes."""
_ANGLES: dict[str, Callable[..., Any]] = {
    "Acos": relay.acos,
    "Acosh": relay.acosh,
    "Asin": relay.asin,
    "Asinh": relay.asinh,
    "Atan": relay.atan,
    "Atanh": relay.atanh,
}
"""Operators of Relay that TVM compiles in float32 and float64 only."""


def _as_in_relay(operator: Callable[..., Any]) -> Any:
    def convert(node: ir.Node, inputs: Sequence[Any]) -> Any:  # noqa: ARG001
        return operator(*inputs)

    return convert


def _in_float32(operator: Callable[..., Any]) -> Any:
    def convert(node: ir.Node, inputs: Sequence[Any]) -> Any:
        if type_of(node) != "float16":
            return operator(*inputs)
        return relay.cast(operator(relay.cast(inputs[0], "float32")), "float16")

    return convert


CONVERTERS.update({name: _as_in_relay(operator) for name, operator in _SAME.items()})
CONVERTERS.update({name: _in_float32(operator) for name, operator in _ANGLES.items()})


@converter("Clip")
def clip(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Values within bounds, which are two constants in order."""
    low, high = (require_known(node, place, "a bound") for place in (1, 2))
    dtype = dtype_of(node.outputs[0])
    if dtype.kind in "iu" and max(abs(low), abs(high)) > 2**53:
        return relay.minimum(relay.maximum(inputs[0], inputs[1]), inputs[2])
    return relay.clip(inputs[0], float(low), float(high))


@converter("Reciprocal")
def reciprocal(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The inverse of each element."""
    return relay.const(1, type_of(node)) / inputs[0]


@converter("Round")
def nearest(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The nearest whole number, of two that are as near the even one."""
    return round_to_even(inputs[0], type_of(node))


@converter("Pow")
def power(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A power, whose exponent may be of another type; whole ones are computed in float64."""
    value, exponent = inputs
    dtype = type_of(node)
    inner = dtype if dtype_of(node.outputs[0]).kind != "i" else "float64"
    if inner != dtype:
        value = relay.cast(value, inner)
    if str(dtype_of(required(node, 1))) != inner:
        exponent = relay.cast(exponent, inner)
    found = relay.power(value, exponent)
    return found if inner == dtype else relay.cast(found, dtype)


@converter("Mod")
def remainder(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A remainder with the sign of the divisor, or of the dividend where ``fmod`` says so."""
    left, right = inputs
    dtype = type_of(node)
    if node.attributes.get_int("fmod", 0):
        return relay.mod(left, right)
    if not dtype.startswith("float"):
        return relay.floor_mod(left, right)
    # Relay's floor_mod makes NaN of infinite divisors.
    zero = relay.const(0, dtype)
    rest = relay.mod(left, right)
    other = relay.not_equal(relay.less(rest, zero), relay.less(right, zero))
    moved = relay.logical_and(relay.not_equal(rest, zero), other)
    return relay.where(moved, rest + right, rest)


@converter("BitShift")
def shift(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Bits moved by some places; of more places than there are bits, no bit is left."""
    value, places = inputs
    dtype, bits = type_of(node), 8 * dtype_of(node.outputs[0]).itemsize
    left = node.attributes.get_string("direction", "LEFT") == "LEFT"
    move, given = relay.left_shift if left else relay.right_shift, known(node, 1)
    if given is not None and 0 <= np.min(given) <= np.max(given) < bits:
        return move(value, places)
    last, zero = (relay.const(number, dtype) for number in (bits - 1, 0))
    beyond = relay.logical_or(relay.greater(places, last), relay.less(places, zero))
    some = relay.where(beyond, zero, places)
    rest = zero if left else relay.right_shift(value, last)
    return relay.where(beyond, rest, move(value, some))


@converter("Cast")
def cast(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Values of another type; what is not zero is true."""
    was, dtype = dtype_of(required(node)), dtype_of(node.outputs[0])
    if dtype.kind == "b" and was.kind != "b":
        return relay.not_equal(inputs[0], relay.const(0, str(was)))
    if dtype.kind == "u" and was.kind == "f" and dtype.itemsize < 8:
        # From floating point straight to unsigned, negative numbers would be anything.
        return relay.cast(relay.cast(inputs[0], "int64"), str(dtype))
    return relay.cast(inputs[0], str(dtype))


@converter("BitCast")
def bits(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Numbers of another type that have the bits of those given."""
    dtype = type_of(node)
    if "bool" in (dtype, type_of(node, of_input=True)):
        raise ModelError("takes bits for truth values, or the other way; give a Cast")
    return relay.reinterpret(inputs[0], dtype)
