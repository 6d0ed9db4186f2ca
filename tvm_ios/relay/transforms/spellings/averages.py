"""Means of whole channels as poolings, which operator libraries know and layouts pass through."""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import (
    all_calls,
    copy_call,
    is_call_of,
    rebuild,
    spanned,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.functions.shapes import shape_of, static_shape
from tvm_ios.relay.transforms.norms.sums import reduced_axes

__all__ = ["with_pooled_channels"]

IMAGE = 4
"""Axes of a batch of images; the last two are height and width."""
NORMS = ("subtract", "variance")
"""Operators that read what a norm takes the mean of."""


def with_pooled_channels(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module with ``nn.global_avg_pool2d`` for each mean of whole channels.

    Norms keep theirs. The module itself is returned where there is no other.
    """
    body = module["main"].body
    calls = all_calls(body)
    normed = {each for call in calls if is_call_of(call, *NORMS) for each in call.args}
    pooled = {call for call in calls if _is_mean(call) and call.args[0] not in normed}
    if not pooled:
        return module

    def pool(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if call not in pooled:
            return copy_call(call, arguments)
        made = relay.nn.global_avg_pool2d(*arguments)
        named, shape = spanned(made, call), shape_of(call)
        return named if len(shape) == IMAGE else relay.reshape(named, shape)

    return with_body(module, rebuild(body, {}, pool))


def _is_mean(call: relay.Call) -> bool:
    if not call.args or len(static_shape(call.args[0]) or ()) != IMAGE:
        return False
    if is_call_of(call, "nn.adaptive_avg_pool2d"):
        ones = shape_of(call)[2:] == (1, 1)
        return ones and str(call_attribute(call, "layout")) == "NCHW"
    if not is_call_of(call, "mean") or "float" not in call.checked_type.dtype:
        return False
    return reduced_axes(call) == {2, 3}
