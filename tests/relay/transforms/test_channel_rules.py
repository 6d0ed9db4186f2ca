"""How single operators carry padded channels: none of these may cut them, all must stay right."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tvm_ios.relay.dataflow import graph_order
from tvm_ios.relay.transforms.channel_padding import pad_channels
from tvm_ios.relay.transforms.channel_rules import PADDING, gathered

CHANNELS = 12  # padded to 16


def scale(*shape):
    values = np.random.default_rng(3).uniform(0.5, 1.5, shape)
    return relay.const(values.astype("float32"))


STEPS = {
    "relu": relay.nn.relu,
    "leaky relu": lambda x: relay.nn.leaky_relu(x, 0.1),
    "clip": lambda x: relay.clip(x, 0.25, 6.0),
    "sigmoid and tanh": lambda x: relay.tanh(relay.sigmoid(x)),
    "negative, abs, copy": lambda x: relay.copy(relay.abs(relay.negative(x))),
    "cast": lambda x: relay.cast(relay.cast(x, "float64"), "float32"),
    "max pooling": lambda x: relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1)),
    "average pooling": lambda x: relay.nn.avg_pool2d(x, (2, 2), (2, 2)),
    "global pooling": relay.nn.global_max_pool2d,
    "adaptive pooling": lambda x: relay.nn.adaptive_avg_pool2d(x, (2, 2)),
    "mean": lambda x: relay.mean(x, axis=[2, 3], keepdims=True),
    "bias": lambda x: relay.nn.bias_add(x, scale(CHANNELS)),
    "scale of rank 3": lambda x: x * scale(CHANNELS, 1, 1),
    "scale of rank 4": lambda x: scale(1, CHANNELS, 1, 1) - x,
    "one number": lambda x: relay.maximum(x, relay.const(0.125)),
    "a row": lambda x: relay.minimum(x, scale(8)),
    "itself": lambda x: x * x,
    "its mean": lambda x: x * relay.sigmoid(relay.nn.global_avg_pool2d(x)),
    "padding": lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1))),
    "a part": lambda x: relay.strided_slice(x, [0, 0, 1, 1], [1, CHANNELS, 8, 8], [1, 1, 2, 2]),
    "a part of one axis": lambda x: relay.strided_slice(x, [1], [8], axes=[2]),
}


def dense(flatten, extent):
    weight = np.random.default_rng(5).uniform(-1, 1, (10, CHANNELS * extent)).astype("float32")
    return lambda x: relay.nn.dense(flatten(x), relay.const(weight))


def mean_of(x):
    return relay.nn.global_avg_pool2d(x)


HEADS = {
    "flattened": dense(lambda x: relay.nn.batch_flatten(mean_of(x)), 1),
    "reshaped": dense(lambda x: relay.reshape(mean_of(x), (1, -1)), 1),
    "squeezed": dense(lambda x: relay.squeeze(mean_of(x), axis=[2, 3]), 1),
    "all pixels": dense(relay.nn.batch_flatten, 64),
}
CUT = {
    "softmax": lambda x: relay.nn.softmax(x, axis=1),
    "some channels": lambda x: relay.concatenate(
        [relay.strided_slice(x, [2], [CHANNELS], axes=[1]), scale(1, 2, 8, 8)], axis=1
    ),
    "division": lambda x: x / scale(CHANNELS, 1, 1),
    "mean of channels": lambda x: x - relay.mean(x, axis=[1], keepdims=True),
    "reshape": lambda x: relay.reshape(relay.reshape(x, (1, 2, 6, 64)), (1, CHANNELS, 8, 8)),
}


def network(nets, steps):
    """Each step behind a convolution of its own that is padded, and before a convolution."""
    data = relay.var("data", shape=(1, 16, 8, 8))
    outputs = []
    for number, step in enumerate(steps):
        value = nets.conv(data, f"a{number}", CHANNELS, (1, 1), (0, 0), activation=None)
        stepped = step(value)
        outputs.append(
            stepped
            if step in HEADS.values()
            else nets.conv(stepped, f"b{number}", 16, (1, 1), (0, 0), in_channels=CHANNELS)
        )
    return nets.finish(relay.Tuple(outputs), data)


def cuts(nets, step):
    """How often channels are cut in the padded network of one step."""
    padded, count = pad_channels(*network(nets, [step]), nets.target)
    assert count == 1
    return sum(
        isinstance(call, relay.Call)
        and call.op.name == "strided_slice"
        and [int(end) for end in call.attrs.end] == [CHANNELS]
        and [int(axis) for axis in call.attrs.axes or ()] == [1]
        for call in graph_order(padded["main"].body)
    )


@pytest.mark.parametrize("name", STEPS)
def test_channels_are_carried_along(nets, name):
    assert cuts(nets, STEPS[name]) == 0


@pytest.mark.parametrize("name", CUT)
def test_channels_are_cut_where_an_operator_mixes_them(nets, name):
    assert cuts(nets, CUT[name]) >= 1


@pytest.mark.parametrize("name", HEADS)
def test_a_dense_layer_gathers_its_weights(nets, name):
    assert cuts(nets, HEADS[name]) == int(name == "all pixels")


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.full)])
def test_results_stay(nets, part):
    steps = [*STEPS.values(), *CUT.values(), *HEADS.values()][part::2]
    module, params = network(nets, steps)
    padded, count = pad_channels(module, params, nets.target)
    assert count == len(steps)
    image = nets.random_input(module)
    expected = nets.reference(module, params, image)
    for result, wanted in zip(nets.reference(padded, None, image), expected, strict=True):
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_gathering_fills_with_zeros():
    values = np.arange(6.0).reshape(2, 3)
    channels = np.array([2, PADDING, 0])
    np.testing.assert_array_equal(gathered(values, channels, axis=1), [[2, 0, 0], [5, 0, 3]])
    assert gathered(values, channels[1:], axis=0).dtype == values.dtype
