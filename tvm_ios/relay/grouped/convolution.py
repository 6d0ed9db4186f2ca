"""Reading of a call in Relay as the geometry of a depthwise or grouped convolution."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tvm
from tvm import relay

from tvm_ios.core.window_tiles import Axis
from tvm_ios.relay.grouped.geometry import Geometry, Image, vector_of

__all__ = ["OPERATORS", "geometry_of"]

OPERATORS = frozenset({"nn.conv2d", "nn.contrib_depthwise_conv2d_NCHWc"})
"""Operators that may be such convolutions."""


def geometry_of(call: relay.Call) -> Geometry | None:
    """Geometry of a convolution; None of one that these loops do not suit."""
    attributes = call.attrs
    types = [*(argument.checked_type for argument in call.args), call.checked_type]
    if any(type_.dtype != "float32" for type_ in types) or int(attributes.groups) < 2:
        return None
    data, weight, result = (tuple(int(extent) for extent in type_.shape) for type_ in types)
    groups = int(attributes.groups)
    layout = str(attributes.data_layout)
    if str(attributes.out_layout) not in ("", layout):
        return None
    if layout == "NHWC":
        return _channels_last(attributes, groups, data, weight, result)
    if re.fullmatch(r"NCHW\d+c", layout):
        return _in_blocks(attributes, groups, data, weight, result)
    return None


def _channels_last(
    attributes: tvm.ir.Attrs,
    groups: int,
    data: tuple[int, ...],
    weight: tuple[int, ...],
    result: tuple[int, ...],
) -> Geometry | None:
    batch, height, width, inputs = data
    _, high, wide, outputs = result
    each_inputs, each_outputs = inputs // groups, outputs // groups
    layout = str(attributes.kernel_layout)
    plain = layout == "HWIO" and weight[2:] == (each_inputs, outputs)
    if not plain and not (layout == "HWOI" and each_inputs == 1):
        return None
    vector = vector_of(outputs, each_inputs, each_outputs)
    if vector is None:
        return None
    rows, columns = _axes(attributes, (height, width), (high, wide), weight[:2])
    return Geometry(
        batch=batch,
        blocks=1,
        channels=outputs,
        group_inputs=each_inputs,
        group_outputs=each_outputs,
        rows=rows,
        columns=columns,
        data=Image(batch=height * width * inputs, block=0, row=width * inputs, column=inputs),
        vector=vector,
    )


def _in_blocks(
    attributes: tvm.ir.Attrs,
    groups: int,
    data: tuple[int, ...],
    weight: tuple[int, ...],
    result: tuple[int, ...],
) -> Geometry | None:
    batch, blocks, height, width, channels = data
    _, out_blocks, high, wide, out_channels = result
    same = (blocks, channels) == (out_blocks, out_channels) and groups == blocks * channels
    if not same or str(attributes.kernel_layout) != f"OIHW1i{channels}o":
        return None
    vector = vector_of(channels, 1, 1)
    if vector is None:
        return None
    kernel = weight[2:4]
    rows, columns = _axes(attributes, (height, width), (high, wide), kernel)
    row = width * channels
    return Geometry(
        batch=batch,
        blocks=blocks,
        channels=channels,
        group_inputs=1,
        group_outputs=1,
        rows=rows,
        columns=columns,
        data=Image(batch=blocks * height * row, block=height * row, row=row, column=channels),
        vector=vector,
    )


def _axes(
    attributes: tvm.ir.Attrs,
    data: Sequence[int],
    result: Sequence[int],
    kernel: Sequence[int],
) -> list[Axis]:
    padding = [int(each) for each in attributes.padding]
    return [
        Axis(
            extent=data[number],
            result=result[number],
            kernel=kernel[number],
            stride=int(attributes.strides[number]),
            before=padding[number % len(padding)],
            dilation=int(attributes.dilation[number]),
        )
        for number in range(2)
    ]
