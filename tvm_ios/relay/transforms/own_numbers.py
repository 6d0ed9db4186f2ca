"""Numbers of operators' own, which TVM then writes into the fused kernels.

TVM fuses a constant of rank 0 with the operator that reads it. One that several operators read, as
exporters of ONNX share them, becomes an argument of every kernel; so does one of shape ``(1,)``.
Then neither a kernel nor an operator library knows its value: no GELU, no square is recognised.
"""

from __future__ import annotations

from math import prod

import tvm
from tvm import relay

from tvm_ios.relay.constants import values_of
from tvm_ios.relay.dataflow import copy_call, is_call_of, rebuild, with_body

__all__ = ["own_numbers"]

BINARY = ("add", "divide", "maximum", "minimum", "multiply", "power", "subtract")


def own_numbers(module: tvm.IRModule) -> tvm.IRModule:
    """Module in which every operator has its own copy of a constant that is one number.

    Operands of arithmetic that are one number get rank 0 where the result keeps its shape.
    """

    def copy(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        return copy_call(call, (_own(call, each) for each in arguments))

    return with_body(module, rebuild(module["main"].body, {}, copy))


def _own(call: relay.Call, argument: relay.Expr) -> relay.Expr:
    if not isinstance(argument, relay.Constant) or prod(argument.data.shape) != 1:
        return argument
    if argument.data.shape and not _is_broadcast(call, len(argument.data.shape)):
        return argument
    return relay.const(values_of(argument).reshape(()), argument.data.dtype)


def _is_broadcast(call: relay.Call, axes: int) -> bool:
    """True if a number with some axes is an operand that decides nothing about the result."""
    shapes = [tuple(each.checked_type.shape) for each in call.args if is_call_of(call, *BINARY)]
    return any(len(each) >= axes and prod(each) > 1 for each in shapes)
