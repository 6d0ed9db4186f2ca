"""Converters of reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
from tvm import relay

from tvm_ios.relay.frontends.exact_arithmetic import extreme
from tvm_ios.relay.frontends.onnx.converters.converter import (
    axis_of,
    converter,
    known,
    shape_of,
    type_of,
)

__all__ = [
    "extreme_value",
    "global_greatest",
    "global_mean",
    "mean",
    "place",
    "product",
    "running_total",
    "total",
]

_Reduction = Callable[[Any, Sequence[int], bool], Any]


def _axes(node: ir.Node) -> list[int]:
    axes: list[int] = known(node, 1)
    return axes


def _reduced(node: ir.Node, value: Any, reduce: _Reduction) -> Any:
    """A tensor reduced by an operator of Relay, which takes no single number."""
    axes, keep = _axes(node), bool(node.attributes.get_int("keepdims", 1))
    if axes:
        return reduce(value, axes, keep)
    return relay.reshape(reduce(relay.reshape(value, (1,)), [0], keep), ())


@converter("ReduceSum")
def total(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The sum over axes."""
    return _reduced(node, inputs[0], relay.sum)


@converter("ReduceMean")
def mean(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The mean over axes."""
    return _reduced(node, inputs[0], relay.mean)


@converter("ReduceProd")
def product(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The product over axes."""
    return _reduced(node, inputs[0], relay.prod)


@converter("ReduceMax", "ReduceMin")
def extreme_value(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The greatest or the least value; of truth values, whether any or all are true."""
    reduce = relay.max if node.op_type == "ReduceMax" else relay.min
    dtype = type_of(node)
    if dtype == "bool":
        found = _reduced(node, relay.cast(inputs[0], "int8"), reduce)
        return relay.cast(found, "bool")
    return extreme(lambda value: _reduced(node, value, reduce), inputs[0], dtype)


@converter("ArgMax", "ArgMin")
def place(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The place of the greatest or the least value: the first, or the last of several."""
    find = relay.argmax if node.op_type == "ArgMax" else relay.argmin
    axis, keep = axis_of(node, 0), bool(node.attributes.get_int("keepdims", 1))
    last = bool(node.attributes.get_int("select_last_index", 0))
    found = relay.cast(find(inputs[0], axis, keep, False, last), "int64")
    # Relay finds no place, which is -1, where all values are the least or greatest of their type.
    usual = relay.const(shape_of(node)[axis] - 1 if last else 0, "int64")
    return relay.where(relay.less(found, relay.const(0, "int64")), usual, found)


@converter("GlobalAveragePool")
def global_mean(node: ir.Node, inputs: Sequence[Any]) -> Any:  # noqa: ARG001
    """The mean of each image."""
    return relay.nn.global_avg_pool2d(inputs[0])


@converter("GlobalMaxPool")
def global_greatest(node: ir.Node, inputs: Sequence[Any]) -> Any:  # noqa: ARG001
    """The greatest value of each image."""
    return relay.nn.global_max_pool2d(inputs[0])


@converter("CumSum")
def running_total(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """The sum up to each place, from either end, with or without the place itself."""
    axis = known(node, 1)
    exclusive = bool(node.attributes.get_int("exclusive", 0))
    if not node.attributes.get_int("reverse", 0):
        return relay.cumsum(inputs[0], axis, None, exclusive)
    found = relay.cumsum(relay.reverse(inputs[0], axis), axis, None, exclusive)
    return relay.reverse(found, axis)
