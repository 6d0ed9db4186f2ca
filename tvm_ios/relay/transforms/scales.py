"""Markers that keep gates out of the weights of convolutions and products.

TVM's FoldScaleAxis multiplies the weights of a convolution or product if its data or result is
multiplied by a value a channel. Where that value is computed in every run, as the gate of a
squeeze-and-excite block, or a hard swish in front of a product of one row, the weights are scaled
and laid out anew in every run, too. A marker that the pass does not look through holds such a
product back; it is removed before operators are fused. Another one keeps scales of the data out of
weights that are to stay bytes: they would be whole steps no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from math import prod

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import (
    computed_values,
    copy_call,
    graph_order,
    is_call_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.transforms.quantised.packed_weights import may_read_bytes

__all__ = ["free_scales", "hold_scales"]

WEIGHTED = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense")
"""Operators whose weights the pass scales."""
MARKER = "annotation.checkpoint"
SCALING = 2
"""Cost of an element of weights, which is scaled and laid out, per element of the data."""


def hold_scales(module: tvm.IRModule, params: Collection[str]) -> tuple[tvm.IRModule, int]:
    """Module with markers around products with gates, and before weights of bytes; their number.

    A product gets no marker behind it where it is larger than the weights it would go into.
    ``params`` are the parameters among the inputs.
    """
    main = module["main"]
    order = graph_order(main.body)
    computed = computed_values(order, params)
    weights: dict[relay.Expr, int] = defaultdict(int)
    for each in order:
        if is_call_of(each, *WEIGHTED):
            weights[each.args[0]] += _size(each.args[1])
    held = 0

    def mark(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        nonlocal held
        if may_read_bytes(call):
            held += 1
            return copy_call(call, [_marked(arguments[0]), *arguments[1:]])
        gated = is_call_of(call, "multiply") and all(each in computed for each in call.args)
        if not gated:
            return copy_call(call, arguments)
        held += 1
        inside = [
            _marked(argument) if _size(each) == _size(call) else argument
            for each, argument in zip(call.args, arguments, strict=True)
        ]
        product = copy_call(call, inside)
        return _marked(product) if SCALING * weights[call] > _size(call) else product

    body = rebuild(main.body, {}, mark)
    return (with_body(module, body) if held else module), held


def free_scales(module: tvm.IRModule) -> tvm.IRModule:
    """Module without markers."""

    def unmark(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        return arguments[0] if is_call_of(call, MARKER) else copy_call(call, arguments)

    return with_body(module, rebuild(module["main"].body, {}, unmark))


def _size(expression: relay.Expr) -> int:
    # Parameters that were just bound have no type yet.
    typed = expression.data if isinstance(expression, relay.Constant) else expression.checked_type
    return prod(int(extent) for extent in typed.shape)


def _marked(expression: relay.Expr) -> relay.Expr:
    return relay.annotation.checkpoint(expression)
