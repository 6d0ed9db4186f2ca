"""Transposed convolutions as convolutions: which are written so, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.small_networks import narrow_unet
from tvm_ios.relay.dataflow import graph_order
from tvm_ios.relay.transforms.transposed_convolution import convolve_transposed

IN_CHANNELS, OUT_CHANNELS = 6, 5


def operators(module):
    return [
        call.op.name
        for call in graph_order(module["main"].body)
        if isinstance(call, relay.Call) and call.op.name != "tile"
    ]


def is_convolution(expression):
    return isinstance(expression, relay.Call) and expression.op.name == "nn.conv2d"


def transposed(kernel=(2, 2), stride=(2, 2), shape=(1, IN_CHANNELS, 5, 7), groups=1, **others):
    data = relay.var("data", shape=shape)
    weight = relay.var("weight", shape=(IN_CHANNELS, OUT_CHANNELS // groups, *kernel))
    call = relay.nn.conv2d_transpose(
        data,
        weight,
        strides=stride,
        channels=OUT_CHANNELS,
        kernel_size=kernel,
        groups=groups,
        **others,
    )
    return call, data


def same(nets, module, params, written):
    nets.assert_same((module, params), (written, None), rtol=0)


def by_definition(image, weight, stride, padding):
    """Every element of the data, times the kernel, added where it falls: no convolution at all."""
    top, left, bottom, right = padding
    images, _, high, wide = image.shape
    _, channels, *kernel = weight.shape
    rows, columns = (high - 1) * stride + kernel[0], (wide - 1) * stride + kernel[1]
    whole = np.zeros((images, channels, rows, columns))
    for row in range(high):
        for column in range(wide):
            piece = np.einsum("ni,iohw->nohw", image[:, :, row, column], weight)
            down, across = row * stride, column * stride
            whole[:, :, down : down + kernel[0], across : across + kernel[1]] += piece
    return whole[:, :, top : rows - bottom, left : columns - right]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "more", "new_kernel", "cut"),
    [
        ((2, 2), 2, (0, 0), (0, 0), (1, 1), False),
        ((3, 3), 3, (0, 0), (0, 0), (1, 1), False),
        ((3, 3), 2, (1, 1), (1, 1), (2, 2), False),
        ((5, 5), 2, (2, 2), (1, 1), (3, 3), False),
        ((4, 4), 2, (2, 0, 0, 2), (0, 0), (2, 2), False),
        ((3, 3), 2, (0, 1, 1, 0), (0, 0), (2, 2), False),
        ((4, 4), 2, (1, 1), (0, 0), (2, 2), True),
        ((4, 2), 2, (1, 0), (0, 0), (2, 1), True),
        ((4, 4), 2, (1, 1), (1, 1), (2, 2), True),
        ((16, 16), 8, (4, 4), (0, 0), (2, 2), True),
        ((3, 3), 2, (0, 0), (0, 0), (2, 2), True),
        ((3, 3), 2, (1, 1), (0, 0), (2, 2), True),
        ((5, 5), 3, (1, 0, 2, 1), (0, 0), (2, 2), True),
    ],
)
@pytest.mark.parametrize("images", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_results_are_those_of_the_definition(
    nets, kernel, stride, padding, more, new_kernel, cut, images
):
    call, data = transposed(
        kernel,
        (stride, stride),
        shape=(images, IN_CHANNELS, 5, 7),
        padding=padding,
        output_padding=more,
    )
    module, params = nets.finish(call, data)
    written, count = convolve_transposed(module, params)
    expected = ["nn.conv2d", "nn.depth_to_space", *["strided_slice"] * cut]
    assert (count, operators(written)) == (1, expected)
    (convolution,) = (each for each in graph_order(written["main"].body) if is_convolution(each))
    assert tuple(map(int, convolution.attrs.kernel_size)) == new_kernel
    image = nets.random_input(module)
    seen = nets.reference(written, None, image)[0]
    top, left, bottom, right = padding if len(padding) == 4 else padding * 2
    weight = params["weight"].numpy().astype("float64")
    cut = (top, left, bottom - more[0], right - more[1])
    exact = by_definition(image.astype("float64"), weight, stride, cut)
    assert seen.shape == exact.shape
    np.testing.assert_allclose(seen, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "others",
    [
        {"kernel": (4, 4), "shape": (1, IN_CHANNELS, 1, 1)},  # 4 of 4 places see one each
        {"stride": (1, 1), "kernel": (3, 3)},
        {"stride": (2, 1)},
        {"kernel": (3, 3), "dilation": (2, 2), "padding": (0, 1)},
        {"kernel": (1, 1), "output_padding": (1, 1)},  # three of four outputs see nothing
        {"groups": 1, "data_layout": "NHWC", "kernel_layout": "HWOI", "shape": (1, 5, 7, 6)},
    ],
)
def test_others_stay(nets, others):
    if "data_layout" in others:
        data = relay.var("data", shape=others["shape"])
        weight = relay.var("weight", shape=(2, 2, OUT_CHANNELS, IN_CHANNELS))
        layouts = {name: others[name] for name in ("data_layout", "kernel_layout")}
        call = relay.nn.conv2d_transpose(
            data, weight, strides=(2, 2), channels=OUT_CHANNELS, kernel_size=(2, 2), **layouts
        )
    else:
        call, data = transposed(**others)
    module, params = nets.finish(call, data)
    written, count = convolve_transposed(module, params)
    assert (count, operators(written)) == (0, ["nn.conv2d_transpose"])


def test_weights_that_are_computed_stay(nets):
    call, data = transposed()
    module = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([data, call.args[1]], call))
    )
    assert convolve_transposed(module, None)[1] == 0


def test_bias_and_activation_go_into_the_convolution(nets):
    call, data = transposed()
    biased = relay.nn.bias_add(call, relay.var("bias", shape=(OUT_CHANNELS,)))
    clipped = relay.clip(relay.nn.relu(biased), 0.0, 0.3)
    both = relay.add(clipped, relay.exp(biased))  # the bias is read by another, too
    module, params = nets.finish(both, data)
    written, count = convolve_transposed(module, params)
    steps = ["nn.conv2d", "nn.bias_add", "nn.relu", "clip", "nn.depth_to_space"]
    assert (count, operators(written)) == (1, [*steps, "nn.depth_to_space", "exp", "add"])
    same(nets, module, params, written)


def test_weights_that_are_computed_of_constants_are_constants(nets):
    call, data = transposed()
    scale = relay.var("scale", shape=(IN_CHANNELS, 1, 1, 1))
    scaled = relay.nn.conv2d_transpose(
        data, scale * call.args[1], strides=(2, 2), channels=OUT_CHANNELS, kernel_size=(2, 2)
    )
    module, params = nets.finish(scaled, data)
    written, count = convolve_transposed(module, params)
    assert (count, operators(written)) == (1, ["nn.conv2d", "nn.depth_to_space"])
    same(nets, module, params, written)


def test_a_constant_with_more_axes_stays_behind(nets):
    data, weight = relay.var("data", shape=(1, 4, 5, 5)), relay.var("w", shape=(4, 1, 2, 2))
    call = relay.nn.conv2d_transpose(data, weight, strides=(2, 2), channels=1, kernel_size=(2, 2))
    module, params = nets.finish(relay.add(call, relay.var("more", shape=(1,) * 5)), data)
    written, _ = convolve_transposed(module, params)
    assert operators(written) == ["nn.conv2d", "nn.depth_to_space", "add"]


@pytest.mark.slow
def test_batch_norm_goes_along_and_into_the_weights(nets):
    call, data = transposed()
    statistics = [
        relay.var(name, shape=(OUT_CHANNELS,)) for name in ("gamma", "beta", "mean", "variance")
    ]
    module, params = nets.finish(relay.nn.relu(relay.nn.batch_norm(call, *statistics)[0]), data)
    params["variance"] = tvm.nd.array(abs(params["variance"].numpy()) + 0.5)
    written, _ = convolve_transposed(module, params)
    assert operators(written) == ["nn.conv2d", "multiply", "add", "nn.relu", "nn.depth_to_space"]
    same(nets, module, params, written)


@pytest.mark.parametrize("shape", [(14,), (10, 1), (1, 1, 10, 14), (OUT_CHANNELS, 10, 14)])
def test_constants_that_differ_from_place_to_place_stay_behind(nets, shape):
    call, data = transposed()
    module, params = nets.finish(relay.subtract(relay.var("other", shape=shape), call), data)
    written, _ = convolve_transposed(module, params)
    assert operators(written) == ["nn.conv2d", "nn.depth_to_space", "subtract"]


@pytest.mark.parametrize("shape", [(OUT_CHANNELS, 1, 1), (1, OUT_CHANNELS, 1, 1), (1, 1, 1), ()])
def test_constants_of_channels_go_in_front(nets, shape):
    call, data = transposed((4, 4), padding=(1, 1))
    module, params = nets.finish(relay.subtract(relay.var("other", shape=shape), call), data)
    written, _ = convolve_transposed(module, params)
    spread = ["nn.depth_to_space", "strided_slice"]
    assert operators(written) == ["nn.conv2d", "subtract", *spread]
    same(nets, module, params, written)


def test_a_bias_of_one_channel_is_one_for_each_output(nets):
    data, weight = relay.var("data", shape=(1, 4, 5, 5)), relay.var("w", shape=(4, 1, 2, 2))
    call = relay.nn.conv2d_transpose(data, weight, strides=(2, 2), channels=1, kernel_size=(2, 2))
    module, params = nets.finish(relay.nn.bias_add(call, relay.var("b", shape=(1,))), data)
    written, _ = convolve_transposed(module, params)
    assert operators(written) == ["nn.conv2d", "nn.bias_add", "nn.depth_to_space"]
    same(nets, module, params, written)


@pytest.mark.parametrize("axis", [1, -3])
def test_a_bias_of_channels_goes_in_front_however_its_axis_is_counted(nets, axis):
    call, data = transposed()
    biased = relay.nn.bias_add(call, relay.var("bias", shape=(OUT_CHANNELS,)), axis=axis)
    module, params = nets.finish(biased, data)
    written, _ = convolve_transposed(module, params)
    assert operators(written) == ["nn.conv2d", "nn.bias_add", "nn.depth_to_space"]
    same(nets, module, params, written)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [2, 4])
def test_a_sum_of_two_goes_in_front_where_they_are_spread_alike(nets, kernel):
    call, data = transposed((kernel, kernel), padding=(kernel // 2 - 1,) * 2)
    other = relay.nn.relu(relay.negative(data))
    again = relay.nn.conv2d_transpose(
        other,
        relay.var("v", shape=(IN_CHANNELS, OUT_CHANNELS, 4, 4)),
        strides=(2, 2),
        channels=OUT_CHANNELS,
        kernel_size=(4, 4),
        padding=(1, 1),
    )
    module, params = nets.finish(relay.add(call, again), data)
    written, count = convolve_transposed(module, params)
    alike = ["add", "nn.depth_to_space", "strided_slice"]
    apart = ["nn.depth_to_space", "strided_slice", "add"]
    assert (count, operators(written)[-3:]) == (2, alike if kernel == 4 else apart)
    same(nets, module, params, written)


def test_a_mask_of_one_channel_stays_behind(nets):
    call, data = transposed()
    mask = relay.nn.conv2d_transpose(
        data,
        relay.var("v", shape=(IN_CHANNELS, 1, 2, 2)),
        strides=(2, 2),
        channels=1,
        kernel_size=(2, 2),
    )
    module, params = nets.finish(relay.multiply(call, relay.sigmoid(mask)), data)
    written, count = convolve_transposed(module, params)
    assert (count, operators(written)[-1]) == (2, "multiply")
    same(nets, module, params, written)


def test_a_bias_of_another_axis_stays_behind(nets):
    call, data = transposed()
    biased = relay.nn.bias_add(call, relay.var("bias", shape=(14,)), axis=3)
    module, params = nets.finish(biased, data)
    written, _ = convolve_transposed(module, params)
    assert operators(written) == ["nn.conv2d", "nn.depth_to_space", "nn.bias_add"]


@pytest.mark.slow(1)
def test_all_of_a_unet_are_written():
    module, params = narrow_unet()
    written, count = convolve_transposed(module, params)
    assert count == 2
    assert "nn.conv2d_transpose" not in operators(written)
    old, new = (relay.transform.InferType()(each)["main"] for each in (module, written))
    tvm.ir.assert_structural_equal(old.body.checked_type, new.body.checked_type)


def test_double_precision_stays(nets):
    weight, bias = (tvm.nd.array(np.full(shape, 0.1)) for shape in ((6, 5, 2, 2), (5, 1, 1)))
    data = relay.var("data", shape=(1, IN_CHANNELS, 5, 7), dtype="float64")
    call = relay.nn.conv2d_transpose(
        data, relay.Constant(weight), strides=(2, 2), channels=OUT_CHANNELS, kernel_size=(2, 2)
    )
    body = call + relay.Constant(bias)
    module = tvm.IRModule.from_expr(relay.Function([data], body))
    changed, written = convolve_transposed(module, None)
    assert written == 1
    image = np.random.default_rng(0).random((1, IN_CHANNELS, 5, 7))
    actual, expected = (nets.reference(each, None, image)[0] for each in (changed, module))
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
