from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network
from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall, TensorType
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.relax.extract import convolution_pattern
from tvm_ios.relax.prepare import prepare

OP = relax.op


def function_of(
    shapes: list[tuple[int, ...]], layouts: tuple[str, str, str], bias: int | None = None
) -> FusedFunction:
    """Convolution of parameters 0 and 1 in a layout, with the bias of a parameter added."""
    parameters = tuple(TensorType(shape, "float32") for shape in shapes)
    result = TensorType((*shapes[0][:1], shapes[1][0], *shapes[0][2:]), "float32")
    names = ("data_layout", "kernel_layout", "out_layout")
    window = (("strides", (1, 1)), ("padding", (0, 0, 0, 0)), ("dilation", (1, 1)))
    convolution = PrimitiveCall(
        operator="nn.conv2d",
        operands=(0, 1),
        result=result,
        attributes=(*window, ("groups", 1), *zip(names, layouts, strict=True)),
    )
    calls = [convolution]
    if bias is not None:
        calls.append(PrimitiveCall(operator="add", operands=(len(parameters), bias), result=result))
    return FusedFunction(parameters=parameters, calls=tuple(calls))


def matched(function: FusedFunction, *, data=None):
    constants = [np.zeros(each.shape, "float32") for each in function.parameters[1:]]
    return convolution_pattern(function, [data, *constants])


BLOCKED = ("NCHW4c", "OIHW4i4o", "NCHW4c")
SHAPES = [(1, 2, 5, 6, 4), (3, 2, 1, 1, 4, 4), (1, 3, 1, 1, 4)]
PLAIN = ("NCHW", "OIHW", "NCHW")


def test_blocks_of_channels():
    pattern = matched(function_of(SHAPES, BLOCKED, bias=2))
    assert (pattern.channel_axis, pattern.block, pattern.kernel_axes) == (1, 4, (0, 2, 3))
    convolution = pattern.described("x")
    assert (convolution.input_shape, convolution.out_channels) == ((8, 5, 6), 12)
    assert convolution.epilogue == "add(%, channels[5]:float32) -> float32"


@pytest.mark.parametrize(
    "function",
    [
        function_of([(1, 2, 5, 6), (3, 2, 1, 1)], ("NCHW", "OIHW", "NHWC")),
        function_of(SHAPES[:2], ("NCHW4c", "OIHW4i4o", "NCHW8c")),
        function_of([(1, 2, 5, 6), (3, 2, 1, 1), (1, 1, 1, 6)], PLAIN, bias=2),
        function_of([(1, 2, 5, 6), (3, 2, 1, 1), (1, 3, 1, 1)], PLAIN),
        replace(
            function_of([(1, 2, 5, 6), (3, 2, 1, 1)], PLAIN), stored=(IN_BFLOAT16, IN_BFLOAT16)
        ),
    ],
    ids=["layouts", "blocks", "a value a column", "unread", "bfloat16"],
)
def test_other_functions_have_no_pattern(function):
    assert matched(function) is None


def test_a_constant_image_has_no_pattern():
    function = function_of([(1, 2, 5, 6), (3, 2, 1, 1)], PLAIN)
    assert matched(function) is not None
    assert matched(function, data=np.zeros((1, 2, 5, 6), "float32")) is None


def test_a_sum_with_another_tensor_merges_nothing():
    network = Network(1, 4, 6, 6)

    def body(net):
        made = net.emit(OP.nn.conv2d(net.x, net.constant(4, 4, 1, 1)))
        return net.emit(OP.add(made, net.x))

    extraction = prepare(network.build(body), None, TARGET).extraction
    assert extraction.patterns == (None,)
