"""Models in several spellings become one, and compute what they computed before."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import evaluated, typed
from tvm_ios.relay.dataflow import kernel_calls
from tvm_ios.relay.transforms.spellings.one_spelling import in_one_spelling

ROWS, DEPTH, HEADS = 6, 8, 2


def variable(name="x", *shape):
    return relay.var(name, shape=shape or (ROWS, DEPTH))


def number(value, *shape):
    return relay.const(np.full(shape, value, "float32"))


def spelled(body):
    """Operators in one spelling, which computes the same."""
    before = typed(body)
    after = in_one_spelling(before)
    np.testing.assert_allclose(evaluated(after), evaluated(before), rtol=1e-5, atol=1e-6)
    return [call.op.name for call in kernel_calls(after["main"].body)]


X = variable()


def gelu_of_builder():
    gate = relay.erf(X * number(sqrt(0.5))) + number(1)
    return (X * number(0.5)) * gate


def gelu_of_halves():
    return X * (number(0.5) + relay.erf(X * number(sqrt(0.5))) * number(0.5))


def gelu_of_quotient():
    return (X * (number(1) + relay.erf(X / number(sqrt(2))))) * number(0.5)


def gelu_of_shaped_numbers():
    return number(0.5) * (X * (relay.erf(X / number(sqrt(2), 1)) + number(1, 1, 1)))


def hard_swish_of_builder():
    return X * (relay.clip(X + number(3), 0, 6) * number(1 / 6))


def hard_swish_of_quotient():
    return (X * relay.clip(number(3) + X, 0, 6)) / number(6)


def hard_swish_of_line():
    return X * relay.clip(X * number(1 / 6) + number(0.5), 0, 1)


def hard_swish_of_difference():
    return X * relay.clip((X - number(-3)) / number(6), 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bodies",
    [
        (gelu_of_builder, gelu_of_halves, gelu_of_quotient, gelu_of_shaped_numbers),
        (
            hard_swish_of_builder,
            hard_swish_of_quotient,
            hard_swish_of_line,
            hard_swish_of_difference,
        ),
    ],
    ids=["gelu", "hard_swish"],
)
def test_activations_have_one_spelling(bodies):
    first, *others = [spelled(body()) for body in bodies]
    assert all(sorted(each) == sorted(first) for each in others)


def heads(value, axes=(0, 2, 1, 3)):
    return relay.transpose(relay.reshape(value, (2, ROWS // 2, HEADS, DEPTH // HEADS)), axes)


def scored(query, key):
    pairs = [relay.reshape(each, (4, ROWS // 2, DEPTH // HEADS)) for each in (query, key)]
    return relay.nn.batch_matmul(*pairs)


@pytest.mark.slow
def test_factors_of_queries_and_keys_are_one_behind_their_product():
    query, key = variable("q"), variable("k")
    scale = number(0.7)
    turned = relay.transpose(heads(key, (0, 2, 3, 1)), (0, 1, 3, 2))
    ways = [
        scored(heads(query), heads(key)) * number(0.49),
        scored(heads(query) * scale, heads(key) * scale),
        scored(heads(query * number(0.49)), turned),
        scored(heads(query) / number(1 / 0.49), relay.broadcast_to(heads(key), (2, 2, 3, 4))),
    ]
    first, *others = [spelled(relay.nn.softmax(way)) for way in ways]
    assert first[-3:] == ["nn.batch_matmul", "multiply", "nn.softmax"]
    assert all(each == first for each in others)


def test_a_value_of_several_readers_is_scaled_once():
    scaled = X * number(0.3)
    assert spelled(relay.exp(scaled) + relay.tanh(scaled)).count("multiply") == 1


def test_factors_that_may_overflow_stay_where_they_are():
    names = spelled(((X * number(1e-6)) * variable("y")) + variable("z"))
    assert names == ["multiply", "multiply", "add"]


def test_a_factor_stays_before_weights_and_before_a_wider_product():
    gate, data = variable("gate", 1, DEPTH), variable("data")
    assert spelled(relay.nn.dense(X * number(0.5), number(0.1, 3, DEPTH)))[-1] == "nn.dense"
    names = spelled(relay.nn.relu((gate * number(0.5)) * data))
    assert names == ["multiply", "multiply", "nn.relu"]


def test_a_clip_between_the_other_way_round_when_the_factor_is_negative():
    assert spelled(relay.clip(X * number(-0.5), -0.3, 0.9) + variable("y")) == [
        "clip",
        "multiply",
        "add",
    ]


def test_parts_of_a_packed_product_are_slices_of_it():
    packed = relay.reshape(variable("x", ROWS, 3 * DEPTH), (1, ROWS, 3, HEADS, DEPTH // HEADS))
    parts = relay.split(relay.transpose(packed, (2, 0, 3, 1, 4)), 3)
    query, key = (relay.reshape(parts[n], (HEADS, ROWS, DEPTH // HEADS)) for n in (0, 2))
    names = spelled(relay.nn.batch_matmul(query, key))
    way = ["strided_slice", "reshape", "transpose"]
    assert names == [*way, *way, "nn.batch_matmul"]


def test_one_entry_of_an_axis_is_a_slice():
    for place, mode in ((1, "clip"), (-2, "wrap")):
        taken = relay.take(variable("x", 2, 3, 4), relay.const(place), axis=1, mode=mode)
        assert spelled(taken) == ["strided_slice", "reshape"]


@pytest.mark.slow
def test_means_of_channels_are_poolings_but_those_of_norms():
    image = variable("x", 2, 3, 4, 5)
    for mean in (
        relay.mean(image, (2, 3), keepdims=True),
        relay.nn.adaptive_avg_pool2d(image, (1, 1)),
        relay.nn.global_avg_pool2d(image),
    ):
        assert spelled(relay.exp(mean)) == ["nn.global_avg_pool2d", "exp"]
    assert spelled(relay.mean(image, (-2, -1))) == ["nn.global_avg_pool2d", "reshape"]
    assert "mean" in spelled(image - relay.mean(image, (2, 3), keepdims=True))
    assert spelled(relay.mean(image, (1, 2))) == ["mean"]


def test_numbers_are_known():
    extent = relay.cast(relay.const(9, "int32"), "float32")
    scale = relay.power(extent, number(-0.5))
    assert spelled(relay.exp(X * scale)) == ["multiply", "exp"]


def test_truth_values_are_known_as_numbers():
    truth = relay.cast(relay.const(True), "float32")
    assert spelled(X + truth) == ["add"]
    both = relay.logical_and(relay.const(True), relay.const(False))
    assert spelled(X + relay.cast(both, "float32")) == ["logical_and", "cast", "add"]


def test_a_transpose_of_several_readers_is_done_once():
    turned = relay.transpose(relay.reshape(X, (ROWS, 2, 4)), (1, 0, 2))
    readers = [relay.exp(relay.reshape(turned, (2, -1))), relay.reshape(turned, (4, -1))]
    assert (
        spelled(relay.concatenate([readers[0], relay.reshape(readers[1], (2, -1))], 0)).count(
            "transpose"
        )
        == 1
    )
