from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.frontends.test_joined import dense
from tvm_ios.relay.constants import constant, equal_constants, is_array, values_of
from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.frontends.joined import joined_module
from tvm_ios.relay.prepare import prepare


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool"])
def test_constants_keep_their_type_and_values(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype).T
    made = constant(array)
    assert is_array(made)
    assert made.data.dtype == dtype
    np.testing.assert_array_equal(made.data.numpy(), array)


def test_inputs_are_no_arrays_and_bfloat16_is_none():
    assert not is_array(relay.var("data", shape=(2,)))
    assert not is_array(relay.Constant(tvm.nd.empty((2,), "bfloat16")))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_of_constants_of_every_type(dtype):
    made = relay.const(np.array([-2, 0.5], "float32"), dtype)
    np.testing.assert_array_equal(values_of(made), np.array([-2, 0.5], "float32"))


def test_constants_are_one_where_all_bits_are_equal():
    values = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
    nearly = values.copy()
    nearly[3, 3] += 1
    first, other, again = (constant(each) for each in (values, nearly, values.copy()))
    shaped, typed = constant(values.reshape(8, 64)), constant(values.view("int32"))
    small = [constant(values[:1].copy()) for _ in range(2)]
    equal = equal_constants([first, other, again, shaped, typed, *small])
    assert equal == {again: first}


def test_zeros_of_both_signs_are_two():
    zeros = [constant(np.full(512, zero, "float32")) for zero in (0.0, -0.0)]
    assert equal_constants(zeros) == {}


def test_parts_with_the_same_weights_share_them():
    module = joined_module({"a": dense(units=64, width=32), "b": dense(units=64, width=32)})
    prepared = prepare(module, {}, "llvm -opt-level=0")
    weights = [
        argument
        for call in all_calls(prepared.module["main"])
        for argument in call.args
        if isinstance(argument, relay.Constant)
    ]
    assert len(weights) == 2
    assert weights[0].same_as(weights[1])
