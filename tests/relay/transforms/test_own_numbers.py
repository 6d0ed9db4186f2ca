"""Shared numbers: a copy for each operator, so that kernels and libraries know them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.relay.dataflow import kernel_calls
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.own_numbers import own_numbers
from tvm_ios.support.exact_bits import exact_bits


def two_squares(number: relay.Expr) -> tvm.IRModule:
    """Two operators that read one number, in kernels of their own."""
    x = relay.var("x", shape=(3, 4))
    inner = relay.nn.softmax(relay.power(x, number))
    return typed(relay.nn.softmax(relay.power(inner, number)))


def arguments_of(module: tvm.IRModule) -> list[int]:
    return [len(call.args) for call in kernel_calls(module["main"].body)]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("exact", [False, True])
def test_kernels_know_shared_numbers_unless_bits_may_not_change(shape, exact):
    module = two_squares(relay.const(np.full(shape, 2.0, "float32")))
    with exact_bits(exact):
        prepared = prepare(module, None, "llvm").module
    taking_numbers = sum(count > 1 for count in arguments_of(prepared))
    assert taking_numbers == (2 if exact else 0)


def test_numbers_that_decide_the_shape_stay():
    number = relay.const(np.full((1, 1, 1), 2.0, "float32"))
    module = typed(relay.add(relay.var("x", shape=(3,)), number))
    own = own_numbers(module)
    assert tuple(own["main"].body.checked_type.shape) == (1, 1, 3)
    module = typed(relay.add(relay.var("x", shape=(1,)), relay.const([2.0])))
    assert tuple(own_numbers(module)["main"].body.checked_type.shape) == (1,)


def test_other_operators_keep_their_shapes_and_results_their_bits():
    x = relay.var("x", shape=(2, 3))
    number = relay.const(np.float32([0.1]))
    joined = relay.concatenate([relay.reshape(x, (6,)), number], 0)
    module = typed(relay.Tuple([joined * number, relay.take(x, relay.const([1])) / number]))
    data = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
    results = [
        relay.create_executor("debug", mod=each).evaluate()(data)
        for each in (module, own_numbers(module))
    ]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("shape", [(), (1,)])
def test_numbers_of_bfloat16_stay_what_they_are(shape):
    number = relay.const(np.full(shape, 2.0, "float32"), "bfloat16")
    made = own_numbers(typed(relay.var("x", shape=(5,), dtype="bfloat16") * number))
    assert made["main"].body.args[1].data.numpy() == number.data.numpy().reshape(())
