"""Convolutions in layouts of images for which TVM 0.27 has no kernels.

It lowers none in blocks of channels, and transposed ones in NCHW alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tvm import relax, te, topi

__all__ = ["LOWERED"]

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def _convolution(rule: Rule, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Kernel of a convolution; one in blocks is of all channels or of each by itself."""
    attributes = call.attrs
    layouts = (attributes.data_layout, attributes.out_layout)
    if not any(each.endswith("c") for each in layouts):
        return rule(builder, call)
    window = (attributes.strides, attributes.padding, attributes.dilation)
    if attributes.groups != 1:
        return builder.call_te(_depthwise, *call.args, *window, primfunc_name_hint="conv2d")
    return builder.call_te(
        topi.nn.conv2d_NCHWc, *call.args, *window, *layouts, primfunc_name_hint="conv2d"
    )


def _depthwise(
    data: te.Tensor, weight: te.Tensor, strides: Any, padding: Any, dilation: Any
) -> te.Tensor:
    """Convolution of each channel by itself; that of topi wants a schedule of AutoTVM."""
    top, left, bottom, right = map(int, padding)
    padded = topi.nn.pad(data, (0, 0, top, left, 0), (0, 0, bottom, right, 0))
    images, blocks, *size, block = padded.shape
    kernel = weight.shape[2:4]
    high, wide = (
        (extent - (part - 1) * by - 1) // stride + 1
        for extent, part, by, stride in zip(size, kernel, dilation, strides, strict=True)
    )
    row, column = (
        te.reduce_axis((0, extent), name) for extent, name in zip(kernel, "rs", strict=True)
    )

    def summed(n: Any, c: Any, y: Any, x: Any, b: Any) -> Any:
        place = (y * strides[0] + row * dilation[0], x * strides[1] + column * dilation[1])
        value = padded[(n, c, *place, b)] * weight[c, 0, row, column, 0, b]
        return te.sum(value, axis=[row, column])

    return te.compute((images, blocks, high, wide, block), summed, name="depthwise_conv2d")


def _transposed(rule: Rule, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attributes = call.attrs
    layouts = (attributes.data_layout, attributes.kernel_layout, attributes.out_layout)
    if layouts != ("NHWC", "IOHW", "NHWC") or any(each != 1 for each in attributes.dilation):
        return rule(builder, call)
    strides, padding, more = (
        list(map(int, each))
        for each in (attributes.strides, attributes.padding, attributes.output_padding)
    )

    def compute(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        made = topi.nn.group_conv2d_transpose_nchw(
            topi.transpose(data, (0, 3, 1, 2)),
            weight,
            strides,
            padding,
            call.ty.dtype,
            more,
            int(attributes.groups),
        )
        return topi.transpose(made, (0, 2, 3, 1))

    return builder.call_te(compute, *call.args, primfunc_name_hint="conv2d_transpose")


LOWERED: Mapping[str, Callable[[Rule, relax.BlockBuilder, relax.Call], relax.Expr]] = (
    MappingProxyType({"nn.conv2d": _convolution, "nn.conv2d_transpose": _transposed})
)
"""Functions that make calls of kernels, given TVM's own rule for other layouts, by operator."""
