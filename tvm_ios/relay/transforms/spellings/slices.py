"""Parts of tensors as slices: those that lie in one piece, and single entries of an axis.

A split whose parts lie one after another, as queries, keys and values do in front of attention, is
a kernel that copies them; slices of it are views, or part of the kernel that reads them.
"""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.relay.constants import is_array, values_of
from tvm_ios.relay.dataflow import all_calls, copy_call, is_call_of, rebuild, spanned, with_body
from tvm_ios.relay.functions.shapes import shape_of, static_shape

__all__ = ["with_slices"]


def with_slices(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module with ``strided_slice`` in place of such splits, and of ``take`` of one entry.

    The module itself is returned where it has none.
    """
    body = module["main"].body
    if not any(_is_split(call) or _entry(call) is not None for call in all_calls(body)):
        return module

    def cut(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if _is_split(call):
            return _parts(call, arguments[0])
        if (entry := _entry(call)) is not None:
            part = _slice(arguments[0], int(call.attrs.axis), entry, entry + 1, call)
            return relay.reshape(part, shape_of(call))
        return copy_call(call, arguments)

    return with_body(module, rebuild(body, {}, cut))


def _is_split(call: relay.Call) -> bool:
    """True if a call cuts a tensor into parts that lie one after another."""
    if not is_call_of(call, "split"):
        return False
    shape = static_shape(call.args[0])
    return shape is not None and set(shape[: int(call.attrs.axis) % len(shape)]) <= {1}


def _parts(call: relay.Call, data: relay.Expr) -> relay.Tuple:
    axis = int(call.attrs.axis) % len(call.args[0].checked_type.shape)
    extents = [int(each.shape[axis]) for each in call.checked_type.fields]
    ends = [sum(extents[: place + 1]) for place in range(len(extents))]
    begins = [0, *ends[:-1]]
    return relay.Tuple(
        [_slice(data, axis, begin, end, call) for begin, end in zip(begins, ends, strict=True)]
    )


def _entry(call: relay.Call) -> int | None:
    """The one place that a call takes along an axis; None where it takes others."""
    if not is_call_of(call, "take") or call.attrs.axis is None:
        return None
    data, place = call.args
    shape = static_shape(data)
    if shape is None or not is_array(place) or place.data.shape or int(call.attrs.batch_dims):
        return None
    number, extent = int(values_of(place)), shape[int(call.attrs.axis)]
    number += extent if number < 0 and str(call.attrs.mode) == "wrap" else 0
    return number if 0 <= number < extent else None


def _slice(data: relay.Expr, axis: int, begin: int, end: int, call: relay.Call) -> relay.Call:
    made = relay.strided_slice(data, [begin], [end], axes=[axis])
    return spanned(made, call)
