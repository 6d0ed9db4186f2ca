"""Gate of mish with one exponential: the hyperbolic tangent of the logarithm of 1 + exp(x).

Written out, the logarithm goes away: with e = exp(x) the gate is e (e + 2) / (e (e + 2) + 2). It
takes less time, and small gates keep the digits that 1 + e has no place for. Goes in
front of fusion, after common subexpressions were found.
"""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import copy_call, graph_order, is_call_of, rebuild, with_body

__all__ = ["with_short_mish"]

SATURATED = 20.0
"""Argument from which on the gate is 1 in float32; the exponential squared is finite there."""


def with_short_mish(module: tvm.IRModule) -> tvm.IRModule:
    """Module whose float32 gates of mish need no logarithm; the same one if it has none."""
    body = module["main"].body
    gates = {
        call: source
        for call in graph_order(body)
        if is_call_of(call, "tanh")
        and (source := _source(call.args[0])) is not None
        and tvm.ir.structural_equal(source.checked_type, call.checked_type)
    }
    if not gates:
        return module
    known: dict[relay.Expr, relay.Expr] = {}

    def shortened(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        return _gate(known[gates[call]]) if call in gates else copy_call(call, arguments)

    return with_body(module, rebuild(body, known, shortened))


def _gate(source: relay.Expr) -> relay.Expr:
    two = relay.const(2.0)
    # In this order TVM's minimum hands on what is not a number.
    power = relay.exp(relay.minimum(relay.const(SATURATED), source))
    product = power * (power + two)
    return product / (product + two)


def _source(softplus: relay.Expr) -> relay.Expr | None:
    """Argument of a softplus, with or without the linear part that PyTorch's has."""
    if not is_call_of(softplus, "where"):
        return _of_logarithm(softplus)
    condition, linear, smooth = softplus.args
    source = _of_logarithm(smooth)
    is_linear = is_call_of(condition, "greater") and condition.args[0] == linear == source
    return source if is_linear and _at_least(condition.args[1]) else None


def _of_logarithm(smooth: relay.Expr) -> relay.Expr | None:
    """The x of log(1 + exp(x)) in float32."""
    if not is_call_of(smooth, "log") or smooth.checked_type.dtype != "float32":
        return None
    total = smooth.args[0]
    if not is_call_of(total, "add"):
        return None
    for power, one in (total.args, reversed(total.args)):
        if is_call_of(power, "exp") and _number(one) == 1.0:
            return power.args[0]
    return None


def _at_least(threshold: relay.Expr) -> bool:
    """True if softplus is its argument, in float32, above a threshold."""
    number = _number(threshold)
    return number is not None and number >= SATURATED


def _number(expression: relay.Expr) -> float | None:
    """Value of a constant that is one number; None of another expression."""
    if not isinstance(expression, relay.Constant) or expression.data.numpy().size != 1:
        return None
    return float(expression.data.numpy().item())
