"""What an operator runs, in words that libraries read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import relay

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall, TensorType
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.relay.functions.fused_function import describe_function
from tvm_ios.relay.functions.stored_types import with_stored_types

IMAGE = TensorType((1, 4, 6, 6), "float32")


def test_calls_read_parameters_constants_and_each_other(nets):
    data, other = (relay.var(name, shape=IMAGE.shape) for name in ("data", "other"))
    body = relay.clip(data + relay.const(np.float32(2.0)), 0.0, 6.0) * other
    assert describe_function(nets.fused(body, other, data)) == FusedFunction(
        parameters=(IMAGE, IMAGE),
        calls=(
            PrimitiveCall(
                operator="constant",
                operands=(),
                result=TensorType((), "float32"),
                attributes=(("value", 2.0),),
            ),
            PrimitiveCall(operator="add", operands=(1, 2), result=IMAGE),
            PrimitiveCall(
                operator="clip",
                operands=(3,),
                result=IMAGE,
                attributes=(("a_min", 0.0), ("a_max", 6.0)),
            ),
            PrimitiveCall(operator="multiply", operands=(4, 0), result=IMAGE),
        ),
    )


def test_attributes_are_numbers_text_and_tuples_of_them(nets):
    data, weight = relay.var("data", shape=IMAGE.shape), relay.var("weight", shape=(8, 2, 3, 3))
    body = relay.nn.conv2d(data, weight, padding=(1, 0), groups=2, kernel_size=(3, 3))
    (call,) = describe_function(nets.fused(body, data, weight)).calls
    assert (call.operator, call.operands) == ("nn.conv2d", (0, 1))
    assert call.result == TensorType((1, 8, 6, 4), "float32")
    assert call.attribute("padding") == (1, 0, 1, 0)
    assert (call.attribute("groups"), call.attribute("data_layout")) == (2, "NCHW")
    assert call.attribute("nothing", "else") == "else"


def test_numbers_come_behind_the_first_call_unless_it_reads_them(nets):
    data, weight = relay.var("data", shape=IMAGE.shape), relay.var("weight", shape=(4, 4, 1, 1))
    half = relay.const(np.float32(0.5))
    found = describe_function(nets.fused(half * relay.nn.conv2d(data, weight), data, weight))
    assert [(call.operator, call.operands) for call in found.calls] == [
        ("nn.conv2d", (0, 1)),
        ("constant", ()),
        ("multiply", (3, 2)),
    ]
    found = describe_function(nets.fused(relay.nn.conv2d(half * data, weight), data, weight))
    assert [call.operator for call in found.calls] == ["constant", "multiply", "nn.conv2d"]


def test_fields_of_a_tuple_are_operands(nets):
    data, other = (relay.var(name, shape=IMAGE.shape) for name in ("data", "other"))
    body = relay.concatenate([relay.nn.relu(data), other], axis=1)
    relu, joined = describe_function(nets.fused(body, data, other)).calls
    assert (relu.operands, joined.operands) == ((0,), (2, 1))


def test_what_has_several_results_or_nothing_in_it_is_not_described(nets):
    data = relay.var("data", shape=IMAGE.shape)
    pieces = relay.split(data, 2, axis=1)
    for body in (pieces.astuple(), pieces[0], relay.Tuple([data, relay.nn.relu(data)]), data):
        assert describe_function(nets.fused(body, data)) is None


@pytest.mark.parametrize("operator", [relay.nn.global_avg_pool1d, relay.nn.global_max_pool1d])
def test_operators_whose_attributes_cannot_be_read_are_not_described(nets, operator):
    data = relay.var("data", shape=(1, 4, 6))
    assert describe_function(nets.fused(operator(data), data)) is None


def test_casts_at_the_edges_are_types_of_parameters_and_of_the_result(nets):
    data, other = (relay.var(name, shape=IMAGE.shape) for name in ("data", "other"))
    plain = nets.fused(relay.nn.relu(data + other), data, other)
    exact = describe_function(plain)
    stored = describe_function(
        with_stored_types(plain, dict.fromkeys([1], IN_BFLOAT16), IN_BFLOAT16)
    )
    low = TensorType(IMAGE.shape, "bfloat16")
    assert stored == replace(
        exact, parameters=(IMAGE, low), stored=(None, IN_BFLOAT16), rounded_to=IN_BFLOAT16
    )
    assert exact.rounded_to is None
    assert describe_function(
        with_stored_types(plain, dict.fromkeys([0], IN_BFLOAT16), None)
    ) == replace(exact, parameters=(low, IMAGE), stored=(IN_BFLOAT16, None))
