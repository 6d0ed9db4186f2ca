"""Layouts and attributes of primitive operators in oneDNN's terms. No TVM."""

from __future__ import annotations

import re

from tvm_ios.core.fused_function import PrimitiveCall
from tvm_ios.runtime.libraries.onednn.call import Window
from tvm_ios.runtime.libraries.onednn.tensors import CHANNELS_LAST, FORMATS, OnednnTensor, in_order

__all__ = ["images_of", "layout_of", "plain", "window_of"]


def plain(shape: tuple[int, ...], position: int | None) -> OnednnTensor:
    """A tensor whose axes lie in their order."""
    return OnednnTensor(position=position, shape=shape, extents=shape, format=in_order(len(shape)))


def images_of(layout: str, shape: tuple[int, ...], position: int | None) -> OnednnTensor | None:
    """Images in NCHW, NHWC or NCHW with blocks of channels; None for other layouts.

    A depth comes before the height where images have one.
    """
    if layout in ("NCHW", "NCDHW"):
        return plain(shape, position)
    if layout in ("NHWC", "NDHWC"):
        images, *sizes, channels = shape
        extents = (images, channels, *sizes)
        format_ = CHANNELS_LAST[len(extents)]
        return OnednnTensor(position=position, shape=shape, extents=extents, format=format_)
    found = re.fullmatch(r"NCHW(\d+)c", layout)
    if found is None or len(shape) != 5:
        return None
    images, blocks, high, wide, block = shape
    # One block of all channels is NHWC.
    whole = blocks == 1 and f"aBcd{block}b" not in FORMATS
    format_ = CHANNELS_LAST[4] if whole else f"aBcd{block}b"
    extents = (images, blocks * block, high, wide)
    return OnednnTensor(position=position, shape=shape, extents=extents, format=format_)


def window_of(call: PrimitiveCall, axes: int = 2) -> Window:
    """Strides, padding and dilation of an operator along a number of axes."""
    padding = call.wholes("padding")
    if len(padding) < 2 * axes:
        padding = (padding * axes)[:axes] * 2
    strides, dilation = ((call.wholes(name) * axes)[:axes] for name in ("strides", "dilation"))
    return Window(strides=strides, padding=padding, dilation=dilation)


def layout_of(call: PrimitiveCall, name: str) -> str:
    """Attribute that is a text; empty where there is none."""
    return str(call.attribute(name) or "")
