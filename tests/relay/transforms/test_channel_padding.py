"""Padded channels: what is padded, what is cut again, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.compile.built_model import build_model
from tvm_ios.errors import ModelError
from tvm_ios.models import by_name, squeezenet
from tvm_ios.relay.dataflow import graph_order
from tvm_ios.relay.inputs import check_module
from tvm_ios.relay.transforms.channel_padding import may_pad, pad_channels

SHAPE = (1, 16, 8, 8)
LANES = 8  # of the target of these tests


def data_of(shape=SHAPE):
    return relay.var("data", shape=shape)


def calls(module, name):
    return [
        call
        for call in graph_order(module["main"].body)
        if isinstance(call, relay.Call) and call.op.name == name
    ]


def out_channels(module):
    return [int(call.checked_type.shape[1]) for call in calls(module, "nn.conv2d")]


def pad(nets, output, *inputs):
    """The padded module and the number of padded convolutions, once results have been compared."""
    module, params = nets.finish(output, *inputs)
    return check(nets, module, params)


def check(nets, module, params):
    padded, count = pad_channels(module, params, nets.target)
    assert may_pad(check_module(module), nets.target) or not count  # the quick look misses none
    image = nets.random_input(module)
    expected = nets.reference(module, params, image)
    for result, wanted in zip(nets.reference(padded, None, image), expected, strict=True):
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5 * scale)
    return padded, count


@pytest.mark.slow
def test_channels_are_carried_along_until_the_end(nets):
    data = data_of()
    first = nets.conv(data, "a", 12, (3, 3), (1, 1))
    depthwise = nets.conv(first, "b", 12, (3, 3), (1, 1), in_channels=12, groups=12)
    last = nets.conv(depthwise, "c", 14, (1, 1), (0, 0), in_channels=12)
    padded, count = pad(nets, last, data)
    assert count == 2
    assert out_channels(padded) == [16, 16, 16]
    assert len(calls(padded, "strided_slice")) == 1
    assert [int(extent) for extent in padded["main"].ret_type.shape] == [1, 14, 8, 8]


@pytest.mark.slow
def test_concatenations_need_no_cut(nets):
    data = data_of()
    pieces = [
        nets.conv(data, "a", 12, (1, 1), (0, 0)),
        data,
        nets.conv(data, "b", 14, (1, 1), (0, 0)),
    ]
    joined = relay.nn.relu(relay.concatenate(pieces, axis=1))
    last = nets.conv(joined, "c", 16, (3, 3), (1, 1), in_channels=42)
    padded, count = pad(nets, last, data)
    assert count == 2
    assert not calls(padded, "strided_slice")
    (joined_call,) = calls(padded, "concatenate")
    assert int(joined_call.checked_type.shape[1]) == 48


@pytest.mark.slow(1)
def test_zero_channels_make_nan_of_inf(nets):
    """Not in the padded convolution's own channels, but in a convolution that reads them."""
    data = data_of()
    first = nets.conv(data, "a", 12, (3, 3), (1, 1), activation=None)
    last = nets.conv(relay.sigmoid(first), "b", 16, (1, 1), (0, 0), in_channels=12, activation=None)
    module, params = nets.finish(relay.Tuple([first, last]), data)
    padded, count = pad_channels(module, params, nets.target)
    assert count == 1
    image = nets.random_input(module)
    image[0, 3, 4, 4] = np.inf
    expected = nets.reference(module, params, image)
    actual = nets.reference(padded, None, image)
    assert [int(np.isnan(output).sum()) for output in expected] == [0, 0]
    assert [int(np.isnan(output).sum()) for output in actual] == [0, 16 * 9]


def test_a_result_with_gaps_is_cut_and_joined(nets):
    data = data_of()
    pieces = [nets.conv(data, name, 12, (1, 1), (0, 0)) for name in "ab"]
    padded, count = pad(nets, relay.concatenate(pieces, axis=1), data)
    assert count == 2
    assert len(calls(padded, "strided_slice")) == 2


@pytest.mark.slow
def test_sums_of_equal_channels_are_carried_along(nets):
    data = data_of()
    left, right = (nets.conv(data, name, 12, (1, 1), (0, 0)) for name in "ab")
    last = nets.conv(left + right, "c", 16, (1, 1), (0, 0), in_channels=12)
    padded, count = pad(nets, last, data)
    assert count == 2
    assert not calls(padded, "strided_slice")


@pytest.mark.slow
def test_sums_of_unequal_channels_are_cut(nets):
    data = data_of()
    wide = nets.conv(data, "a", 28, (1, 1), (0, 0))
    pieces = [nets.conv(data, name, 14, (1, 1), (0, 0)) for name in "bc"]
    padded, count = pad(nets, wide + relay.concatenate(pieces, axis=1), data)
    assert count == 3
    assert len(calls(padded, "strided_slice")) == 3


def test_what_is_cut_is_cut_once(nets):
    data = data_of()
    value = nets.conv(data, "a", 12, (1, 1), (0, 0))
    padded, _ = pad(nets, relay.Tuple([relay.nn.softmax(value, axis=1), value]), data)
    assert len(calls(padded, "strided_slice")) == 1


def test_a_field_of_a_tuple_is_found(nets):
    data = data_of()
    value = relay.Tuple([nets.conv(data, "a", 12, (1, 1), (0, 0)), data])
    parts = relay.split(relay.TupleGetItem(value, 0), 2, axis=1)
    padded, count = pad(nets, relay.TupleGetItem(parts.astuple(), 1), data)
    assert count == 1
    assert len(calls(padded, "strided_slice")) == 1


@pytest.mark.slow
def test_batch_norms_are_padded_with_their_convolution(nets):
    data = data_of()
    value = nets.conv(data, "a", 12, (3, 3), (1, 1), bias=False, activation=None)
    statistics = [relay.var(f"bn_{name}", shape=(12,)) for name in ("gamma", "beta", "mean")]
    variance = relay.abs(relay.var("bn_var", shape=(12,))) + relay.const(0.5)
    normal = relay.nn.batch_norm(value, *statistics, variance)[0]
    last = nets.conv(relay.nn.relu(normal), "b", 16, (1, 1), (0, 0), in_channels=12)
    padded, count = pad(nets, last, data)
    assert count == 1
    assert not calls(padded, "strided_slice")


def test_whole_vectors_are_left_alone(nets):
    data = data_of()
    module, params = nets.finish(nets.conv(data, "a", 16, (3, 3), (1, 1)), data)
    same, count = pad_channels(module, params, nets.target)
    assert count == 0
    bound = relay.build_module.bind_params_by_name(module["main"], params)
    tvm.ir.assert_structural_equal(same["main"].body, bound.body, map_free_vars=True)


@pytest.mark.parametrize(("channels", "wanted"), [(5, 5), (6, 8), (11, 11), (12, 16), (41, 48)])
def test_no_convolution_works_a_third_more(nets, channels, wanted):
    data = data_of()
    module, params = nets.finish(nets.conv(data, "a", channels, (1, 1), (0, 0)), data)
    padded, count = pad_channels(module, params, nets.target)
    assert (out_channels(padded), count) == ([wanted], int(wanted > channels))


@pytest.mark.parametrize("target", ["llvm -mcpu=skylake-avx512", "llvm"])
def test_vectors_are_those_of_the_target(nets, target):
    data = data_of()
    module, params = nets.finish(nets.conv(data, "a", 44, (1, 1), (0, 0)), data)
    padded, _ = pad_channels(module, params, target)
    assert out_channels(padded) == [48 if "avx512" in target else 44]


def test_weights_that_are_inputs_are_left_alone(nets):
    data = data_of()
    module, _ = nets.finish(nets.conv(data, "a", 12, (1, 1), (0, 0)), data)
    assert pad_channels(module, None, nets.target)[1] == 0


def dense(data, name, inputs, outputs):
    return relay.nn.dense(data, relay.var(name, shape=(outputs, inputs)))


@pytest.mark.parametrize(
    ("rows", "units", "wanted"),
    [(4, 100, 112), (3, 100, 100), (4, 96, 96), (4, 24, 32), (4, 88, 96), (4, 17, 17), (4, 10, 10)],
)
@pytest.mark.slow
def test_rows_of_a_dense_layer_share_whole_blocks(nets, rows, units, wanted):
    data = relay.var("data", shape=(rows, 20))
    padded, count = pad(nets, dense(data, "a", 20, units), data)
    (made,) = calls(padded, "nn.dense")
    assert (int(made.checked_type.shape[1]), count) == (wanted, int(wanted > units))
    assert len(calls(padded, "strided_slice")) == count


def test_weights_as_importers_give_them_are_seen(nets):
    data = relay.var("data", shape=(2, 5, 20))
    matrix = relay.transpose(relay.var("a", shape=(20, 100)), (1, 0))
    copies = relay.broadcast_to(relay.expand_dims(matrix, axis=0), (2, 100, 20))
    padded, count = pad(nets, relay.nn.batch_matmul(data, copies), data)
    assert count == 1
    assert [tuple(map(int, call.args[1].data.shape)) for call in calls(padded, "nn.dense")] == [
        (112, 20)
    ]


@pytest.mark.parametrize("axis", [1, -1])
def test_dense_layers_carry_channels_to_one_another(nets, axis):
    data = relay.var("data", shape=(5, 20))
    bias = relay.var("bias", shape=(100,))
    first = relay.nn.relu(relay.nn.bias_add(dense(data, "a", 20, 100), bias, axis=axis))
    second = dense(first + dense(data, "b", 20, 100), "c", 100, 32)
    padded, count = pad(nets, second, data)
    assert count == 2
    found = [tuple(map(int, call.args[1].data.shape)) for call in calls(padded, "nn.dense")]
    assert sorted(found) == [(32, 112), (112, 20), (112, 20)]
    assert calls(padded, "strided_slice") == []


def test_a_dense_layer_reads_the_padded_channels_of_a_convolution(nets):
    data = data_of((4, 16, 1, 1))
    value = relay.nn.batch_flatten(nets.conv(data, "a", 12, (1, 1), (0, 0)))
    padded, count = pad(nets, dense(value, "b", 12, 100), data)
    (made,) = calls(padded, "nn.dense")
    assert (tuple(map(int, made.args[1].data.shape)), count) == ((112, 16), 2)


@pytest.mark.slow(1)
def test_groups_and_other_layouts_get_channels_as_they_were(nets):
    data = data_of()
    value = nets.conv(data, "a", 12, (1, 1), (0, 0))
    grouped = nets.conv(value, "b", 12, (3, 3), (1, 1), in_channels=12, groups=3)
    padded, count = pad(nets, grouped, data)
    assert count == 1
    assert out_channels(padded) == [16, 12]


def test_bad_input_is_one_of_our_errors(nets):
    with pytest.raises(ModelError, match="no function 'main'"):
        pad_channels(tvm.IRModule(), None, nets.target)
    module, params = nets.finish(nets.conv(data_of(), "a", 12, (1, 1), (0, 0)), data_of())
    with pytest.raises(ModelError, match="has no inputs"):
        pad_channels(module, {**params, "foo": params["a_bias"]}, nets.target)


def _random_network(nets, random):
    """Convolutions of any width, poolings, sums and concatenations of what there is."""
    data = data_of((1, 16, 6, 6))
    values = [(data, 16)]
    for step in range(int(random.integers(5, 12))):
        value, channels = values[int(random.integers(len(values)))]
        kind = random.choice(["conv", "conv", "depthwise", "sum", "concat", "pool", "scale"])
        if kind == "conv":
            wanted = int(random.integers(4, 40))
            made = nets.conv(value, f"c{step}", wanted, (1, 1), (0, 0), in_channels=channels)
            values.append((made, wanted))
        elif kind == "depthwise":
            made = nets.conv(
                value, f"d{step}", channels, (3, 3), (1, 1), in_channels=channels, groups=channels
            )
            values.append((made, channels))
        elif kind == "sum":
            others = [other for other, count in values if count == channels]
            values.append((value + others[int(random.integers(len(others)))], channels))
        elif kind == "concat":
            other, count = values[int(random.integers(len(values)))]
            values.append((relay.concatenate([value, other], axis=1), channels + count))
        elif kind == "pool":
            values.append((relay.nn.avg_pool2d(value, (3, 3), padding=(1, 1)), channels))
        else:
            scale = relay.var(f"s{step}", shape=(channels, 1, 1))
            values.append((relay.sigmoid(value * scale), channels))
    return relay.Tuple([value for value, _ in values[-2:]]), data


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "seeds", [[0], [1], [2, 3, 5], pytest.param([4, 6, 7], marks=pytest.mark.full)], ids=str
)
def test_random_networks_compute_the_same(nets, seeds):
    counts = []
    for number in seeds:
        output, data = _random_network(nets, np.random.default_rng(number))
        module, params = nets.finish(output, data)
        counts.append(check(nets, module, params)[1])
    assert max(counts) > 0


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "convolutions"), [(by_name("nasnet_small_c44"), 49), (squeezenet, 1)]
)
def test_networks_compute_the_same(nets, network, convolutions):
    module, params = network()
    target = "llvm -mcpu=skylake-avx512"
    padded, count = pad_channels(module, params, target)
    assert count == convolutions
    image = nets.random_input(module)
    expected, result = (
        # Stock TVM would unshare a NASNet until it is too large.
        nets.run(build_model(mod, weights, nets.target).kernels.staged.factory, image)[0]
        for mod, weights in ((module, params), (padded, None))
    )
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * float(np.abs(expected).max()))


def test_double_precision_stays(nets):
    data = relay.var("data", shape=SHAPE, dtype="float64")
    random = np.random.default_rng(0)
    weight, bias = (tvm.nd.array(random.random(shape)) for shape in ((12, 16, 1, 1), (12,)))
    value = relay.nn.conv2d(data, relay.Constant(weight), channels=12, kernel_size=(1, 1))
    body = relay.nn.bias_add(value, relay.Constant(bias))
    module = tvm.IRModule.from_expr(relay.Function([data], body))
    padded, count = pad_channels(module, None, nets.target)
    image = random.random(SHAPE)
    actual, expected = (nets.reference(each, None, image)[0] for each in (padded, module))
    assert count == 1
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("operator", [relay.nn.dense, relay.nn.conv2d])
def test_weights_that_numpy_has_no_type_for_are_left_alone(nets, operator):
    pixel = () if operator is relay.nn.dense else (1, 1)
    weight = relay.Constant(tvm.nd.empty((100, 20, *pixel), "bfloat16"))
    data = relay.var("data", shape=(4, 20, *pixel), dtype="bfloat16")
    module = tvm.IRModule.from_expr(relay.Function([data], operator(data, weight)))
    assert pad_channels(module, None, nets.target)[1] == 0
