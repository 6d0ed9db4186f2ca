from __future__ import annotations

import math

import numpy as np
import pytest
import tvm

from tvm_ios.errors import OptionError
from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Pooling


def gelu(values):
    return values * (1 + np.vectorize(math.erf)(values / math.sqrt(2))) / 2


def builder(**options) -> NetworkBuilder:
    defaults = {"batch_size": 1, "channels": 4, "height": 9, "width": 7, "seed": 3}
    return NetworkBuilder(**(defaults | options))


@pytest.mark.slow
def test_every_unit_agrees_with_numpy(compare_with_numpy):
    net = builder(batch_size=2)
    value = net.convolution("conv", net.input, 6, kernel=(1, 3), padding=(0, 1))
    strided = net.convolution(
        "strided", value, 6, kernel=(3, 3), stride=2, activation=Activation.NONE
    )
    pooled = net.pool("max", value, Pooling.MAX, stride=2)
    total = net.combine("sum", [[strided, pooled]])
    separable = net.relu_separable_convolution("separable", [total, strided], 6, kernel=5)
    average = net.pool("average", separable, Pooling.AVERAGE, padding=1)
    halved = net.relu_convolution("halved", net.relu("relu", value), 5, stride=2)
    cropped = net.pool("crop", halved, Pooling.MAX, kernel=2)
    joined = net.combine("concat", [[average, separable], [total]])
    tail = net.combine(
        "tail",
        [[net.global_average("global0", joined)], [net.global_average("global1", cropped)]],
    )

    def forward(layers, image):
        value = layers.conv_relu("conv", image)
        strided = layers.conv("strided", value, stride=2, padding=0)
        total = strided + layers.max_pool(value)
        separable = layers.relu_sep_conv("separable", total + strided)
        joined = layers.concat(layers.avg_pool(separable) + separable, total)
        halved = layers.relu_conv("halved", layers.relu(value), stride=2)
        corners = [
            halved[:, :, i : i - 1 or None, j : j - 1 or None] for i in (0, 1) for j in (0, 1)
        ]
        cropped = np.maximum.reduce(
            [c[:, :, : halved.shape[2] - 1, : halved.shape[3] - 1] for c in corners]
        )
        return layers.concat(layers.global_average(joined), layers.global_average(cropped))

    compare_with_numpy(net.finish(tail), forward)


@pytest.mark.slow
def test_units_of_later_networks_agree_with_numpy(compare_with_numpy):
    net = builder(batch_size=2, height=8, width=6)
    value = net.convolution("swish", net.input, 6, activation=Activation.HARD_SWISH)
    grouped = net.convolution("six", value, 6, groups=2, activation=Activation.RELU6)
    means = net.global_average("means", grouped)
    gates = net.convolution("gates", means, 6, activation=Activation.HARD_SIGMOID)
    gated = net.scale_shift("normal", net.gate("gate", grouped, gates))
    pooled = net.pool("pool", gated, Pooling.MAX, stride=2, round_up=True)
    raised = net.transposed_convolution("raise", pooled, 5)
    hidden = net.dense("hidden", net.flatten("flat", raised), 7, activation=Activation.GELU)

    def forward(layers, image):
        value = layers.conv("swish", image)
        value = value * np.clip(value + 3, 0, 6) / 6
        grouped = np.clip(layers.conv("six", value, groups=2), 0, 6)
        gates = np.clip(layers.conv("gates", layers.global_average(grouped)) + 3, 0, 6) / 6
        scale, shift = (layers.params[f"normal.{kind}"] for kind in ("scale", "shift"))
        normal = layers.relu(grouped * gates * scale + shift)
        # Sizes round up: the last windows of 8 and 6 lack their last row and column.
        padded = np.pad(normal, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)
        pooled = layers.max_pool(padded)
        assert pooled.shape == (2, 6, 4, 3)
        spread = np.einsum("nchw,coij->nohiwj", pooled, layers.params["raise.weight"])
        raised = spread.reshape(2, 5, 8, 6) + layers.params["raise.bias"][:, None, None]
        flat = raised.reshape(2, -1)
        hidden = flat @ layers.params["hidden.weight"].T + layers.params["hidden.bias"]
        return gelu(hidden)

    compare_with_numpy(net.finish(hidden), forward)


def test_gain_is_the_bound_of_weights_and_not_of_biases():
    net = builder(channels=64, gain=2.0)
    _, params = net.finish(net.convolution("conv", net.input, 256))
    assert 0.99 * 2 / 8 < np.abs(params["conv.weight"].numpy()).max() <= 2 / 8
    assert np.abs(params["conv.bias"].numpy()).max() <= 1 / 8


def test_weights_are_uniform_within_one_over_root_fan_in():
    net = builder(channels=64)
    value = net.convolution("conv", net.input, 256, kernel=(3, 3))
    _, params = net.finish(value)
    weight = params["conv.weight"].numpy()
    bound = 1 / np.sqrt(3 * 3 * 64)
    assert weight.dtype == np.float32
    assert np.abs(weight).max() <= bound * (1 + 1e-6)
    assert np.abs(weight).max() > 0.99 * bound
    assert abs(weight.mean()) < 0.01 * bound
    assert np.abs(params["conv.bias"].numpy()).max() <= bound * (1 + 1e-6)


def test_equal_seeds_give_equal_networks_and_other_seeds_other_weights():
    def network(seed):
        net = builder(seed=seed)
        return net.finish(net.relu_convolution("conv", net.input, 3))

    (first, weights), (second, again), (_, other) = network(1), network(1), network(2)
    assert tvm.ir.structural_equal(first, second)
    np.testing.assert_array_equal(weights["conv.weight"].numpy(), again["conv.weight"].numpy())
    assert (weights["conv.weight"].numpy() != other["conv.weight"].numpy()).any()


def test_parameters_of_main_are_the_image_and_the_weights():
    net = builder()
    module, params = net.finish(net.convolution("conv", net.input, 3))
    assert [var.name_hint for var in module["main"].params] == ["data", *params]


def test_calls_carry_the_unit_as_their_span():
    net = builder()
    module, _ = net.finish(net.convolution("conv", net.input, 3))
    assert module["main"].body.span.source_name.name == "conv"


def test_a_window_larger_than_its_input_names_the_layer():
    net = builder(height=2)
    with pytest.raises(OptionError, match=r"layer 'conv'.*window of 3.*input of 2.*larger image"):
        net.convolution("conv", net.input, 3, kernel=(3, 3))


@pytest.mark.parametrize("size", ["batch_size", "channels", "height", "width"])
def test_an_empty_input_is_refused(size):
    with pytest.raises(OptionError, match="must all be at least 1"):
        builder(**{size: 0})
