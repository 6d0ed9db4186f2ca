"""Weights of dense layers on few rows that stay bytes in memory."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import weights_of_bytes
from tests.stock import stock_outputs
from tests.whole_weights import steps_of_weights
from tvm_ios.relay.build import build
from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.functions.packed_product import PACKED_DENSE, packing_of
from tvm_ios.relay.prepare import prepare
from tvm_ios.support.exact_bits import exact_bits

AVX2 = "llvm -mcpu=core-avx2"
SHAPE = (512, 144)


def packed_calls(prepared):
    calls = [each for call in prepared.extraction.calls for each in all_calls(call.op.body)]
    return [each for each in calls if each.op.name == PACKED_DENSE]


def layer(rows=3, weights=None, steps=relay.nn.relu):
    weights = steps_of_weights(*SHAPE) if weights is None else weights
    data = relay.var("data", shape=(rows, weights.shape[1]))
    return tvm.IRModule.from_expr(steps(relay.nn.dense(data, relay.const(weights))))


@pytest.mark.parametrize("target", [AVX2, "llvm -mcpu=skylake-avx512"])
def test_layers_on_few_rows_read_bytes(target):
    prepared = prepare(layer(), None, target)
    (call,) = packed_calls(prepared)
    assert packing_of(call.attrs).block == SHAPE[1]
    (operator,) = prepared.extraction.graph.operators
    assert operator.kind == "dense"
    assert operator.flops >= 2 * 3 * SHAPE[0] * SHAPE[1]
    assert SHAPE[0] * SHAPE[1] < operator.memory_bytes < 2 * SHAPE[0] * SHAPE[1]
    assert not operator.whole  # it computes in float32


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": 17},
        {"weights": steps_of_weights(64, 64)},
        {"weights": np.random.default_rng(0).standard_normal(SHAPE, "float32")},
    ],
    ids=["many rows", "few weights", "no steps"],
)
def test_others_stay(changed):
    assert not packed_calls(prepare(layer(**changed), None, AVX2))


def test_exact_bits_and_gpus_have_layers_of_float32():
    with exact_bits(True):
        assert not packed_calls(prepare(layer(), None, AVX2))
    assert not packed_calls(prepare(layer(), None, "cuda -arch=sm_80"))


def test_an_operator_that_is_no_step_comes_behind():
    assert len(packed_calls(prepare(layer(steps=relay.nn.softmax), None, AVX2))) == 1


@pytest.mark.slow(1)
def test_a_network_computes_the_same():
    module = weights_of_bytes()
    data = np.random.default_rng(0).standard_normal((1, 16, 12, 12), "float32")
    prepared = prepare(module, None, AVX2)
    assert len(packed_calls(prepared)) == 4
    (found,) = stock_outputs(build(prepared.module, prepared.target, {}).factory, data=data)
    (wanted,) = stock_outputs(relay.build(module, target="llvm -opt-level=0"), data=data)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def table(least=-127):
    return steps_of_weights(1, 512 * 144, least=least).reshape(512, 144)


def rows_of(weights, *names):
    taken = [
        relay.take(relay.const(weights), relay.var(name, shape=(5,), dtype="int64"), axis=0)
        for name in names
    ]
    return tvm.IRModule.from_expr(relay.tanh(sum(taken[1:], taken[0])))


@pytest.mark.parametrize("least", [-127, -200, 0])
def test_rows_of_a_table_are_read_as_bytes(least):
    weights, places = table(least), np.array([3, 0, 511, 77, 3])
    prepared = prepare(rows_of(weights, "i"), None, AVX2)
    (call,) = prepared.extraction.calls
    assert "uint8" in {str(each.checked_type.dtype) for each in call.op.params}
    (operator,) = prepared.extraction.graph.operators
    assert not operator.whole
    (found,) = stock_outputs(build(prepared.module, prepared.target, {}).factory, i=places)
    np.testing.assert_allclose(found, np.tanh(weights[places]), rtol=1e-5)


def test_equal_weights_are_stored_once():
    data = [relay.var(name, shape=(2, 144)) for name in "ab"]
    both = [relay.nn.dense(each, relay.const(steps_of_weights(*SHAPE))) for each in data]
    prepared = prepare(tvm.IRModule.from_expr(relay.Tuple(both)), None, AVX2)
    first, second = (call.args for call in prepared.extraction.calls)
    assert all(one.same_as(other) for one, other in zip(first[1:], second[1:], strict=True))


def test_tables_of_other_numbers_stay():
    module = rows_of(np.random.default_rng(0).standard_normal(SHAPE, "float32"), "i")
    (call,) = prepare(module, None, AVX2).extraction.calls
    assert {str(each.checked_type.dtype) for each in call.op.params} == {"float32", "int64"}
