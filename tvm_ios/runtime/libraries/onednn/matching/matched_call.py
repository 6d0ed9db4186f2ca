"""Recognises fused functions that one call of oneDNN computes.

Such a function begins with a convolution, transposed convolution, product, pooling or softmax, in a
layout that is one of oneDNN's formats. Functions of each element follow. All of it computes in
float32; tensors may lie in memory as bfloat16.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive
from tvm_ios.runtime.libraries.onednn.matching.attributes import (
    images_of,
    layout_of,
    plain,
    window_of,
)
from tvm_ios.runtime.libraries.onednn.matching.pooling import read_pooling
from tvm_ios.runtime.libraries.onednn.matching.softmax import read_softmax
from tvm_ios.runtime.libraries.onednn.matching.steps import read_steps
from tvm_ios.runtime.libraries.onednn.matching.whole_numbers import in_whole_numbers
from tvm_ios.runtime.libraries.onednn.tensors import (
    DATA_TYPES,
    FORMATS,
    OnednnTensor,
    in_order,
    is_format,
)

__all__ = ["match_call"]

REWRITTEN = ("auto_scheduler_rewritten_layout", "meta_schedule_original_shape")
"""Attributes by which TVM's tuners say that the weights lie in another order."""


def match_call(function: FusedFunction) -> OnednnCall | None:
    """The call that computes a fused function; None where there is no such call."""
    function = _channels_last(function)
    first = function.calls[0]
    # What is compared is no number; it is read by a step or not at all.
    dtypes = {call.result.dtype for call in function.calls if call.operator != "less"}
    inside = any(operand >= len(function.parameters) for operand in first.operands)
    if dtypes != {"float32"} or inside or not first.operands:
        return None
    rounded = function.rounded_to.dtype if function.rounded_to else "float32"
    in_memory = (rounded, *(each.dtype for each in function.parameters))
    if not DATA_TYPES.keys() >= {*in_memory}:
        return None
    if any(first.attribute(name) for name in REWRITTEN):
        return None
    made = _first_call(function, first)
    if made is None or not all(is_format(each.format) for each in (*made.inputs, made.result)):
        return None
    if made.weight is not None:
        constant = made.weight.position in function.constants
        made = replace(made, weight=replace(made.weight, constant=constant))
    call = read_steps(function, made)
    call = None if call is None else in_whole_numbers(function, call)
    return call if call is None or {*in_memory} == {"float32"} else _in_memory(function, call)


def _in_memory(function: FusedFunction, call: OnednnCall) -> OnednnCall:
    """The call with tensors of the types that they have in memory."""

    def typed(tensor: OnednnTensor) -> OnednnTensor:
        if tensor.position is None:
            return replace(
                tensor, dtype=function.rounded_to.dtype if function.rounded_to else "float32"
            )
        return replace(tensor, dtype=function.parameters[tensor.position].dtype)

    return replace(
        call,
        data=typed(call.data),
        weight=None if call.weight is None else typed(call.weight),
        bias=None if call.bias is None else typed(call.bias),
        result=typed(call.result),
        steps=tuple(
            step if step.operand is None else replace(step, operand=typed(step.operand))
            for step in call.steps
        ),
    )


def _channels_last(function: FusedFunction) -> FusedFunction:
    """A function that changes its images to NCHW and back, as one in NHWC; others unchanged.

    TVM has transposed convolutions of NCHW only.
    """
    first = len(function.parameters)
    match function.calls:
        case (
            PrimitiveCall(operator="transpose", operands=(data,)) as before,
            PrimitiveCall(operator="nn.conv2d_transpose", operands=(moved, weight)) as call,
            PrimitiveCall(operator="transpose") as after,
            *others,
        ) if (
            (moved, *after.operands) == (first, first + 1)
            and (before.wholes("axes"), after.wholes("axes")) == ((0, 3, 1, 2), (0, 2, 3, 1))
            and not any({first, first + 1} & set(other.operands) for other in others)
            and data < first
        ):
            layouts = {"data_layout": "NHWC", "out_layout": "NHWC"}
            attributes = tuple((dict(call.attributes) | layouts).items())
            calls = (
                replace(call, operands=(data, weight), result=after.result, attributes=attributes),
                *(
                    replace(other, operands=tuple(o - 2 * (o > first) for o in other.operands))
                    for other in others
                ),
            )
            return replace(function, calls=calls)
    return function


def _first_call(function: FusedFunction, first: PrimitiveCall) -> OnednnCall | None:
    if len(first.operands) == 1:
        return read_pooling(function, first) or read_softmax(function, first)
    match first.operator:
        case (
            "nn.conv2d"
            | "nn.conv3d"
            | "nn.contrib_conv2d_NCHWc"
            | "nn.contrib_depthwise_conv2d_NCHWc"
        ):
            return _convolution(function, first)
        case "nn.conv2d_transpose":
            return _transposed(function, first)
        case "nn.dense" | "nn.contrib_dense_pack" | "nn.batch_matmul" | "matmul":
            return _product(function, first)
        case _:
            return None


def _convolution(function: FusedFunction, first: PrimitiveCall) -> OnednnCall | None:
    data_layout, kernel_layout = (layout_of(first, f"{name}_layout") for name in ("data", "kernel"))
    out_layout = layout_of(first, "out_layout") or data_layout
    groups = first.wholes("groups")[0]
    data_shape, weight_shape = (function.parameters[each].shape for each in first.operands)
    data = images_of(data_layout, data_shape, first.operands[0])
    result = images_of(out_layout, first.result.shape, None)
    if data is None or result is None:
        return None
    channels = (result.extents[1], data.extents[1] // groups)
    weight = _kernel(kernel_layout, weight_shape, groups, channels, first.operands[1])
    if weight is None:
        return None
    return OnednnCall(
        primitive=Primitive.CONVOLUTION,
        data=data,
        weight=weight,
        bias=None,
        result=result,
        window=window_of(first, len(data.extents) - 2),
    )


def _transposed(function: FusedFunction, first: PrimitiveCall) -> OnednnCall | None:
    groups = first.wholes("groups")[0]
    layout = layout_of(first, "data_layout")
    if layout_of(first, "kernel_layout") != "IOHW" or groups != 1:
        return None
    data_shape, (inputs, outputs, *kernel) = (
        function.parameters[each].shape for each in first.operands
    )
    data = images_of(layout, data_shape, first.operands[0])
    result = images_of(layout, first.result.shape, None)
    if data is None or result is None:
        return None
    window = window_of(first)
    top, left, bottom, right = window.padding
    high, wide = first.wholes("output_padding")
    # oneDNN has no output padding: the rows it adds are those that so much less padding leaves.
    if bottom < high or right < wide:
        return None
    return OnednnCall(
        primitive=Primitive.TRANSPOSED,
        data=data,
        weight=OnednnTensor(
            position=first.operands[1],
            shape=(inputs, outputs, *kernel),
            extents=(outputs, inputs, *kernel),
            format="bacd",
        ),
        bias=None,
        result=result,
        window=replace(window, padding=(top, left, bottom - high, right - wide)),
    )


def _product(function: FusedFunction, first: PrimitiveCall) -> OnednnCall | None:
    left, right = first.operands
    left_shape, right_shape = (function.parameters[each].shape for each in first.operands)
    result = plain(first.result.shape, None)
    if first.operator == "nn.batch_matmul":
        data = _matrices(left_shape, bool(first.attribute("transpose_a")), left)
        weight = _matrices(right_shape, bool(first.attribute("transpose_b")), right)
    elif first.operator == "matmul":
        return _matmul((left_shape, right_shape), first)
    elif len(left_shape) != 2:
        return None
    elif first.operator == "nn.dense":
        data, weight = plain(left_shape, left), _matrices(right_shape, True, right)
    else:
        blocks, inner, block = right_shape
        if layout_of(first, "weight_layout") != f"NC{block}n":
            return None
        # Rows in blocks of 16 lie as rows one by one: it is what the blocks are made of.
        # Of bytes in blocks it makes no sums for zero points.
        format_ = f"BA16a{block}b"
        whole_blocks = not inner % 16 and function.parameters[right].dtype != "int8"
        data = plain(left_shape, left)
        weight = OnednnTensor(
            position=right,
            shape=right_shape,
            extents=(inner, blocks * block),
            format=format_ if whole_blocks and format_ in FORMATS else f"Ba{block}b",
        )
    return OnednnCall(
        primitive=Primitive.PRODUCT, data=data, weight=weight, bias=None, result=result
    )


def _matmul(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], first: PrimitiveCall
) -> OnednnCall | None:
    """Product of Relax: rows of a tensor with one matrix, or pairs of equally many matrices."""
    if min(map(len, shapes)) < 2:
        return None
    (*count, rows, _), (*others, inner, columns) = shapes
    if others and others != count:
        return None
    many = (math.prod(count),) if others else ()
    rows *= 1 if others else math.prod(count)
    data, weight, result = (
        OnednnTensor(position=position, shape=shape, extents=extents, format=in_order(len(extents)))
        for position, shape, extents in (
            (first.operands[0], shapes[0], (*many, rows, inner)),
            (first.operands[1], shapes[1], (*many, inner, columns)),
            (None, first.result.shape, (*many, rows, columns)),
        )
    )
    return OnednnCall(
        primitive=Primitive.PRODUCT, data=data, weight=weight, bias=None, result=result
    )


def _matrices(shape: tuple[int, ...], transposed: bool, position: int) -> OnednnTensor:
    """A matrix or several; a transposed one is described by the matrix it stands for."""
    *count, rows, columns = shape
    extents = (*count, columns, rows) if transposed else shape
    formats = ("ba", "acb") if transposed else ("ab", "abc")
    return OnednnTensor(position=position, shape=shape, extents=extents, format=formats[len(count)])


def _kernel(
    layout: str, shape: tuple[int, ...], groups: int, channels: tuple[int, int], position: int
) -> OnednnTensor | None:
    """Weights in a layout of TVM; None for layouts that no format of oneDNN describes."""
    outputs, inputs = channels
    letters = re.sub(r"\d+", "", layout)
    if len(letters) != len(shape) or not {"H", "W"} <= set(letters):
        return None
    axes = dict(zip(letters, shape, strict=True))
    kernel = tuple(axes[letter] for letter in "DHW" if letter in axes)
    blocks = {letter: int(size) for size, letter in re.findall(r"(\d+)([a-z])", layout)}
    grouped = groups > 1
    if grouped:
        extents: tuple[int, ...] = (groups, outputs // groups, inputs, *kernel)
    else:
        extents = (outputs, inputs, *kernel)
    depthwise = grouped and outputs == groups and inputs == 1
    match letters:
        case "OIHW" | "OIDHW":
            format_ = in_order(len(extents))
        case "HWIO":
            format_ = "decab" if grouped else "cdba"
        case "DHWIO":
            format_ = "defcab" if grouped else "cdeba"
        case "HWOI" if depthwise:
            format_ = "decab"
        case "OIHWio" if depthwise and blocks["i"] == 1:
            format_ = f"Abcde{blocks['o']}a"
        case "OIHWio" if not grouped:
            format_ = _blocked_kernel(blocks["i"], blocks["o"], inputs, kernel)
        case _:
            return None
    return OnednnTensor(position=position, shape=shape, extents=extents, format=format_)


def _blocked_kernel(inner: int, outer: int, inputs: int, kernel: tuple[int, ...]) -> str:
    """Format with blocks of input channels inside, and blocks of output channels inside those.

    With one block of inputs, or a kernel of one element, the inputs lie one after the other.
    """
    if f"ABcd{inner}b{outer}a" in FORMATS:
        return f"ABcd{inner}b{outer}a"
    one_by_one = inner == inputs or kernel == (1, 1)
    return f"Acdb{outer}a" if one_by_one else ""
