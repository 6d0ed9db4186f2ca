"""Factors that are one number, done once, as late as they can be.

Exporters scale queries, keys or scores of attention, and write a half, a sixth or a root of two of
GELU and hard swish in front of a sum, behind it or as a division. Here a factor passes sums with a
number, clips, products and moves of data, and is multiplied with others, so that all of them are
written alike: ``clip(x / 6 + 0.5, 0, 1)`` becomes ``clip(x + 3, 0, 6) * (1 / 6)``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isclose, isfinite, prod

import tvm
from tvm import relay

from tvm_ios.relay.constants import values_of
from tvm_ios.relay.dataflow import (
    children,
    computed_values,
    copy_call,
    graph_order,
    is_call_of,
    rebuild,
    spanned,
    with_body,
)
from tvm_ios.relay.functions.shapes import static_shape
from tvm_ios.relay.transforms.spellings.moves import MOVES

__all__ = ["with_late_factors"]

DTYPE = "float32"
BILINEAR = ("multiply", "nn.batch_matmul", "nn.dense", "nn.matmul")
"""Operators to which each factor of an operand is one of the result."""
SUMS = ("add", "subtract")
LARGEST = 1e4
"""Limit of a factor that is done later, and of one over it: nothing in between may overflow."""
LEAST = 1e-30
"""Limit of a number that is divided by as a product with its inverse, so that this is finite."""
SAME = 1e-7
"""Relative difference to one of a factor that float32 has no room for."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A value that still has to be multiplied by a factor."""

    value: relay.Expr
    factor: float


def with_late_factors(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module in which factors are done late, and numbers stand on the right.

    A value that several operators read is scaled once, before they read it. Results differ in their
    last bits. The module itself is returned where nothing changes.
    """
    return _Late(module).module()


class _Late:
    """Walk over a module that moves numeric factors behind the operators they commute with."""

    def __init__(self, module: tvm.IRModule) -> None:
        self._module = module
        order = graph_order(module["main"].body)
        self._readers = Counter(child for each in order for child in children(each))
        self._computed = computed_values(order)
        self._scaled: dict[relay.Expr, _Scaled] = {}
        """Values whose one reader may do their factor instead."""

    def module(self) -> tvm.IRModule:
        body = self._module["main"].body
        if not any(is_call_of(each, "multiply", "divide", *SUMS) for each in self._computed):
            return self._module
        return with_body(self._module, rebuild(body, {}, self._made))

    def _made(self, call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        float_ = all(map(_is_float, (call, *call.args)))
        found = self._factored(call, arguments) if float_ and call in self._computed else None
        if found is None:
            return copy_call(call, arguments)
        if isclose(found.factor, 1.0, rel_tol=SAME):
            return found.value
        if self._readers[call] == 1 and 1 / LARGEST < abs(found.factor) < LARGEST:
            self._scaled[call] = found
        return _with_number("multiply", found.value, found.factor, call)

    def _factored(self, call: relay.Call, arguments: list[relay.Expr]) -> _Scaled | None:
        """A call as a value and a factor; None where it is to be copied."""
        if is_call_of(call, *MOVES, "clip"):
            scaled = self._scaled.get(call.args[0])
            if scaled is None or _size(call) != _size(call.args[0]):
                return None
            return _clipped(call, scaled) if is_call_of(call, "clip") else _moved(call, scaled)
        if is_call_of(call, "multiply", "divide", *SUMS):
            either = is_call_of(call, "multiply", "add")
            for data, number in ((0, 1), (1, 0)) if either else ((0, 1),):
                if (value := _number(call.args[number], call.args[data], call)) is not None:
                    return self._calculated(call, call.args[data], arguments[data], value)
        return self._product(call, arguments) if is_call_of(call, *BILINEAR) else None

    def _calculated(
        self, call: relay.Call, data: relay.Expr, argument: relay.Expr, number: float
    ) -> _Scaled | None:
        """A sum, product or quotient of a value and a number on its right."""
        scaled = self._scaled.get(data, _Scaled(argument, 1.0))
        if is_call_of(call, "multiply"):
            return _Scaled(scaled.value, scaled.factor * number) if number else None
        if is_call_of(call, "divide"):
            return _Scaled(scaled.value, scaled.factor / number) if abs(number) > LEAST else None
        addend = number / scaled.factor * (-1 if is_call_of(call, "subtract") else 1)
        return _Scaled(_with_number("add", scaled.value, addend, call), scaled.factor)

    def _product(self, call: relay.Call, arguments: list[relay.Expr]) -> _Scaled | None:
        if not self._computed.issuperset(call.args):
            return None  # what is scaled behind weights stands between them and their bias
        operands, factor = list(arguments), 1.0
        for place, each in enumerate(call.args):
            scaled = self._scaled.get(each)
            # The factor of a gate, one number a channel, would be done for each element.
            small = is_call_of(call, "multiply") and _size(each) < _size(call)
            if scaled is not None and not small:
                operands[place] = scaled.value
                factor *= scaled.factor
        return None if factor == 1.0 else _Scaled(copy_call(call, operands), factor)


def _number(expression: relay.Expr, other: relay.Expr, call: relay.Call) -> float | None:
    """The finite number that an operand is; None where it decides on the result's shape."""
    if not isinstance(expression, relay.Constant) or prod(expression.data.shape) != 1:
        return None
    number = float(values_of(expression).item())
    return number if isfinite(number) and static_shape(other) == static_shape(call) else None


def _moved(call: relay.Call, scaled: _Scaled) -> _Scaled:
    return _Scaled(copy_call(call, [scaled.value]), scaled.factor)


def _clipped(call: relay.Call, scaled: _Scaled) -> _Scaled:
    low, high = sorted(end / scaled.factor for end in (call.attrs.a_min, call.attrs.a_max))
    return _Scaled(spanned(relay.clip(scaled.value, low, high), call), scaled.factor)


def _with_number(name: str, value: relay.Expr, number: float, call: relay.Call) -> relay.Call:
    operands = [value, relay.const(number, DTYPE)]
    return relay.Call(relay.op.get(name), operands, None, None, call.span)


def _is_float(expression: relay.Expr) -> bool:
    return static_shape(expression) is not None and expression.checked_type.dtype == DTYPE


def _size(expression: relay.Expr) -> int:
    return prod(static_shape(expression) or ())
