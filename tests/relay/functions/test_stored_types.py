"""Fused functions that keep values in bfloat16, and what they compute in float32."""

from __future__ import annotations

import tvm
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.relay.functions.stored_types import computed_in_float32, with_stored_types

SHAPE = (2, 8)


def function(body=None):
    """A fused, typed function of two parameters."""
    x, y = (relay.var(name, shape=SHAPE) for name in "xy")
    made = relay.nn.relu(x + y) * x if body is None else body(x, y)
    fused = relay.Function([x, y], made).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    return typed(fused)["main"]


def types_of(given):
    return [str(each.checked_type.dtype) for each in given.params]


def test_casts_at_the_edges_are_told_apart_from_what_is_computed():
    plain = function()
    stored = with_stored_types(plain, dict.fromkeys([1], IN_BFLOAT16), IN_BFLOAT16)
    assert types_of(stored) == ["float32", "bfloat16"]
    assert stored.ret_type.dtype == "bfloat16"
    assert "Primitive" in stored.attrs
    found = computed_in_float32(stored)
    assert (found.parameters, found.result) == ({1: IN_BFLOAT16}, IN_BFLOAT16)
    assert found.arguments == dict.fromkeys((1, 2), IN_BFLOAT16)
    tvm.ir.assert_structural_equal(found.computed, plain, map_free_vars=True)


def test_a_function_without_casts_is_itself():
    plain = function()
    found = computed_in_float32(plain)
    assert found.computed is plain
    assert not found.arguments


def test_a_parameter_that_is_also_read_in_bfloat16_keeps_its_type():
    x, y = (relay.var(name, shape=SHAPE, dtype="bfloat16") for name in "xy")
    body = relay.cast(x, "float32") + relay.cast(x * y, "float32")
    found = computed_in_float32(typed(relay.Function([x, y], body))["main"])
    assert not found.arguments
    assert types_of(found.computed) == ["bfloat16", "bfloat16"]


def test_every_cast_of_one_parameter_is_that_parameter():
    x = relay.var("x", shape=SHAPE, dtype="bfloat16")
    body = relay.exp(relay.cast(x, "float32")) + relay.cast(x, "float32")
    found = computed_in_float32(typed(relay.Function([x], body))["main"])
    y = relay.var("x", shape=SHAPE)
    wanted = typed(relay.Function([y], relay.exp(y) + y))["main"]
    tvm.ir.assert_structural_equal(found.computed, wanted, map_free_vars=True)


def test_fields_of_a_tuple_are_arguments_of_their_own():
    x = relay.var("x", type_annotation=relay.TupleType([relay.TensorType(SHAPE)] * 2))
    y = relay.var("y", shape=SHAPE)
    body = relay.TupleGetItem(x, 0) + y
    stored = with_stored_types(
        typed(relay.Function([x, y], body))["main"], dict.fromkeys([1], IN_BFLOAT16), IN_BFLOAT16
    )
    assert computed_in_float32(stored).arguments == dict.fromkeys((2, 3), IN_BFLOAT16)


def test_several_results_are_rounded_together():
    x = relay.var("x", shape=SHAPE)
    plain = typed(relay.Function([x], relay.split(relay.nn.relu(x), 2, axis=1).astuple()))["main"]
    stored = with_stored_types(plain, dict.fromkeys([0], IN_BFLOAT16), IN_BFLOAT16)
    assert {str(each.dtype) for each in stored.ret_type.fields} == {"bfloat16"}
    found = computed_in_float32(stored)
    assert (set(found.arguments), found.results, found.is_mixed) == ({0, 1, 2}, 2, False)
    tvm.ir.assert_structural_equal(found.computed, plain, map_free_vars=True)


def test_fields_of_a_parameter_are_cast_one_by_one():
    x = relay.var("x", type_annotation=relay.TupleType([relay.TensorType(SHAPE)] * 2))
    plain = typed(relay.Function([x], relay.TupleGetItem(x, 1) + relay.TupleGetItem(x, 0)))["main"]
    stored = with_stored_types(plain, dict.fromkeys([0], IN_BFLOAT16), None)
    found = computed_in_float32(stored)
    assert (set(found.arguments), found.is_mixed) == ({0, 1}, True)
    tvm.ir.assert_structural_equal(found.computed, plain, map_free_vars=True)
