"""Rules of how operators carry padded channels along, other than convolutions and dense layers.

A rule takes a call and its rewritten operands, of which at least one has padded channels, and gives
the call on them; None where the operator needs the original channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relay

from tvm_ios.relay.constants import constant, is_array
from tvm_ios.relay.dataflow import copy_call, spanned
from tvm_ios.relay.functions.primitive import call_attribute

__all__ = ["PADDING", "RULES", "Value", "gathered"]

PADDING = -1
"""Mark of an added channel in a channel map."""
CHANNEL_WISE = frozenset(
    {
        "abs",
        "annotation.stop_fusion",
        "cast",
        "clip",
        "copy",
        "negative",
        "nn.adaptive_avg_pool2d",
        "nn.adaptive_max_pool2d",
        "nn.avg_pool2d",
        "nn.global_avg_pool2d",
        "nn.global_max_pool2d",
        "nn.leaky_relu",
        "nn.max_pool2d",
        "nn.relu",
        "sigmoid",
        "tanh",
    }
)
"""Operators of one tensor whose every output channel comes from the same input channel, and is
finite where that is."""
BINARY = frozenset({"add", "maximum", "minimum", "multiply", "nn.bias_add", "subtract"})


@dataclass(frozen=True, slots=True)
class Value:
    """A rewritten expression, and the places of the original channels (axis 1) in it."""

    expression: relay.Expr
    channels: np.ndarray | None = None
    """Original channel of each new one, or PADDING; None where nothing changed."""


def gathered(values: np.ndarray, channels: np.ndarray, *, axis: int) -> np.ndarray:
    """Values in the new order of channels along an axis, zeros for added ones."""
    chosen = np.take(values, np.maximum(channels, 0), axis=axis)
    shape = [-1 if place == axis else 1 for place in range(values.ndim)]
    added = (channels == PADDING).reshape(shape)
    return np.asarray(np.where(added, values.dtype.type(0), chosen))


def _channel_wise(call: relay.Call, operands: Sequence[Value]) -> Value | None:
    if len(operands) != 1 or str(call_attribute(call, "layout", "NCHW")) != "NCHW":
        return None
    return Value(copy_call(call, [operands[0].expression]), operands[0].channels)


def _binary(call: relay.Call, operands: Sequence[Value]) -> Value | None:
    """Binary operator on two tensors with the same channels, or on one and constants."""
    channels = next(value.channels for value in operands if value.channels is not None)
    rank = len(call.checked_type.shape)
    if call.op.name == "nn.bias_add" and int(call_attribute(call, "axis")) % rank != 1:
        return None
    arguments = []
    for argument, value in zip(call.args, operands, strict=True):
        if value.channels is not None:
            same = len(value.channels) == len(channels) and (value.channels == channels).all()
            if not same or len(argument.checked_type.shape) != rank:
                return None
            arguments.append(value.expression)
        elif is_array(argument):
            axis = 0 if call.op.name == "nn.bias_add" else argument.data.numpy().ndim - rank + 1
            arguments.append(_constant(argument, channels, axis))
        else:
            return None
    return Value(copy_call(call, arguments), channels)


def _constant(operand: relay.Constant, channels: np.ndarray, axis: int) -> relay.Expr:
    """Constant operand with a value for each channel, zero for added ones."""
    values = operand.data.numpy()
    if axis < 0 or values.shape[axis] == 1:
        return operand
    return constant(gathered(values, channels, axis=axis))


def _pad(call: relay.Call, operands: Sequence[Value]) -> Value | None:
    """Padding of height and width only."""
    widths = [[int(extent) for extent in pair] for pair in call_attribute(call, "pad_width")]
    if len(widths) != 4 or widths[1] != [0, 0] or operands[1].channels is not None:
        return None
    return Value(
        copy_call(call, [operands[0].expression, operands[1].expression]), operands[0].channels
    )


def _slice(call: relay.Call, operands: Sequence[Value]) -> Value | None:
    """Slice of height and width, with all channels."""
    begin, end, strides = (
        [int(value) for value in call_attribute(call, name) or ()]
        for name in ("begin", "end", "strides")
    )
    axes = call_attribute(call, "axes")
    places = [int(axis) for axis in axes] if axes else list(range(len(begin)))
    shape = call.args[0].checked_type.shape
    if str(call_attribute(call, "slice_mode")) != "end" or any(axis < 0 for axis in places):
        return None
    if 1 in places:
        place = places.index(1)
        stride = strides[place] if place < len(strides) else 1
        if begin[place] != 0 or end[place] < int(shape[1]) or stride != 1:
            return None
        end[place] = len(_channels(operands[0]))
    made = relay.strided_slice(
        operands[0].expression, begin, end, strides or None, axes=places if axes else None
    )
    return Value(spanned(made, call), operands[0].channels)


def _flatten(call: relay.Call, operands: Sequence[Value]) -> Value | None:
    """Flattening of one pixel, where channels stay channels."""
    batch, channels, *pixels = (int(extent) for extent in call.args[0].checked_type.shape)
    shape = [int(extent) for extent in call.checked_type.shape]
    if any(extent != 1 for extent in pixels) or shape != [batch, channels]:
        return None
    made = relay.reshape(operands[0].expression, (batch, len(_channels(operands[0]))))
    return Value(spanned(made, call), operands[0].channels)


def _mean(call: relay.Call, operands: Sequence[Value]) -> Value | None:
    """Mean over height and width."""
    axes = call_attribute(call, "axis")
    if call_attribute(call, "exclude") or not axes or {int(axis) for axis in axes} != {2, 3}:
        return None
    return Value(copy_call(call, [operands[0].expression]), operands[0].channels)


def _channels(value: Value) -> np.ndarray:
    """Channel map of an operand that has one."""
    assert value.channels is not None
    return value.channels


_Rule = Callable[[relay.Call, Sequence[Value]], Value | None]
RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(CHANNEL_WISE, _channel_wise),
    **dict.fromkeys(BINARY, _binary),
    "nn.pad": _pad,
    "strided_slice": _slice,
    "mean": _mean,
    "nn.batch_flatten": _flatten,
    "reshape": _flatten,
    "squeeze": _flatten,
}
