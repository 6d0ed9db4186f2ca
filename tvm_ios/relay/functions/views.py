"""Kernels that only move whole pieces of memory: possible views for the memory plan.

A reshape is its input. A contiguous slice is a piece of its input. A concatenation along an axis
with only ones before it is its inputs one after another (design decision 7).
"""

from __future__ import annotations

import itertools

import tvm
from tvm import relay

from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.relay.functions.primitive import call_attribute, type_bytes
from tvm_ios.relay.functions.stored_types import computed_in_float32

__all__ = ["joined_arguments", "view_of"]

View = SliceView | ConcatView | None


def view_of(function: relay.Function, arguments: list[relay.Expr]) -> View:
    """View that a fused, typed function of static shapes computes; None where it needs its kernel.

    Only one with exactly one operator can be a view, and no concatenation of a tensor with itself.
    """
    stored = computed_in_float32(function)
    if stored.is_mixed:
        return None
    types = [parameter.checked_type for parameter in function.params]
    function = stored.computed
    if function.attrs is not None and "relay.reshape_only" in function.attrs:
        return SliceView(0)
    body = function.body
    if not isinstance(body, relay.Call) or not isinstance(body.op, tvm.ir.Op):
        return None
    if body.op.name == "strided_slice":
        return _slice_view(body, function, types)
    if body.op.name == "concatenate":
        return _concat_view(body, function, arguments, types)
    return None


def joined_arguments(
    function: relay.Function, arguments: list[relay.Expr]
) -> tuple[int, list[relay.Expr]] | None:
    """Axis and pieces of a fused function that is one concatenation; None where it is not."""
    stored = computed_in_float32(function)
    function, body = stored.computed, stored.computed.body
    if stored.is_mixed or not isinstance(body, relay.Call) or not isinstance(body.op, tvm.ir.Op):
        return None
    if body.op.name != "concatenate" or not isinstance(body.args[0], relay.Tuple):
        return None
    given = dict(zip(function.params, arguments, strict=True))
    fields = list(body.args[0].fields)
    if any(field not in given for field in fields):
        return None
    axis = int(call_attribute(body, "axis", 0)) % len(body.checked_type.shape)
    return axis, [given[field] for field in fields]


def _slice_view(body: relay.Call, function: relay.Function, types: list[tvm.ir.TensorType]) -> View:
    if len(function.params) != 1 or body.args[0] != function.params[0]:
        return None
    source = [int(extent) for extent in body.args[0].checked_type.shape]
    target = [int(extent) for extent in body.checked_type.shape]
    begins = _begins(body, source)
    if begins is None:
        return None
    cut = [axis for axis, extent in enumerate(source) if extent != target[axis]]
    if not cut:
        return SliceView(0)
    # Contiguous only if nothing but ones lies before the single cut axis.
    if len(cut) > 1 or any(extent != 1 for extent in source[: cut[0]]):
        return None
    row_bytes = type_bytes(types[0]) // source[cut[0]]
    return SliceView(begins[cut[0]] * row_bytes)


def _begins(body: relay.Call, shape: list[int]) -> list[int] | None:
    """Begin of a slice on every axis; None unless every stride is one."""
    strides = call_attribute(body, "strides")
    if strides is not None and any(int(stride) != 1 for stride in strides):
        return None
    given = call_attribute(body, "begin")
    if given is None:
        return None
    axes_attribute = call_attribute(body, "axes")
    axes = (
        [int(axis) % len(shape) for axis in axes_attribute]
        if axes_attribute is not None
        else list(range(len(given)))
    )
    begins = [0] * len(shape)
    for axis, value in zip(axes, given, strict=True):
        begin = int(value)
        begins[axis] = max(0, min(begin + shape[axis] if begin < 0 else begin, shape[axis]))
    return begins


def _concat_view(
    body: relay.Call,
    function: relay.Function,
    arguments: list[relay.Expr],
    types: list[tvm.ir.TensorType],
) -> View:
    pieces = body.args[0]
    if not isinstance(pieces, relay.Tuple) or list(pieces.fields) != list(function.params):
        return None
    if len(set(arguments)) != len(arguments):
        return None
    # No kernel writes a constant, so nothing would put it into its place.
    if any(isinstance(argument, relay.Constant) for argument in arguments):
        return None
    shape = [int(extent) for extent in body.checked_type.shape]
    axis = int(call_attribute(body, "axis", 0)) % len(shape)
    if any(extent != 1 for extent in shape[:axis]):
        return None
    sizes = [type_bytes(each) for each in types]
    return ConcatView(tuple(itertools.accumulate([0, *sizes[:-1]])))
