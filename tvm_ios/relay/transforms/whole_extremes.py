"""Extremes of whole tensors read them in the layout that they have.

Goes behind the choice of layouts: TVM gives every reduction its tensor in the layout of the model.
Dynamic quantisation has the least and the greatest number of each tensor, in whatever order.
"""

from __future__ import annotations

from math import prod

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import all_calls, copy_call, is_call_of, rebuild, spanned, with_body
from tvm_ios.relay.functions.shapes import RESHAPES, static_shape

__all__ = ["with_extremes_of_any_order"]

EXTREMES = {"max": relay.max, "min": relay.min}
MOVES = (*RESHAPES, "layout_transform", "transpose")


def with_extremes_of_any_order(module: tvm.IRModule) -> tvm.IRModule:
    """Module whose extremes of all elements read these where they lie; itself without any."""
    body = module["main"].body
    extremes = filter(_is_extreme, all_calls(body))
    if all(_source(call).same_as(call.args[0]) for call in extremes):
        return module

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if not _is_extreme(call):
            return copy_call(call, arguments)
        return spanned(EXTREMES[call.op.name](known[_source(call)]), call)

    known: dict[relay.Expr, relay.Expr] = {}
    return with_body(module, rebuild(body, known, call_of))


def _is_extreme(call: relay.Call) -> bool:
    """True for an extreme of all elements that is one number."""
    return is_call_of(call, *EXTREMES) and not call.checked_type.shape


def _source(extreme: relay.Call) -> relay.Expr:
    """Tensor with the elements of the one that an extreme reads."""
    value = extreme.args[0]
    size = _size(value)
    while is_call_of(value, *MOVES) and _size(value.args[0]) == size:
        value = value.args[0]
    return value


def _size(value: relay.Expr) -> int | None:
    shape = static_shape(value)
    return None if shape is None else prod(shape)
