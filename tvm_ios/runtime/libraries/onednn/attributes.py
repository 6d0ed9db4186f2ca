"""Reads layouts and attributes of primitive operators as oneDNN has them. No TVM."""

from __future__ import annotations

import re

from tvm_ios.core.fused_function import PrimitiveCall
from tvm_ios.runtime.libraries.onednn.call import Window
from tvm_ios.runtime.libraries.onednn.tensors import FORMATS, OnednnTensor

__all__ = ["images_of", "layout_of", "plain", "window_of"]


def plain(shape: tuple[int, ...], format_: str, position: int | None) -> OnednnTensor:
    """A tensor that is described as it lies."""
    return OnednnTensor(position=position, shape=shape, extents=shape, format=format_)


def images_of(layout: str, shape: tuple[int, ...], position: int | None) -> OnednnTensor | None:
    """Images in NCHW, NHWC or NCHW with blocks of channels; None for other layouts."""
    if layout == "NCHW":
        return plain(shape, "abcd", position)
    if layout == "NHWC":
        images, high, wide, channels = shape
        extents = (images, channels, high, wide)
        return OnednnTensor(position=position, shape=shape, extents=extents, format="acdb")
    found = re.fullmatch(r"NCHW(\d+)c", layout)
    if found is None or len(shape) != 5:
        return None
    images, blocks, high, wide, block = shape
    # One block of all channels is NHWC.
    format_ = "acdb" if blocks == 1 and f"aBcd{block}b" not in FORMATS else f"aBcd{block}b"
    extents = (images, blocks * block, high, wide)
    return OnednnTensor(position=position, shape=shape, extents=extents, format=format_)


def window_of(call: PrimitiveCall) -> Window:
    """Strides, padding and dilation of an operator that has them."""
    padding = call.wholes("padding")
    if len(padding) < 4:
        padding = (padding * 2)[:2] * 2
    top, left, bottom, right = padding
    vertical, horizontal = (call.wholes("strides") * 2)[:2]
    high, wide = (call.wholes("dilation") * 2)[:2]
    return Window(
        strides=(vertical, horizontal), padding=(top, left, bottom, right), dilation=(high, wide)
    )


def layout_of(call: PrimitiveCall, name: str) -> str:
    """An attribute that is a text; empty where there is none."""
    return str(call.attribute(name) or "")
