"""Variances over channels written as means, which TVM's layout pass gets right.

Behind a convolution of blocked channels the pass wants the mean that a variance reads in blocks,
too, and pads its one channel to a block with zeros, so that all but one variance in a block are
wrong. Goes in front of the choice of layouts.
"""

from __future__ import annotations

import math

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import all_calls, copy_call, is_call_of, rebuild, with_body
from tvm_ios.relay.transforms.norms.sums import reduced_axes

__all__ = ["without_channel_variances"]

CHANNELS = 1
"""Axis that TVM blocks in the layouts that models have."""


def without_channel_variances(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module in which no variance goes along channels, not that of a layer norm either."""
    calls = all_calls(module["main"].body)
    if any(is_call_of(call, "nn.layer_norm") and _goes_along_channels(call) for call in calls):
        # TVM's pipeline runs this pass as well, and then too late.
        module = relay.transform.InferType()(relay.transform.SimplifyInference()(module))
        calls = all_calls(module["main"].body)
    if not any(is_call_of(call, "variance") and _goes_along_channels(call) for call in calls):
        return module

    def plain(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if not (is_call_of(call, "variance") and _goes_along_channels(call)):
            return copy_call(call, arguments)
        return _as_mean(call, *arguments)

    return with_body(module, rebuild(module["main"].body, {}, plain))


def _goes_along_channels(call: relay.Call) -> bool:
    rank = len(call.args[0].checked_type.shape)
    if rank <= CHANNELS + 1:
        return False
    if call.op.name == "nn.layer_norm":
        return bool(int(call.attrs.axis) % rank == CHANNELS)
    return CHANNELS in reduced_axes(call)


def _as_mean(call: relay.Call, data: relay.Expr, mean: relay.Expr) -> relay.Expr:
    off = relay.subtract(data, mean)
    axes = sorted(reduced_axes(call))
    square = relay.mean(relay.multiply(off, off), axes, keepdims=bool(call.attrs.keepdims))
    if not call.attrs.unbiased:
        return square
    count = math.prod(int(call.args[0].checked_type.shape[axis]) for axis in axes)
    more = count / (count - 1) if count > 1 else math.inf
    return relay.multiply(square, relay.const(more, call.checked_type.dtype))
