"""Transposed convolutions of NHWC data as functions of their own: what is in them, and results."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.small_networks import narrow_unet
from tvm_ios.core.conversion import Conversion
from tvm_ios.host import host_target
from tvm_ios.relay.dataflow import kernel_calls, local_function
from tvm_ios.relay.extract import extract
from tvm_ios.relay.prepare import converted_model, prepare
from tvm_ios.relay.transforms.bound_model import bound_model
from tvm_ios.relay.transforms.whole_transposed import keep_transposed_whole

ALONE = ["transpose", "nn.conv2d_transpose", "transpose"]


def transposed(data, kernel=(2, 2), groups=1, name="weight", **others):
    weight = relay.var(name, shape=(6, 5 if groups == 1 else 1, *kernel))
    return relay.nn.conv2d_transpose(
        data,
        weight,
        strides=(2, 2),
        channels=5 if groups == 1 else groups,
        kernel_size=kernel,
        groups=groups,
        **others,
    )


def biased(value):
    return relay.nn.bias_add(value, relay.var("bias", shape=(5,)))


def in_nhwc(module, params):
    return converted_model(module, params, host_target(), Conversion(desired_layout="NHWC"))[0]


def whole_functions(module):
    """Operators of each function that ``main`` calls."""
    functions = map(local_function, kernel_calls(module["main"].body))
    return [
        [call.op.name for call in kernel_calls(function.body)]
        for function in functions
        if function is not None
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "padding", "more"),
    [((2, 2), (0, 0), (0, 0)), ((3, 3), (1, 1), (1, 1)), ((4, 3), (1, 0, 2, 1), (0, 0))],
)
@pytest.mark.parametrize("images", [1, 2])
def test_results_stay(nets, kernel, padding, more, images):
    data = relay.var("data", shape=(images, 6, 5, 7))
    call = transposed(data, kernel, padding=padding, output_padding=more)
    module, params = nets.finish(relay.nn.relu(biased(call)), data)
    whole, kept = keep_transposed_whole(in_nhwc(module, params))
    assert kept == 1
    assert whole_functions(whole) == [[*ALONE, "add", "nn.relu"]]
    nets.assert_same((module, params), (whole, None))


@pytest.mark.slow
def test_batch_norms_and_numbers_come_along(nets):
    data = relay.var("data", shape=(1, 6, 5, 7))
    statistics = [relay.var(name, shape=(5,)) for name in ("gamma", "beta", "mean", "variance")]
    value = relay.nn.batch_norm(transposed(data), *statistics)[0]
    module, params = nets.finish(relay.multiply(value, relay.const(3.0)), data)
    params["variance"] = np.abs(params["variance"].numpy()) + 1
    whole, kept = keep_transposed_whole(in_nhwc(module, params))
    assert kept == 1
    (operators,) = whole_functions(whole)
    assert operators[:3] == ALONE
    assert set(operators[3:]) <= {"add", "multiply"}
    nets.assert_same((module, params), (whole, None))


@pytest.mark.parametrize(
    "follow",
    [
        lambda value, data: relay.Tuple([relay.nn.relu(value), value]),
        lambda value, data: relay.add(relay.nn.relu(value), relay.tanh(value)),
        lambda value, data: relay.add(value, relay.nn.max_pool2d(data, (1, 1))),
        lambda value, data: relay.nn.softmax(value),
        lambda value, data: relay.sigmoid(value),
    ],
    ids=["output", "two readers", "residual", "other operator", "a curve of five channels"],
)
def test_what_needs_more_than_the_value_stays_apart(nets, follow):
    data = relay.var("data", shape=(1, 6, 5, 7))
    other = relay.var("other", shape=(1, 5, 10, 14))
    module, params = nets.finish(follow(transposed(data), other), data, other)
    whole, kept = keep_transposed_whole(in_nhwc(module, params))
    assert kept == 1
    assert whole_functions(whole) == [ALONE]


def test_what_no_library_takes_stays(nets):
    data = relay.var("data", shape=(1, 6, 5, 7))
    for call in (
        transposed(data, groups=6),
        relay.nn.conv2d_transpose(
            data,
            relay.tanh(relay.var("computed", shape=(6, 5, 2, 2))),
            channels=5,
            kernel_size=(2, 2),
        ),
    ):
        module, _ = nets.finish(call, data)
        laid_out = in_nhwc(module, None)
        assert keep_transposed_whole(laid_out) == (laid_out, 0)


def test_operators_without_arguments_stay(nets):
    data = relay.var("data", shape=(1, 6, 5, 7))
    value = biased(transposed(data))
    main = in_nhwc(*nets.finish(value, data))["main"]
    body = relay.Tuple([main.body, relay.zeros((2, 3), "float32")])
    module = tvm.IRModule.from_expr(relay.Function(main.params, body))
    whole, kept = keep_transposed_whole(relay.transform.InferType()(module))
    assert (kept, whole["main"].body.fields[1].op.name) == (1, "zeros")


@pytest.mark.slow
def test_a_u_net_has_no_transposes_of_their_own():
    module, params = narrow_unet()
    laid_out = in_nhwc(module, params)
    whole, kept = keep_transposed_whole(laid_out)
    prepared = prepare(whole, None, host_target())
    names = [operator.name for operator in extract(prepared.module).graph.operators]
    assert len([name for name in names if "conv2d_transpose" in name]) == kept == 2
    assert not any(name.startswith("transpose") for name in names)
    assert keep_transposed_whole(prepared.module) == (prepared.module, 0)


@pytest.mark.parametrize("layout", ["HWIO", "HWOI", "OIHW"])
@pytest.mark.slow
def test_weights_of_a_model_in_nhwc_may_lie_in_any_order(nets, layout):
    extents = dict(zip("IOHW", (6, 5, 2, 3), strict=True))
    data = relay.var("data", shape=(1, 5, 7, 6))
    weight = relay.var("weight", shape=[extents[axis] for axis in layout])
    call = relay.nn.conv2d_transpose(
        data,
        weight,
        strides=(2, 2),
        channels=5,
        kernel_size=(2, 3),
        data_layout="NHWC",
        kernel_layout=layout,
    )
    module, params = nets.finish(relay.nn.relu(call), data)
    whole, kept = keep_transposed_whole(bound_model(module, params))
    assert (kept, whole_functions(whole)) == (1, [[*ALONE, "nn.relu"]])
    nets.assert_same((module, params), (whole, None))


def test_double_precision_stays(nets):
    weight, bias = (tvm.nd.array(np.full(shape, 0.1)) for shape in ((6, 5, 2, 2), (5,)))
    data = relay.var("data", shape=(1, 4, 3, 6), dtype="float64")
    call = relay.nn.conv2d_transpose(
        data,
        relay.Constant(weight),
        strides=(2, 2),
        channels=5,
        kernel_size=(2, 2),
        data_layout="NHWC",
    )
    body = call + relay.Constant(bias)
    module = bound_model(tvm.IRModule.from_expr(relay.Function([data], body)), None)
    whole, kept = keep_transposed_whole(module)
    assert kept == 1
    image = np.random.default_rng(0).random((1, 4, 3, 6))
    actual, expected = (nets.reference(each, None, image)[0] for each in (whole, module))
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
