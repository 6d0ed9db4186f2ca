"""Description of an operator's computation in terms of no dialect, for operator libraries.

Goes after ``extract``; the result is a :class:`~tvm_ios.core.fused_function.FusedFunction`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import tvm
from tvm import relay

from tvm_ios.core.fused_function import (
    AttributeValue,
    FusedFunction,
    PrimitiveCall,
    TensorType,
)
from tvm_ios.relay.constants import values_of
from tvm_ios.relay.functions.stored_types import computed_in_float32

__all__ = ["describe_calls", "describe_function"]


def describe_calls(calls: Iterable[relay.Call]) -> tuple[FusedFunction | None, ...]:
    """Descriptions of kernel calls, whose constant arguments are constants of the function."""
    return tuple(map(_describe_call, calls))


def _describe_call(call: relay.Call) -> FusedFunction | None:
    described = describe_function(call.op) if isinstance(call.op, relay.Function) else None
    if described is None:
        return None
    constants = [n for n, argument in enumerate(call.args) if isinstance(argument, relay.Constant)]
    return replace(described, constants=frozenset(constants))


@lru_cache(maxsize=4096)
def describe_function(function: relay.Function) -> FusedFunction | None:
    """Description of a fused, typed function; None if no library could compute it.

    A constant inside it is a call of ``constant`` without operands, and with its ``value`` where it
    is one number; the fields of a tuple are operands of its reader. None where the function has a
    dynamic shape, several results, anything but primitive operators, or attributes that TVM hides.
    Remembered for the last few thousand functions, as each contestant of a race is lowered with it.
    """
    stored = computed_in_float32(function)
    in_memory = tuple(stored.parameters.get(number) for number in range(len(function.params)))
    try:
        types = [_tensor_type(parameter.checked_type) for parameter in function.params]
        function = stored.computed
        values = {parameter: number for number, parameter in enumerate(function.params)}
        calls: list[PrimitiveCall] = []
        _describe(function.body, values, calls)
    except _UndescribedError:
        return None
    if not calls or values.get(function.body) != len(types) + len(calls) - 1:
        return None
    return FusedFunction(
        parameters=tuple(types),
        calls=tuple(calls),
        stored=in_memory if any(in_memory) else (),
        rounded_to=stored.result,
    )


class _UndescribedError(Exception):
    """A part of a function that no operator library computes."""


def _describe(body: relay.Expr, values: dict[relay.Expr, int], calls: list[PrimitiveCall]) -> None:
    found: list[relay.Expr] = []
    relay.analysis.post_order_visit(body, found.append)
    skipped = (relay.Var, relay.Tuple, tvm.ir.Op)
    found = [each for each in found if not isinstance(each, skipped) and each not in values]
    for expression in _main_call_first(found):
        operands: tuple[int, ...] = ()
        attributes: tuple[tuple[str, AttributeValue], ...] = ()
        if isinstance(expression, relay.Constant):
            operator = "constant"
            attributes = _scalar(expression)
        elif isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op):
            operator = str(expression.op.name)
            operands = tuple(values[operand] for operand in _operands(expression))
            attributes = _attributes(expression)
        else:
            raise _UndescribedError
        values[expression] = len(values)
        calls.append(
            PrimitiveCall(
                operator=operator,
                operands=operands,
                result=_tensor_type(expression.checked_type),
                attributes=attributes,
            )
        )


def _main_call_first(found: list[relay.Expr]) -> list[relay.Expr]:
    """Expressions with constants behind the first call, if that reads none of them.

    In ``0.5 * conv2d(x, w)`` the number would come first; libraries look for the convolution.
    """
    begin = next((n for n, each in enumerate(found) if isinstance(each, relay.Call)), 0)
    numbers, rest = found[:begin], found[begin:]
    if not numbers or any(number in _operands(rest[0]) for number in numbers):
        return found
    return [rest[0], *numbers, *rest[1:]]


def _operands(call: relay.Call) -> list[relay.Expr]:
    return [operand for argument in call.args for operand in _flat(argument)]


def _flat(argument: relay.Expr) -> list[relay.Expr]:
    fields = argument.fields if isinstance(argument, relay.Tuple) else [argument]
    if any(isinstance(field, relay.Tuple) for field in fields):
        raise _UndescribedError
    return list(fields)


def _tensor_type(type_: tvm.ir.Type) -> TensorType:
    if not isinstance(type_, tvm.ir.TensorType) or any(
        not isinstance(extent, tvm.tir.IntImm) for extent in type_.shape
    ):
        raise _UndescribedError
    return TensorType(tuple(int(extent) for extent in type_.shape), str(type_.dtype))


def _scalar(constant: relay.Constant) -> tuple[tuple[str, AttributeValue], ...]:
    values = values_of(constant)
    return (("value", values.item()),) if values.size == 1 else ()


def _attributes(call: relay.Call) -> tuple[tuple[str, AttributeValue], ...]:
    if call.attrs is None:
        return ()
    if not isinstance(call.attrs, tvm.ir.Attrs):  # TVM has no class for AdaptivePool1DAttrs
        raise _UndescribedError
    names = list(call.attrs.keys())
    return tuple((str(name), _value(call.attrs[name])) for name in names)


def _value(value: Any) -> AttributeValue:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tvm.tir.IntImm):
        return bool(value.value) if value.dtype == "bool" else int(value.value)
    if isinstance(value, tvm.tir.FloatImm):
        return float(value.value)
    if isinstance(value, tvm.ir.Array | list | tuple):
        return tuple(map(_value, value))
    return str(value)
