from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.relay.extract import convolution_pattern

DATA = (1, 4, 6, 6)


def parts():
    return relay.var("data", shape=DATA), relay.var("weight", shape=(8, 4, 3, 3))


def conv(data, weight, **attributes):
    given = {"padding": (1, 1), "kernel_size": (3, 3), "channels": 8} | attributes
    return relay.nn.conv2d(data, weight, **given)


def constant(*shape):
    return relay.const(np.zeros(shape, "float32"))


def matched(function):
    data, *others = function.params
    fixed = [constant(*map(int, each.checked_type.shape)) for each in others]
    return convolution_pattern(relay.Call(function, [data, *fixed]))


def described(function, *arguments):
    pattern = convolution_pattern(relay.Call(function, list(arguments)))
    return None if pattern is None else pattern.described("operand")


def test_a_bare_convolution(nets):
    data, weight = parts()
    function = nets.fused(conv(data, weight, strides=(2, 1), padding=(1, 0)), data, weight)
    facts = described(function, relay.var("x", shape=DATA), constant(8, 4, 3, 3))
    assert facts.input_shape == (4, 6, 6)
    assert facts.out_channels == 8
    assert facts.kernel == (3, 3)
    assert facts.strides == (2, 1)
    assert facts.padding == (1, 0, 1, 0)
    assert facts.groups == 1
    assert facts.epilogue == ""
    assert facts.layout == "NCHW/OIHW//float32/float32/float32"
    assert facts.output_size == (3, 4)


def test_bias_and_activation_in_either_form(nets):
    data, weight = parts()
    bias = relay.var("bias", shape=(8,))
    wide = relay.var("wide", shape=(8, 1, 1))
    by_operator = relay.nn.relu(relay.nn.bias_add(conv(data, weight), bias))
    by_addition = relay.nn.relu(conv(data, weight) + wide)
    assert matched(nets.fused(by_operator, data, weight, bias)).channelwise == (2,)
    match = matched(nets.fused(by_addition, data, weight, wide))
    assert match.channelwise == (2,)
    assert match.epilogue == "add(%, channels[3]:float32) -> float32; nn.relu(%) -> float32"


def test_channels_may_be_last(nets):
    data, weight = relay.var("data", shape=(1, 6, 5, 4)), relay.var("weight", shape=(3, 1, 4, 8))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    value = conv(data, weight, kernel_size=(3, 1), padding=(1, 0), **layouts)
    for shape, axis in (((8,), -1), ((8,), 3)):
        bias = relay.var("bias", shape=shape)
        function = nets.fused(relay.nn.bias_add(value, bias, axis=axis), data, weight, bias)
        assert matched(function).channelwise == (2,)
    for shape in ((8,), (1, 8), (1, 1, 8), (1, 1, 1, 8)):
        wide = relay.var("wide", shape=shape)
        pattern = matched(nets.fused(value + wide, data, weight, wide))
        assert (pattern.channelwise, pattern.channel_axis) == ((2,), 3)
        assert pattern.kernel_axes == (3, 0, 1)
    for shape in ((5, 1), (1, 6, 1, 1)):
        other = relay.var("other", shape=shape)
        assert matched(nets.fused(value + other, data, weight, other)) is None
    function = nets.fused(value, data, weight)
    facts = described(function, relay.var("x", shape=(1, 6, 5, 4)), constant(3, 1, 4, 8))
    assert (facts.input_shape, facts.out_channels, facts.kernel) == ((4, 6, 5), 8, (3, 1))
    assert facts.layout == "NHWC/HWIO//float32/float32/float32"


def test_attributes_and_scalars_of_steps_are_part_of_the_epilogue(nets):
    epilogues = set()
    for bound, factor in ((6.0, 2.0), (6.0, 3.0), (5.0, 2.0)):
        data, weight = parts()
        body = relay.clip(conv(data, weight) * relay.const(factor), 0.0, bound)
        epilogues.add(matched(nets.fused(body, data, weight)).epilogue)
    assert len(epilogues) == 3


def test_a_blocked_convolution(nets):
    data = relay.var("data", shape=(1, 2, 6, 6, 4))
    weight = relay.var("weight", shape=(3, 2, 3, 3, 4, 8))
    bias = relay.var("bias", shape=(3, 1, 1, 8))
    body = relay.nn.contrib_conv2d_nchwc(
        data,
        weight,
        padding=(1, 1),
        kernel_size=(3, 3),
        channels=24,
        data_layout="NCHW4c",
        kernel_layout="OIHW4i8o",
        out_layout="NCHW8c",
    )
    function = nets.fused(body + bias, data, weight, bias)
    fixed = [constant(3, 2, 3, 3, 4, 8), constant(3, 1, 1, 8)]
    facts = described(function, data, *fixed)
    assert facts.input_shape == (8, 6, 6)
    assert facts.out_channels == 24
    assert facts.layout == "NCHW4c/OIHW4i8o/NCHW8c/float32/float32/float32"
    assert matched(function).channelwise == (2,)


def test_a_residual_sum_is_no_plain_convolution(nets):
    data, weight = parts()
    other = relay.var("other", shape=(1, 8, 6, 6))
    assert matched(nets.fused(conv(data, weight) + other, data, weight, other)) is None


def test_work_before_the_convolution_is_no_plain_convolution(nets):
    data, weight = parts()
    assert matched(nets.fused(conv(relay.tanh(data), weight), data, weight)) is None


def test_work_that_is_not_pointwise_is_no_plain_convolution(nets):
    data, weight = parts()
    body = relay.nn.max_pool2d(conv(data, weight), (2, 2))
    assert matched(nets.fused(body, data, weight)) is None


def test_a_convolution_read_twice_is_no_plain_convolution(nets):
    data, weight = parts()
    value = conv(data, weight)
    assert matched(nets.fused(value + relay.tanh(value), data, weight)) is None


def test_other_layouts_are_left_alone(nets):
    data = relay.var("data", shape=(1, 6, 6, 4))
    weight = relay.var("weight", shape=(8, 3, 3, 4))
    body = relay.nn.conv2d(
        data, weight, kernel_size=(3, 3), channels=8, data_layout="NHWC", kernel_layout="OHWI"
    )
    assert matched(nets.fused(body, data, weight)) is None


def test_groups_are_reported(nets):
    data, weight = relay.var("data", shape=DATA), relay.var("weight", shape=(8, 2, 3, 3))
    function = nets.fused(conv(data, weight, groups=2), data, weight)
    assert described(function, relay.var("x", shape=DATA), constant(8, 2, 3, 3)).groups == 2


@pytest.mark.parametrize("fixed", [True, False])
def test_only_constant_weights_can_be_merged(nets, fixed):
    data, weight = parts()
    function = nets.fused(conv(data, weight), data, weight)
    given = constant(8, 4, 3, 3) if fixed else relay.var("w", shape=(8, 4, 3, 3))
    assert (described(function, relay.var("x", shape=DATA), given) is not None) == fixed


def test_what_is_no_convolution(nets):
    data = relay.var("data", shape=DATA)
    assert matched(nets.fused(relay.tanh(data), data)) is None


def test_weights_that_numpy_has_no_type_for_are_not_merged(nets):
    kind = {"dtype": "bfloat16"}
    data, weight = relay.var("data", shape=DATA, **kind), relay.var("w", shape=(8, 4, 3, 3), **kind)
    function = nets.fused(conv(data, weight), data, weight)
    values = relay.Constant(tvm.nd.empty((8, 4, 3, 3), "bfloat16"))
    assert described(function, relay.var("x", shape=DATA, **kind), values) is None
