"""Recognises poolings that oneDNN computes. No TVM.

A global average is an average over a kernel as large as the image.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Window
from tvm_ios.runtime.libraries.onednn.matching.attributes import (
    images_of,
    layout_of,
    window_of,
)
from tvm_ios.runtime.libraries.onednn.tensors import OnednnTensor

__all__ = ["read_pooling"]

GLOBAL = frozenset({"nn.global_avg_pool2d", "nn.adaptive_avg_pool2d"})


def read_pooling(function: FusedFunction, first: PrimitiveCall) -> OnednnCall | None:
    """The call that computes a pooling, without the steps after it; None for other operators."""
    kind = _kind(first)
    if kind is None:
        return None
    layout = layout_of(first, "layout")
    data = images_of(layout, function.parameters[first.operands[0]].shape, first.operands[0])
    result = images_of(layout_of(first, "out_layout") or layout, first.result.shape, None)
    if data is None or result is None or data.format != result.format:
        return None
    if first.operator in GLOBAL:
        if result.extents[2:] != (1, 1):
            return None
        high, wide = data.extents[2:]
        window = Window(strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), pooled=(high, wide))
    else:
        window = _ended(_window(first), data, result)
        if not _is_plain(window):
            return None
    return OnednnCall(
        primitive=kind, data=data, weight=None, bias=None, result=result, window=window
    )


def _kind(call: PrimitiveCall) -> Primitive | None:
    match call.operator:
        case "nn.max_pool2d":
            return Primitive.MAX_POOLING
        case "nn.avg_pool2d" if call.attribute("count_include_pad"):
            # What lies beyond the padding, where sizes are rounded up, would have to count, too.
            return None if call.attribute("ceil_mode") else Primitive.AVERAGE_POOLING
        case "nn.avg_pool2d" | "nn.global_avg_pool2d" | "nn.adaptive_avg_pool2d":
            return Primitive.AVERAGE_INSIDE
        case _:
            return None


def _window(call: PrimitiveCall) -> Window:
    high, wide = (call.wholes("pool_size") * 2)[:2]
    return replace(window_of(call), pooled=(high, wide))


def _ended(window: Window, data: OnednnTensor, result: OnednnTensor) -> Window:
    """The window with padding below and right as the extents of the result demand it."""
    top, left, _, _ = window.padding
    assert window.pooled is not None, "_window() gives it one"
    ends = [
        (result.extents[2 + axis] - 1) * window.strides[axis]
        + window.dilation[axis] * (window.pooled[axis] - 1)
        + 1
        - data.extents[2 + axis]
        - (top, left)[axis]
        for axis in (0, 1)
    ]
    return replace(window, padding=(top, left, max(0, ends[0]), max(0, ends[1])))


def _is_plain(window: Window) -> bool:
    """True if no place of the kernel lies in the padding alone, and the kernel has no gaps.

    oneDNN 3.2 refuses poolings with gaps as invalid where their sizes are those of TVM.
    """
    assert window.pooled is not None, "_window() gives it one"
    sizes = window.pooled * 2
    fits = all(zeros < size for zeros, size in zip(window.padding, sizes, strict=True))
    return fits and window.dilation == (1, 1)
