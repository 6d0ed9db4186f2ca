from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.relay.transforms.simplify import adds_to_itself, may_share, may_simplify

DATA = relay.var("data", shape=(1, 16, 8, 8))
RELU = relay.nn.relu(DATA)
POOL = relay.nn.max_pool2d(DATA, (3, 3), padding=(1, 1))


def constant(*shape):
    return relay.const(np.full(shape, 2.0, "float32"))


INERT = {
    "a sum of two": relay.add(RELU, POOL),
    "a bias": relay.add(RELU, constant(16, 1, 1)),
    "a sum and a bias": relay.add(relay.add(RELU, constant(16, 1, 1)), POOL),
    "a layout": relay.layout_transform(RELU, "NCHW", "NCHW8c"),
    "branches": relay.concatenate([RELU, POOL], axis=1),
}
MAYBE = {
    "a sum with itself": relay.add(RELU, RELU),
    "a scalar": relay.add(RELU, relay.const(0.0)),
    "two biases": relay.add(relay.add(RELU, constant(16, 1, 1)), constant(16, 1, 1)),
    "a layout that stays": relay.layout_transform(RELU, "NCHW", "NCHW"),
    "two layouts": relay.layout_transform(
        relay.layout_transform(RELU, "NCHW", "NCHW8c"), "NCHW8c", "NCHW"
    ),
    "a product": relay.multiply(RELU, POOL),
    "two reshapes": relay.reshape(relay.reshape(RELU, (16, 64)), (1, 1024)),
    "a cast": relay.cast(RELU, "float32"),
}


@pytest.mark.parametrize("name", INERT)
def test_where_nothing_is_found_tvm_finds_nothing_either(name):
    module = typed(INERT[name])
    assert not may_simplify(module)
    simplified = relay.transform.InferType()(relay.transform.SimplifyExpr()(module))
    tvm.ir.assert_structural_equal(simplified, module)


@pytest.mark.parametrize("name", MAYBE)
def test_tvm_is_asked_where_it_may_find_something(name):
    assert may_simplify(typed(MAYBE[name]))


def test_what_tvm_does_simplify_is_seen():
    for name in ("a scalar", "two biases", "two reshapes", "a cast", "two layouts"):
        module = typed(MAYBE[name])
        simplified = relay.transform.InferType()(relay.transform.SimplifyExpr()(module))
        assert not tvm.ir.structural_equal(simplified, module), name


def test_sums_of_one_tensor_with_itself_are_seen():
    assert adds_to_itself(typed(relay.nn.relu(MAYBE["a sum with itself"])))
    assert not adds_to_itself(typed(INERT["a sum of two"]))


def sharing(*calls):
    x = relay.var("x", shape=(2, 3))
    body = relay.Tuple([call(x) for call in calls])
    return may_share(tvm.IRModule.from_expr(relay.Function([x], body)))


def test_calls_that_compute_the_same_may_be_shared():
    assert sharing(relay.nn.relu, relay.nn.relu)
    assert sharing(*[lambda x: relay.add(x, relay.const(1.0))] * 2)


@pytest.mark.parametrize(
    "calls",
    [
        (relay.nn.relu, relay.tanh),
        (lambda x: relay.add(x, relay.const(1.0)), lambda x: relay.add(x, relay.const(2.0))),
        (lambda x: relay.sum(x, axis=0), lambda x: relay.sum(x, axis=1)),
    ],
)
def test_nothing_is_shared_where_operator_number_or_attribute_differ(calls):
    assert not sharing(*calls)
