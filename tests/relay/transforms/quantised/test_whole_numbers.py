"""Whole numbers that lie in memory between the operators of quantised models."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_outputs
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relay.build import build
from tvm_ios.relay.dataflow import all_calls, is_call_of
from tvm_ios.relay.functions.quantised import (
    QUANTIZE,
    dequantize,
    fake_quantize,
    is_fake_quantize,
    quantize,
    stored_type_of,
)
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.quantised.whole_numbers import in_numbers
from tvm_ios.support.exact_bits import exact_bits

VNNI, PLAIN = "llvm -mcpu=cascadelake", "llvm -mcpu=core-avx2"
QUICK = f"{PLAIN} -opt-level=0"
"""Target of what runs once, on any processor."""
STORED = StoredType(dtype="uint8", scale=0.05, zero_point=120)
OTHER = StoredType(dtype="int8", scale=0.1, zero_point=-20)
SHAPE = (1, 16, 8, 8)


def whole_weights(*shape, most=127):
    drawn = np.random.default_rng(0).integers(most - 255, most, shape, endpoint=True)
    drawn.reshape(shape[0], -1)[:, 0] = most
    scales = np.linspace(1e-3, 2e-3, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return relay.const((drawn * scales).astype("float32"))


def convolved(value, channels=16, most=127, **how):
    weight = whole_weights(channels, 16, 3, 3, most=most)
    how = {"padding": (1, 1), "kernel_size": (3, 3), **how}
    return relay.nn.conv2d(value, weight, channels=channels, **how)


def data(name="x"):
    return relay.var(name, shape=SHAPE)


def module_of(body):
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))


def types(body, target=VNNI):
    """Kinds of operators and data types of what they read and write."""
    extraction = prepare(module_of(body), None, target).extraction
    found = []
    for operator, call in zip(extraction.graph.operators, extraction.calls, strict=True):
        read = [str(each.checked_type.dtype) for each in call.op.params]
        found.append((operator.kind, read, str(call.checked_type.dtype)))
    return found


def test_whole_numbers_that_are_moved_are_numbers():
    x = data()
    whole = relay.nn.max_pool2d(relay.cast(quantize(x, STORED), "int32"), (2, 2), strides=(2, 2))
    moved = relay.reshape(relay.transpose(relay.cast(whole, "uint8"), (0, 2, 3, 1)), (16, 16))
    module = relay.transform.InferType()(module_of(relay.tanh(dequantize(moved, STORED))))
    made = in_numbers(module)
    names = [call.op.name for call in all_calls(made["main"].body)]
    assert names == [
        *("tvm_ios.fake_quantize", "nn.max_pool2d", "transpose", "reshape", "tanh"),
    ]
    values = np.random.default_rng(0).uniform(-9, 9, SHAPE).astype("float32")
    found, wanted = (
        stock_outputs(relay.build(each, target="llvm -opt-level=0"), x=values)[0]
        for each in (made, module)
    )
    np.testing.assert_array_equal(found, wanted)


def test_others_whole_numbers_stay():
    x = relay.var("x", shape=SHAPE, dtype="uint8")
    module = relay.transform.InferType()(module_of(dequantize(x, STORED)))
    assert in_numbers(module).astext() == module.astext()
    unlike = dequantize(quantize(data(), STORED), OTHER)
    module = relay.transform.InferType()(module_of(unlike))
    assert not any(map(is_fake_quantize, all_calls(in_numbers(module)["main"].body)))


def test_products_read_whole_numbers_with_weights_of_them():
    body = convolved(fake_quantize(relay.nn.relu(convolved(fake_quantize(data(), STORED))), OTHER))
    layout, first, second, back = types(body)
    assert layout == ("layout_transform", ["float32"], "uint8")
    assert first == ("conv2d", ["uint8", "int8", "float32"], "uint8")
    assert second == ("conv2d", ["uint8", "int8", "float32"], "float32")
    assert back == ("layout_transform", ["float32"], "float32")


def test_weights_of_nine_bits_are_multiplied_in_two_products():
    first, *products = types(convolved(fake_quantize(data(), STORED), most=150))[:-1]
    assert first == ("layout_transform", ["float32"], "uint8")
    assert products == [
        ("conv2d", ["uint8", "int8"], "float32"),
        ("conv2d", ["uint8", "int8", "float32", "float32"], "float32"),
    ]
    depthwise = whole_weights(16, 1, 3, 3, most=150)
    value = fake_quantize(data(), STORED)
    how = {"channels": 16, "groups": 16, "padding": (1, 1), "kernel_size": (3, 3)}
    found = types(relay.nn.conv2d(value, depthwise, **how))
    assert [each[1][0] for each in found if "conv2d" in each[0]] == ["float32"]


@pytest.mark.parametrize("why", ["processor", "weights", "bits"])
def test_products_that_cannot_read_numbers_of_float32(why):
    value = fake_quantize(convolved(fake_quantize(data(), STORED)), OTHER)
    if why == "weights":
        weight = np.random.default_rng(0).standard_normal((16, 16, 1, 1)).astype("float32")
        body = relay.nn.conv2d(value, relay.const(weight), channels=16, kernel_size=(1, 1))
    else:
        body = convolved(value)
    with exact_bits(why == "bits"):
        found = types(body, PLAIN if why == "processor" else VNNI)
    assert found[2][1][0] == "float32", found


def of_two(second, *, end=lambda value: value):
    """A product of whole numbers by others, whose second operand is made of a tensor."""
    left = relay.reshape(fake_quantize(data(), STORED), (16, 8, 8))
    right = second(fake_quantize(relay.exp(data()), OTHER))
    return relay.exp(end(relay.nn.batch_matmul(left, right)))


def turned(value):
    return relay.transpose(relay.reshape(value, (16, 8, 8)), (0, 2, 1))


def test_products_of_two_tensors_read_whole_numbers():
    found = types(of_two(turned))
    assert ("matmul", ["uint8", "int8"], "float32") in found
    ended = types(of_two(turned, end=lambda value: fake_quantize(relay.nn.relu(value), OTHER)))
    assert ("matmul", ["uint8", "int8"], "uint8") in ended
    assert ("matmul", ["float32", "float32"], "float32") in types(of_two(turned), PLAIN)


def test_a_product_ends_in_whole_numbers_in_front_of_a_reshape():
    def end(value):
        return fake_quantize(relay.reshape(value, (8, 16, 8)), OTHER)

    assert ("matmul", ["uint8", "int8"], "uint8") in types(of_two(turned, end=end))


def test_products_of_two_read_float32_where_others_read_it_too():
    right = turned(fake_quantize(relay.exp(data()), OTHER))
    product = relay.nn.batch_matmul(relay.reshape(fake_quantize(data(), STORED), (16, 8, 8)), right)
    found = types(product + relay.nn.softmax(right))
    assert ["float32", "float32"] in [each[1][:2] for each in found if each[0] == "matmul"]


@pytest.mark.parametrize(
    "second",
    [
        lambda value: turned(relay.exp(value)),
        lambda value: turned(value) + turned(relay.tanh(relay.var("y", shape=SHAPE))),
    ],
    ids=["numbers", "a sum"],
)
def test_products_of_two_that_cannot_read_numbers_of_float32(second):
    found = types(of_two(second, end=lambda value: fake_quantize(value, OTHER)))
    (product,) = [each for each in found if each[0] == "matmul"]
    assert product == ("matmul", ["float32", "float32"], "float32")


def test_what_others_read_lies_in_bytes_on_any_processor():
    value = fake_quantize(relay.tanh(data()), STORED)
    found = types(relay.exp(relay.nn.avg_pool2d(value, (2, 2))), PLAIN)
    assert found == [("tanh", ["float32"], "uint8"), ("avg_pool2d", ["uint8"], "float32")]
    found = types(relay.exp(relay.nn.max_pool2d(value, (2, 2))), PLAIN)
    assert found[1] == ("max_pool2d", ["uint8"], "float32")


@pytest.mark.parametrize("bends", [False, True])
def test_factors_and_bias_are_in_steps_of_what_follows(bends):
    value = biased(fake_quantize(data(), STORED))
    value = relay.nn.relu(value) if bends else value
    body = convolved(fake_quantize(value, OTHER))
    calls = prepare(module_of(body), None, VNNI).extraction.calls
    (written,) = [each for each in calls[1:] if is_call_of(each.op.body, QUANTIZE)]
    zero = OTHER.unsigned().zero_point if bends else 0
    assert stored_type_of(written.op.body) == StoredType(dtype="uint8", zero_point=zero)


def test_results_and_views_of_them_are_numbers():
    found = types(relay.reshape(fake_quantize(relay.tanh(data()), STORED), (16, 64)))
    assert {each[2] for each in found} == {"float32"}


def test_joined_whole_numbers_of_one_type_stay_so():
    x, y = data(), data("y")
    parts = [fake_quantize(relay.nn.avg_pool2d(each, (2, 2)), STORED) for each in (x, y)]
    same = types(relay.nn.avg_pool2d(relay.concatenate(parts, 1), (2, 2)))
    assert [each for each in same if each[0] == "concatenate"] == [
        ("concatenate", ["uint8", "uint8"], "uint8")
    ]


def biased(value):
    return relay.nn.bias_add(convolved(value), relay.const(np.linspace(-1, 1, 16, dtype="float32")))


NETWORKS = {
    "bias": lambda x: convolved(fake_quantize(biased(x), OTHER)),
    "bias and relu": lambda x: convolved(fake_quantize(relay.nn.relu(biased(x)), OTHER)),
    "bias and residual": lambda x: convolved(
        fake_quantize(fake_quantize(biased(x), OTHER) + x, STORED)
    ),
    "chain": lambda x: convolved(fake_quantize(relay.nn.relu(convolved(x)), OTHER)),
    "residual": lambda x: fake_quantize(fake_quantize(convolved(x), OTHER) + x, STORED),
    "nine bits": lambda x: fake_quantize(convolved(x, most=128) + convolved(x, most=150), OTHER),
    "strides": lambda x: convolved(x, strides=(2, 2), padding=(0, 1)),
    "dense": lambda x: relay.nn.dense(relay.reshape(x, (1, 1024)), whole_weights(8, 1024)),
    "pooling": lambda x: relay.tanh(
        fake_quantize(relay.nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1)), STORED)
    ),
    "two products": lambda x: relay.nn.batch_matmul(
        *(relay.reshape(each, (1, 32, 32)) for each in (x, fake_quantize(relay.exp(x), OTHER)))
    ),
    "parts": lambda x: relay.split(relay.nn.avg_pool2d(x, (2, 2)), 2, 1)[1],
    "softmax": lambda x: relay.nn.softmax(relay.reshape(x, (16, 64))),
}


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "name",
    # Parts of other networks are for `make test-all`.
    [
        pytest.param(name, marks=pytest.mark.full) if name in ("bias", "chain") else name
        for name in NETWORKS
    ],
)
def test_kernels_compute_what_the_model_says(name, reference_build):
    body = relay.tanh(NETWORKS[name](fake_quantize(data(), STORED)))
    values = np.random.default_rng(1).uniform(-6, 6, SHAPE).astype("float32")
    stock = reference_build(module_of(body), None, QUICK, opt_level=1)
    (wanted,) = stock_outputs(stock, x=values)
    for target in (VNNI, PLAIN):
        prepared = prepare(module_of(body), None, target)
        (found,) = stock_outputs(build(prepared.module, QUICK).factory, x=values)
        np.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=target)


@pytest.mark.slow(1)
def test_factors_that_a_run_tells_are_made_in_front_of_products(reference_build):
    x, scale, zero = (
        data(),
        relay.var("scale", shape=()),
        relay.var("zero", shape=(), dtype="uint8"),
    )
    whole = StoredType(dtype="uint8")
    read = relay.reshape(fake_quantize(relay.nn.relu(x), whole), (64, 16))
    steps = np.random.default_rng(0).integers(-127, 127, (24, 16), endpoint=True)
    steps[:, 0] = 127
    product = relay.nn.dense(read, relay.const(steps.astype("float32")))
    shift = relay.cast(zero, "float32") * relay.const(steps.sum(1).astype("float32"))
    body = (product - shift) * (scale * relay.const(0.5)) + relay.const(np.ones(24, "float32"))
    found = types(relay.exp(body))
    (dense,) = [each for each in found if each[0] == "dense"]
    assert dense[1][:2] == ["uint8", "int8"]
    assert "uint8" not in dense[1][2:], "the zero point is read elsewhere"
    values = {
        "x": np.random.default_rng(1).uniform(-3, 300, SHAPE).astype("float32"),
        "scale": np.float32(1e-5),
        "zero": np.uint8(7),
    }
    prepared = prepare(module_of(body), None, VNNI)
    (ours,) = stock_outputs(build(prepared.module, QUICK).factory, **values)
    (theirs,) = stock_outputs(reference_build(module_of(body), None, QUICK), **values)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
