"""Test whether TVM's ``SimplifyExpr`` would change a module, or harm it.

The pass infers types some 25 times even where it finds nothing, a seventh of the time of a build,
and one of its rewrites computes shared operators twice (seen in TVM 0.17).
"""

from __future__ import annotations

from collections import defaultdict

import tvm
from tvm import relay

from tvm_ios.relay.constants import is_scalar
from tvm_ios.relay.dataflow import all_calls, graph_order, is_call_of

__all__ = ["adds_to_itself", "may_share", "may_simplify"]

INERT = frozenset(
    {
        "concatenate",
        "expand_dims",
        "nn.avg_pool2d",
        "nn.batch_flatten",
        "nn.bias_add",
        "nn.contrib_conv2d_NCHWc",
        "nn.contrib_dense_pack",
        "nn.contrib_depthwise_conv2d_NCHWc",
        "nn.conv2d",
        "nn.dense",
        "nn.global_avg_pool2d",
        "nn.max_pool2d",
        "nn.relu",
        "nn.softmax",
    }
)
"""Operators that no rewrite of SimplifyExpr begins or ends with, in any TVM with Relay."""
ADDITION = frozenset({"add"})
MOVING = frozenset({"layout_transform"})
"""Operators that are rewritten only next to another one, or where they do nothing."""


def adds_to_itself(module: tvm.IRModule) -> bool:
    """True if ``main`` adds a tensor to itself.

    With ``f(x) + f(x)``, found by common subexpressions, SimplifyExpr duplicates ``f`` and all
    before it, at each such place anew. Linear in the size of ``main``.
    """
    return any(
        is_call_of(call, *ADDITION) and call.args[0].same_as(call.args[1])
        for call in all_calls(module["main"])
    )


def may_share(module: tvm.IRModule) -> bool:
    """True if ``main`` computes something twice, as far as one call shows. Linear in its size."""
    alike: dict[tuple[object, ...], list[relay.Call]] = defaultdict(list)
    for call in all_calls(module["main"]):
        alike[call.op.handle.value, *map(_argument, call.args)].append(call)
    return any(
        len({tvm.ir.structural_hash(call.attrs) for call in calls}) < len(calls)
        for calls in alike.values()
        if len(calls) > 1
    )


def _argument(expression: relay.Expr) -> object:
    """Identity of an argument of a call; two scalars of one value have the same."""
    if not is_scalar(expression):
        return expression.handle.value
    return expression.data.dtype, expression.data.numpy().item()


def may_simplify(module: tvm.IRModule) -> bool:
    """True if SimplifyExpr could find something in ``main``, or if that is not known."""
    return any(
        isinstance(expression, relay.Call) and not _is_inert(expression)
        for expression in graph_order(module["main"].body)
    )


def _is_inert(call: relay.Call) -> bool:
    if not isinstance(call.op, tvm.ir.Op):
        return False
    name = call.op.name
    if name in MOVING:
        moved_before = any(is_call_of(source, *MOVING) for source in call.args)
        return not moved_before and call.attrs.src_layout != call.attrs.dst_layout
    if name in ADDITION:
        left, right = call.args
        if left.same_as(right) or is_scalar(left) or is_scalar(right):
            return False
        return not _adds_constant(call) or not any(_adds_constant(side) for side in call.args)
    return name in INERT


def _adds_constant(expression: relay.Expr) -> bool:
    """True for an addition of a constant; two of them in a row become one."""
    return is_call_of(expression, *ADDITION) and any(
        isinstance(side, relay.Constant) for side in expression.args
    )
