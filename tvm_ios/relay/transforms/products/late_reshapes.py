"""Reshapes of products moved behind the steps that follow: bias, residual, activation.

A linear layer on sequences is imported as a product of matrices, a reshape to three dimensions, and
then its bias. TVM fuses steps with a product only where they follow it at once; behind a reshape
they become kernels of their own, which no operator library computes with the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import (
    copy_call,
    graph_order,
    is_call_of,
    readers_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.functions.shapes import RESHAPES, shape_of

__all__ = ["reshape_after_steps"]

PRODUCTS = ("nn.batch_matmul", "nn.dense")
BIAS = "nn.bias_add"
STEPS = (
    *("add", "clip", "divide", "erf", "exp", "log", "maximum", "minimum", "multiply", "power"),
    *(BIAS, "nn.leaky_relu", "nn.relu", "sigmoid", "subtract", "tanh"),
)
"""Element-wise operators that operator libraries compute with a product, or parts of such."""
REDUCTIONS = ("max", "mean", "sum", "variance")
OF_NUMBERS = ("divide", "power")
"""Operators that libraries compute only with one number on their right."""


@dataclass(frozen=True, slots=True)
class _Flat:
    """A value in the shape of the product that it was made from by reshapes and steps."""

    value: relay.Expr
    shape: tuple[int, ...]


def reshape_after_steps(module: tvm.IRModule) -> tvm.IRModule:
    """Module with steps of products done in the products' own shapes, and reshaped afterwards.

    Every element is computed from the same numbers in the same order. Steps keep their place if an
    operand does not broadcast in the product's shape as it did in theirs. Without such a step the
    module itself is returned.
    """
    flat: dict[relay.Expr, _Flat] = {}
    readers = readers_of(graph_order(module["main"].body))
    moved = 0

    def make(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        nonlocal moved
        if is_call_of(call, *PRODUCTS):
            made = copy_call(call, arguments)
            flat[call] = _Flat(made, shape_of(call))
            return made
        if is_call_of(call, *RESHAPES) and call.args[0] in flat:
            flat[call] = flat[call.args[0]]
            return relay.reshape(flat[call].value, shape_of(call))
        found = _softmax(call, flat)
        if found is None and not _begins_norm(call, readers):
            found = _step(call, arguments, flat)
        if found is None:
            return copy_call(call, arguments)
        flat[call] = found
        if found.shape == shape_of(call):
            return found.value
        moved += 1
        return relay.reshape(found.value, shape_of(call))

    body = rebuild(module["main"].body, {}, make)
    return with_body(module, body) if moved else module


def _begins_norm(call: relay.Call, readers: Mapping[relay.Expr, Sequence[relay.Expr]]) -> bool:
    """True for a square that is only summed, of a value that others read, too.

    It is no step of the product, and a reshape behind it would take the norm apart.
    """
    shared = any(len({*readers[each]}) > 1 for each in call.args)
    return shared and all(is_call_of(each, *REDUCTIONS) for each in readers[call] or [call])


def _softmax(call: relay.Call, flat: dict[relay.Expr, _Flat]) -> _Flat | None:
    """Softmax along the last axis in the shape of the product before it; None for others."""
    if not is_call_of(call, "nn.softmax") or call.args[0] not in flat:
        return None
    before, shape = flat[call.args[0]], shape_of(call)
    if int(call.attrs.axis) % len(shape) != len(shape) - 1 or before.shape[-1] != shape[-1]:
        return None
    return _Flat(relay.nn.softmax(before.value, axis=-1), before.shape)


def _step(
    call: relay.Call, arguments: list[relay.Expr], flat: dict[relay.Expr, _Flat]
) -> _Flat | None:
    """Step in the shape of the product before it; None for other operators and operands."""
    if not is_call_of(call, *STEPS):
        return None
    if is_call_of(call, *OF_NUMBERS) and prod(shape_of(call.args[1])) != 1:
        return None
    known = [flat[each] for each in call.args if each in flat and shape_of(each) == shape_of(call)]
    for shape in dict.fromkeys(each.shape for each in known):
        operands = _operands(call, arguments, flat, shape)
        if operands is not None:
            bias = is_call_of(call, BIAS)
            return _Flat(
                relay.nn.bias_add(*operands, axis=-1) if bias else copy_call(call, operands), shape
            )
    return None


def _operands(
    call: relay.Call,
    arguments: Iterable[relay.Expr],
    flat: dict[relay.Expr, _Flat],
    shape: tuple[int, ...],
) -> list[relay.Expr] | None:
    """Operands of a step in the shape of a product; None where one of them has none.

    A number stays one, a vector along the last axis does if that axis stays, and a tensor of the
    step's whole shape is reshaped.
    """
    whole, operands = shape_of(call), []
    if is_call_of(call, BIAS) and call_attribute(call, "axis") not in (-1, len(whole) - 1):
        return None
    for each, argument in zip(call.args, arguments, strict=True):
        own = shape_of(each)
        if each in flat and own == whole and flat[each].shape == shape:
            operands.append(flat[each].value)
        elif own == whole:
            operands.append(relay.reshape(argument, shape))
        elif prod(own) == 1 or (own[-1:] == whole[-1:] == shape[-1:] == (prod(own),)):
            operands.append(argument if len(own) <= 1 else relay.reshape(argument, own[-1:]))
        else:
            return None
    return operands
