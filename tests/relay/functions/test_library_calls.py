"""Which fused functions one call of cuDNN computes, and with what numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tvm_ios.plan.placement import Placement
from tvm_ios.relay.extract import extract
from tvm_ios.relay.functions.fused_function import describe_calls, describe_function
from tvm_ios.relay.merge import merge_stage_module
from tvm_ios.relay.prepare import prepare
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.runtime.libraries.placed_calls import with_library_calls

DATA = (2, 12, 9, 7)


def match(function, *, tf32=False):
    described = describe_function(function)
    return None if described is None else CudnnLibrary(tf32=tf32).match(described)


def parts(groups=1, kernel=(3, 3), dtype="float32"):
    data = relay.var("data", shape=DATA, dtype=dtype)
    weight = relay.var("weight", shape=(24, 12 // groups, *kernel), dtype=dtype)
    return data, weight


def convolution(data, weight, **attributes):
    shape = [int(extent) for extent in weight.type_annotation.shape]
    return relay.nn.conv2d(data, weight, kernel_size=shape[2:], channels=shape[0], **attributes)


@pytest.mark.parametrize("groups", [1, 3, 12])
@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((3, 3), {"padding": (1, 1)}),
        ((1, 1), {}),
        ((5, 3), {"padding": (2, 1), "strides": (2, 1)}),
        ((3, 3), {"padding": (2, 2, 2, 2), "dilation": (2, 2)}),
        ((1, 7), {"padding": (0, 3), "strides": (2, 2)}),
    ],
)
def test_the_numbers_are_those_of_the_operator(nets, groups, kernel, attributes):
    data, weight = parts(groups, kernel)
    function = nets.fused(convolution(data, weight, groups=groups, **attributes), data, weight)
    call = match(function)
    found = call.convolution
    wanted = function.body.attrs  # what TVM itself computes from
    assert (found.input_shape, found.weight_shape) == (DATA, (24, 12 // groups, *kernel))
    assert found.output_shape == tuple(map(int, function.body.checked_type.shape))
    for name in ("strides", "dilation"):
        assert getattr(found, name) == tuple(map(int, wanted[name]))
    padding = [int(value) for value in wanted["padding"]]
    assert found.padding * (len(padding) // 2) == tuple(padding)
    assert found.groups == int(wanted["groups"]) == groups
    assert (found.bias, found.relu, found.dtype, found.tf32) == (False, False, "float32", False)
    assert (call.data, call.weight, call.bias, call.algorithm) == (0, 1, None, None)


def test_bias_and_relu_belong_to_the_call(nets):
    data, weight = parts()
    bias, wide = relay.var("bias", shape=(24,)), relay.var("wide", shape=(24, 1, 1))
    plain = convolution(data, weight, padding=(1, 1))
    for body, arguments, expected in (
        (relay.nn.bias_add(plain, bias), (bias, data, weight), (True, False, (1, 2, 0))),
        (relay.nn.relu(wide + plain), (data, weight, wide), (True, True, (0, 1, 2))),
        (relay.nn.relu(plain), (weight, data), (False, True, (1, 0, None))),
    ):
        call = match(nets.fused(body, *arguments))
        found = (call.convolution.bias, call.convolution.relu, (call.data, call.weight, call.bias))
        assert found == expected


def test_tf32_is_a_choice_and_only_of_float32(nets):
    for dtype, wanted in (("float32", True), ("float16", False)):
        data, weight = parts(dtype=dtype)
        function = nets.fused(relay.nn.relu(convolution(data, weight)), data, weight)
        assert match(function, tf32=True).convolution.tf32 is wanted
        assert match(function).convolution.dtype == dtype


def refused_functions():
    data, weight = parts()
    bias, image = relay.var("bias", shape=(24,)), relay.var("image", shape=(2, 24, 9, 7))
    plain = convolution(data, weight, padding=(1, 1))
    wide = relay.var("wide", shape=(24, 1, 1))
    narrow = relay.var("narrow", shape=(3, 3, 12, 24))
    last = relay.var("last", shape=(2, 9, 7, 12))
    low = parts(dtype="float16")
    yield "one side padded", convolution(data, weight, padding=(0, 0, 1, 1)), (data, weight)
    yield "bias after relu", relay.nn.bias_add(relay.nn.relu(plain), bias), (data, weight, bias)
    yield "two biases", relay.nn.bias_add(plain + wide, bias), (data, weight, wide, bias)
    yield "scale", relay.nn.relu(plain * wide), (data, weight, wide)
    yield "clip", relay.clip(plain, 0.0, 6.0), (data, weight)
    yield "residual", relay.nn.relu(plain + image), (data, weight, image)
    yield "scalar", plain + relay.const(np.float32(1.0)), (data, weight)
    mixed = relay.nn.conv2d(*low, kernel_size=(3, 3), channels=24, out_dtype="float32")
    yield "mixed types", mixed, low
    nhwc = relay.nn.conv2d(
        last, narrow, kernel_size=(3, 3), channels=24, data_layout="NHWC", kernel_layout="HWIO"
    )
    yield "NHWC", nhwc, (last, narrow)
    yield "pooling", relay.nn.max_pool2d(data), (data,)


@pytest.mark.parametrize(("why", "body", "arguments"), list(refused_functions()))
def test_what_is_no_such_call_stays_with_tvm(nets, why, body, arguments):
    assert match(nets.fused(body, *arguments)) is None


def parallel(nets):
    """A 1x1 and a 3x3 convolution of one input, prepared for a GPU."""
    data = relay.var("data", shape=(1, 16, 8, 8))
    pieces = [nets.conv(data, f"c{i}", 16, (k, k), (k // 2, k // 2)) for i, k in enumerate((1, 3))]
    mod, params = nets.finish(relay.Tuple(pieces), data)
    return extract(prepare(mod, params, "cuda -arch=sm_90").module)


def test_a_merged_convolution_is_one_call_like_any_other(nets):
    extraction = parallel(nets)
    members = [i for i, each in enumerate(extraction.graph.operators) if each.convolution]
    module = merge_stage_module(extraction, members)
    merged = extract(module).calls[0]
    call = match(merged.op)
    assert call.convolution.weight_shape == (32, 16, 3, 3)
    assert call.convolution.padding == (1, 1)
    assert call.convolution.bias
    assert call.convolution.relu


def test_names_choose(nets):
    extraction = parallel(nets)
    convolutions = [index for index, each in enumerate(extraction.patterns) if each]
    functions = describe_calls(extraction.calls)
    members = [(f"operator{index}",) for index in range(len(extraction.calls))]
    members[convolutions[1]] = ("a", "b")
    places = [Placement(stage=index, group=0) for index in range(len(members))]

    def chosen(*which):
        libraries = [CudnnLibrary()]
        by = [{"cudnn": wanted} for wanted in which]
        made = with_library_calls(places, functions, members, libraries, *by)
        return [index for index, place in enumerate(made) if place.call is not None]

    assert chosen() == convolutions
    assert chosen({*members[convolutions[0]], "a"}) == convolutions[:1]
    assert chosen({"a", "b"}) == convolutions[1:]
    assert chosen(()) == []
